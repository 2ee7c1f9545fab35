"""Parts of a plan's candidate from columns of a table: prices, intervals, checks, latencies, breakdown, traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from planner.layout.step_traffic import Dispatch, step_traffic
from planner.model.precision import FORMATS
from planner.search.certainty import interval_of, inverse
from planner.search.explain import Explained
from planner.search.plan_schema import (
    Bound,
    Breakdown,
    Interval,
    Percentiles,
    Phase,
    SloCheck,
    Term,
    TierTraffic,
    UsdPerMtok,
)
from planner.search.rejections import told_apart
from planner.search.setup import Setup
from planner.search.table import Array, Deployments, Workers
from planner.serving.latency import METRICS, LoadResult
from planner.units import MIB, MILLISECOND


def token_prices(s: Setup, input_usd: float, output_usd: float) -> UsdPerMtok:
    """Dollars per million tokens, apart for input tokens that the prefix cache holds and that are computed."""
    hits = float(s.traffic.prefix_hit_rate)
    return UsdPerMtok(
        input=known(input_usd),
        uncached_input=known(input_usd / (1.0 - hits)),
        cached_input=0.0 if hits > 0.0 and np.isfinite(input_usd) else None,
        output=known(output_usd),
    )


def known(value: float) -> float | None:
    """``value``; None where it is not finite."""
    return float(value) if np.isfinite(value) else None


def intervals_of(
    s: Setup, d: Deployments, i: int, kind: str, spread: float, latency: Mapping[str, Percentiles]
) -> dict[str, Interval]:
    """Intervals of mean times; a rate's interval moves cost and energy the other way round."""
    o = d.outcome
    # the first token comes from the pool that prefills, the others and the rate from the one that decodes
    first, rest = (d.prefill or d.decode).hardware, d.decode.hardware
    of = {"ttft": first, "tpot": rest}
    found = {
        metric: interval_of(kind, name, mean, spread, of[name].own_runs, of[name].accelerator.id)
        for metric, name in (("ttft_ms", "ttft"), ("tpot_ms", "tpot"), ("tbt_ms", "tpot"))
        if (mean := latency[metric].mean) is not None
    }
    found |= {
        "output_tokens_per_s_per_gpu": interval_of(
            kind,
            "throughput",
            float(o.throughput_rps[i]) * float(s.traffic.output_tokens) / float(d.gpus[i]),
            spread,
            rest.own_runs,
            rest.accelerator.id,
        ),
    }
    ratio = interval_of(kind, "throughput", 1.0, spread, rest.own_runs, rest.accelerator.id)
    for name, value in (("usd_per_mtok", o.usd_per_mtok_output[i]), ("joules_per_token", o.joules_per_token[i])):
        if np.isfinite(value):
            found[name] = inverse(ratio, float(value))
    return found


def slo_checks(s: Setup, latency: Mapping[str, Percentiles], interval: Mapping[str, Interval]) -> tuple[SloCheck, ...]:
    """Limits against the percentiles that they name; a percentile is as uncertain as its mean, in proportion."""
    checks = []
    for metric, percentile, limit in s.scenario.slo.limits():
        value, mean = getattr(latency[metric], percentile), latency[metric].mean
        upper = interval.get(metric)
        checks.append(
            SloCheck(
                metric=metric,
                percentile=percentile,
                limit=limit,
                value=value,
                judged_on=percentile,
                met=value is not None and value <= limit,
                met_at_80=None if upper is None or not mean or value is None else value * upper.high80 / mean <= limit,
            )
        )
    return tuple(checks)


METRIC_NAMES: Mapping[str, str] = {"ttft_ms": "TTFT", "tbt_ms": "TBT", "tpot_ms": "TPOT", "e2e_ms": "E2E"}


def nearest_limit(checks: Sequence[SloCheck]) -> tuple[str, ...]:
    """Which of several limits leaves the least room, in proportion, as a sentence; none with fewer than two limits, and
    where a value is not known.
    """
    if len(checks) < 2 or any(k.value is None for k in checks):
        return ()
    nearest = max(checks, key=lambda k: (k.value or 0.0) / k.limit)
    value, limit = told_apart(nearest.value or 0.0, nearest.limit)
    name = f"{METRIC_NAMES[nearest.metric]} ({nearest.percentile})"
    return (f"Of the limits, {name} leaves the least room: {value} of {limit} ms.",)


def latencies(result: LoadResult, k: int) -> dict[str, Percentiles]:
    """Milliseconds by metric; None where the load is more than the workers pass."""
    return {
        f"{metric}_ms": Percentiles(
            **{name: known(values[k] / MILLISECOND) for name, values in getattr(result, metric).items()}
        )
        for metric in METRICS
    }


def breakdown_of(phases: tuple[tuple[Phase, Explained], ...], k: int) -> Breakdown:
    terms: list[Term] = []
    steps: dict[Phase, float] = {}
    for phase, explained in phases:
        total = float(explained.times.total[k])
        steps[phase] = total / MILLISECOND
        for name, exposed in explained.times.exposed.items():
            hidden = explained.times.hidden.get(name)
            beside = 0.0 if hidden is None else float(hidden[k])
            if exposed[k] <= 0 and beside <= 0:
                continue
            terms.append(
                Term(
                    phase=phase,
                    term=name,
                    exposed_ms=float(exposed[k]) / MILLISECOND,
                    hidden_ms=beside / MILLISECOND,
                    share=float(exposed[k]) / total,
                    bound=cast(Bound, explained.bound[name][k]),
                )
            )
    return Breakdown(step_ms=steps, terms=tuple(terms))


def step_bytes(s: Setup, w: Workers) -> tuple[Array, Array]:
    """Bytes that a GPU sends in a decode step inside the scale-up domain and over the network, (n,)."""
    up, far = np.zeros(len(w)), np.zeros(len(w))
    ways: tuple[tuple[Dispatch, NDArray[np.bool_]], ...] = (("direct", w.deepep), ("gather", ~w.deepep))
    for dispatch, there in ways:
        rows = np.flatnonzero(there)
        some = w.take(rows)
        found = step_traffic(
            s.spec,
            some.layouts,
            w.hardware.shape,
            some.concurrency / some.layouts.attention_dp / some.layouts.pp,
            dispatch=dispatch,
            activation_bytes=FORMATS[s.precision.activations].bytes_per_value,
            dispatch_bytes=FORMATS[s.precision.dispatch].bytes_per_value,
            combine_bytes=FORMATS[s.precision.combine].bytes_per_value,
        )
        up[rows] = sum(t.scale_up for t in found.values())
        far[rows] = sum(t.scale_out for t in found.values())
    return up, far


def tier_traffic(up: float, far: float) -> tuple[TierTraffic, ...]:
    return (
        TierTraffic(tier="scale_up", phase="decode", mib_per_step=up / MIB),
        TierTraffic(tier="network", phase="decode", mib_per_step=far / MIB),
    )

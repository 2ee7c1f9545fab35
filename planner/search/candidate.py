"""Chosen deployments written out as plan candidates: times, memory, breakdown, what binds, how sure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from planner.layout.step_traffic import Dispatch, step_traffic
from planner.memory.budget import MemoryBudget
from planner.model.precision import FORMATS
from planner.search.aggregated import budget_of
from planner.search.certainty import distance_of, evidence_note, extra_spread, interval_of, inverse
from planner.search.explain import Explained, binding_sentence, explain_step, gain_sentence
from planner.search.loaded import good_part
from planner.search.plan_schema import (
    AdmissionPolicy,
    Bound,
    Breakdown,
    Candidate,
    Evidence,
    Interval,
    KvTransfer,
    Layout,
    MemoryGib,
    OperatingPoint,
    Percentiles,
    Phase,
    Pool,
    PriorityLatency,
    SloCheck,
    Term,
    TierTraffic,
    UsdPerMtok,
)
from planner.search.policies import admission_policy, by_priority
from planner.search.rejections import REASONS, sentence
from planner.search.setup import Setup
from planner.search.table import Array, Deployments, IntArray, Workers
from planner.search.transfer import transfer_plans, transfer_sentences
from planner.search.worker_settings import (
    decode_sequences,
    kv_slots,
    operating_point,
    prefill_budget,
    prefill_sequences,
)
from planner.serving.latency import METRICS, LoadResult
from planner.serving.stepwise import with_stepwise
from planner.serving.worker import Scheduling, aggregated_steps, decode_work, prefill_pool_steps
from planner.units import MIB, MILLISECOND


def candidates(s: Setup, d: Deployments, rows: IntArray, ranks: Mapping[int, int]) -> dict[int, Candidate]:
    """Candidates for ``rows`` of a table, by row; ``ranks`` gives each row's rank."""
    taken = d.decode.take(rows)
    chosen = replace(taken, concurrency=np.maximum(taken.concurrency, 1.0))  # a step has a request in it
    budget = budget_of(s, chosen.hardware, chosen.layouts, chosen.concurrency, chosen.token_budget)
    share, drafts = s.request_share if d.prefill is None else 1.0, len(s.acceptance)
    slots = kv_slots(s, chosen, budget, share)
    if d.prefill is None:
        scheduling = Scheduling(
            chosen.token_budget.astype(float), s.scheduler.policy == "prefill_first", chosen.two_batch, chosen.deepep
        )
        steps = aggregated_steps(chosen.layouts, chosen.concurrency, slots, s.step_traffic, scheduling)
        decode = explain_step(s, chosen, steps.decode, drafts)
        prefill = explain_step(s, chosen, steps.prefill, drafts)
        pool, pool_budget, transfer = None, None, None
        second: Phase = "prefill" if s.scheduler.policy == "prefill_first" else "mixed"
    else:
        decode = explain_step(s, chosen, decode_work(chosen.concurrency, chosen.layouts, s.traffic), drafts)
        pool = d.prefill.take(rows)
        work, _, _ = prefill_pool_steps(pool.layouts, s.traffic, pool.token_budget.astype(float))
        prefill = explain_step(s, pool, work)
        pool_sequences = prefill_sequences(s, pool)
        pool_budget = prefill_budget(s, pool)
        transfer = transfer_plans(s, d, rows)
        second = "prefill"
    up, far = _traffic(s, chosen)
    assert d.loaded is not None
    looked_at = {k: d.steps[row] for k, row in enumerate(rows.tolist()) if row in d.steps}
    result = with_stepwise(d.loaded.take(rows).result(), looked_at)
    goodput = d.outcome.goodput_rps[rows]
    goodput = np.where(np.isnan(goodput), d.outcome.throughput_rps[rows] * good_part(s, result), goodput)
    sequences, budget = decode_sequences(s, chosen, result, share)
    slots = kv_slots(s, chosen, budget, share)
    hardware = [d.decode.hardware] if d.prefill is None else [d.prefill.hardware, d.decode.hardware]
    spread, note = extra_spread(hardware), cache(partial(evidence_note, s, hardware))
    out: dict[int, Candidate] = {}
    for k, row in enumerate(int(r) for r in rows):
        settings = operating_point(s, chosen, sequences, k)
        at_once = int(sequences[k] * chosen.layouts.attention_dp[k])
        out[row] = _candidate(
            s,
            d,
            row,
            ranks[row],
            _latencies(result, k),
            spread=spread,
            note=note,
            memory=MemoryGib(**budget.gib(k)),
            most=float(slots[k]),
            settings=settings,
            goodput_rps=float(goodput[k]),
            rejection=float(result.rejection[k]),
            outside=bool(result.outside[k]),
            admission=admission_policy(s, result, k, at_once),
            priorities=by_priority(s, d.loaded.worker.take(rows), result, k) if d.prefill is None else (),
            breakdown=_breakdown((("decode", decode), (second, prefill)), k),
            binding=binding_sentence(decode, k, "decode"),
            gains=(gain_sentence(decode, k, "decode"), gain_sentence(prefill, k, second)),
            pools=None
            if pool is None or pool_budget is None
            else _pools(
                s,
                d,
                row,
                (pool_budget, budget),
                (operating_point(s, pool, pool_sequences, k, drafts=False), settings),
                k,
            ),
            transfer=None if transfer is None else transfer[k],
            traffic=_tiers(float(up[k]), float(far[k])),
        )
    return out


def _candidate(
    s: Setup,
    d: Deployments,
    i: int,
    rank: int,
    latency: Mapping[str, Percentiles],
    *,
    spread: float,
    note: Callable[..., Evidence],
    memory: MemoryGib,
    most: float,
    settings: OperatingPoint,
    goodput_rps: float,
    rejection: float,
    outside: bool,
    admission: AdmissionPolicy,
    priorities: tuple[PriorityLatency, ...],
    breakdown: Breakdown,
    binding: str,
    gains: tuple[str, ...],
    pools: tuple[Pool, Pool] | None,
    transfer: KvTransfer | None,
    traffic: tuple[TierTraffic, ...],
) -> Candidate:
    o, w = d.outcome, d.decode
    kind = distance_of(s, d, i)
    interval = _interval(s, d, i, kind, spread, latency)
    gpus = int(d.gpus[i])
    output_rate = float(o.throughput_rps[i]) * float(s.traffic.output_tokens)
    input_rate = float(o.throughput_rps[i]) * float(s.traffic.input_tokens)
    spare = s.scenario.reliability.spare_nodes * (1 if d.prefill is None else 2)
    return Candidate(
        rank=rank,
        layout=Layout(**w.layouts.row(i)),
        serving=d.serving,
        gpus=gpus,
        replicas=int(w.count[i]),
        node=w.hardware.id,
        accelerator=w.hardware.accelerator.id,
        nodes=int(d.nodes[i]) + spare,
        prefill_pool=None if pools is None else pools[0],
        decode_pool=None if pools is None else pools[1],
        ttft_ms=latency["ttft_ms"],
        tbt_ms=latency["tbt_ms"],
        tpot_ms=latency["tpot_ms"],
        e2e_ms=latency["e2e_ms"],
        wait_ms=latency["wait_ms"],
        kv_transfer_ms=None if transfer is None else transfer.exposed_ms,
        kv_transfer=transfer,
        goodput_rps=goodput_rps,
        throughput_rps=float(o.throughput_rps[i]),
        output_tokens_per_s_per_gpu=output_rate / gpus,
        input_tokens_per_s_per_gpu=input_rate / gpus,
        output_tokens_per_s_per_user=None if latency["tpot_ms"].mean is None else 1e3 / latency["tpot_ms"].mean,
        rejection_probability=rejection,
        completion_rate=float(1.0 - o.rejection[i]) if o.stable[i] else 0.0,
        concurrency=float(w.concurrency[i] * w.count[i]),
        concurrency_per_worker=float(w.concurrency[i]),
        max_concurrency=most * float(w.count[i]),
        admission=admission,
        priorities=priorities,
        settings=settings,
        memory_gib=memory,
        usd_per_hour=_known(o.usd_per_hour[i]),
        usd_per_mtok=_token_prices(s, float(o.usd_per_mtok_input[i]), float(o.usd_per_mtok_output[i])),
        joules_per_token=_known(o.joules_per_token[i]),
        interval=interval,
        slo=_checks(s, latency, interval),
        binding=binding,
        explanation=(*_next_step(d, i, most), *transfer_sentences(transfer), *gains),
        breakdown=breakdown,
        traffic=traffic,
        evidence=note(kind, outside=outside),
    )


def serves_nothing(candidate: Candidate) -> Candidate:
    """A layout that does not hold a single request: one worker with its memory and its steps, without what it would
    deliver.
    """
    one, gpus = Percentiles(), candidate.layout.gpus
    return candidate.model_copy(
        update={
            **dict.fromkeys(("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms", "wait_ms"), one),
            **dict.fromkeys(("goodput_rps", "throughput_rps", "completion_rate", "max_concurrency"), 0.0),
            **dict.fromkeys(("output_tokens_per_s_per_gpu", "input_tokens_per_s_per_gpu"), 0.0),
            **dict.fromkeys(("usd_per_hour", "joules_per_token", "output_tokens_per_s_per_user", "admission")),
            "usd_per_mtok": UsdPerMtok(),
            "replicas": 1,
            "gpus": gpus,
            "nodes": None,
            "rejection_probability": 1.0,
            "concurrency": 0.0,
            "interval": {},
            "slo": (),
            "priorities": (),
            "explanation": (),
        }
    )


def _token_prices(s: Setup, input_usd: float, output_usd: float) -> UsdPerMtok:
    """Dollars per million tokens, apart for input tokens that the prefix cache holds and that are computed."""
    hits = float(s.traffic.prefix_hit_rate)
    return UsdPerMtok(
        input=_known(input_usd),
        uncached_input=_known(input_usd / (1.0 - hits)),
        cached_input=0.0 if hits > 0.0 and np.isfinite(input_usd) else None,
        output=_known(output_usd),
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _interval(
    s: Setup, d: Deployments, i: int, kind: str, spread: float, latency: Mapping[str, Percentiles]
) -> dict[str, Interval]:
    """Intervals of mean times; a rate's interval moves cost and energy the other way round."""
    o = d.outcome
    # the first token comes from the pool that prefills, the others and the rate from the one that decodes
    decode = d.decode.hardware.own_runs
    own = {"ttft": (d.prefill or d.decode).hardware.own_runs, "tpot": decode}
    found = {
        metric: interval_of(kind, name, mean, spread, own[name])
        for metric, name in (("ttft_ms", "ttft"), ("tpot_ms", "tpot"), ("tbt_ms", "tpot"))
        if (mean := latency[metric].mean) is not None
    }
    found |= {
        "output_tokens_per_s_per_gpu": interval_of(
            kind,
            "throughput",
            float(o.throughput_rps[i]) * float(s.traffic.output_tokens) / float(d.gpus[i]),
            spread,
            decode,
        ),
    }
    ratio = interval_of(kind, "throughput", 1.0, spread, decode)
    for name, value in (("usd_per_mtok", o.usd_per_mtok_output[i]), ("joules_per_token", o.joules_per_token[i])):
        if np.isfinite(value):
            found[name] = inverse(ratio, float(value))
    return found


def _checks(s: Setup, latency: Mapping[str, Percentiles], interval: Mapping[str, Interval]) -> tuple[SloCheck, ...]:
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


def _latencies(result: LoadResult, k: int) -> dict[str, Percentiles]:
    """Milliseconds by metric; None where the load is more than the workers pass."""
    return {
        f"{metric}_ms": Percentiles(
            **{name: _known(values[k] / MILLISECOND) for name, values in getattr(result, metric).items()}
        )
        for metric in METRICS
    }


def _next_step(d: Deployments, i: int, most: float) -> tuple[str, ...]:
    """Why not more requests per worker: what the next larger operating point of the same layout breaks. ``most``:
    requests that the memory of a worker holds.
    """
    if d.prefill is not None:
        return ()
    w = d.decode
    if d.loaded is not None and d.loaded.loop is None and int(w.count[i]) == 1:
        return (f"One worker carries the load, with {w.concurrency[i]:,.1f} requests in it on average.",)
    same = (w.token_budget == w.token_budget[i]) & (w.two_batch == w.two_batch[i])
    for values in w.layouts.as_columns().values():
        same &= values == values[i]
    larger = np.flatnonzero(same & (w.concurrency > w.concurrency[i]))
    if not larger.size:
        if w.concurrency[i] + 1.0 > most:
            return (f"Memory holds no more than {most:,.0f} requests per worker.",)
        return (f"More requests per worker were not evaluated; memory would hold {most:,.0f}.",)
    j = int(larger[np.argmin(w.concurrency[larger])])
    code = int(d.rejections.code[j])
    if code < 0:
        return ()
    reason = REASONS[d.rejections.names[code]]
    text = sentence(reason, float(d.rejections.needed[j]), float(d.rejections.available[j]))
    return (f"More requests do not fit: at {w.concurrency[j]:,.0f} per worker, {text}.",)


def _breakdown(phases: tuple[tuple[Phase, Explained], ...], k: int) -> Breakdown:
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


def _pools(
    s: Setup,
    d: Deployments,
    i: int,
    budgets: tuple[MemoryBudget, MemoryBudget],
    settings: tuple[OperatingPoint, OperatingPoint],
    k: int,
) -> tuple[Pool, Pool]:
    assert d.prefill is not None
    rate = float(d.outcome.throughput_rps[i])
    tokens = (float(s.traffic.new_tokens), float(s.traffic.output_tokens))
    busy = (float(d.outcome.prefill_utilisation[i]), float(d.outcome.utilisation[i]))
    pools = []
    rows = zip((d.prefill, d.decode), budgets, settings, tokens, busy, strict=True)
    for w, budget, own, per_request, used in rows:
        gpus = int(w.gpus[i])
        pools.append(
            Pool(
                node=w.hardware.id,
                layout=Layout(**w.layouts.row(i)),
                workers=int(w.count[i]),
                gpus=gpus,
                nodes=int(w.nodes[i]),
                concurrency_per_worker=float(w.concurrency[i]),
                utilisation=used,
                tokens_per_s_per_gpu=rate * per_request / gpus,
                memory_gib=MemoryGib(**budget.gib(k)),
                settings=own,
            )
        )
    return pools[0], pools[1]


def _traffic(s: Setup, w: Workers) -> tuple[Array, Array]:
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


def _tiers(up: float, far: float) -> tuple[TierTraffic, ...]:
    return (
        TierTraffic(tier="scale_up", phase="decode", mib_per_step=up / MIB),
        TierTraffic(tier="network", phase="decode", mib_per_step=far / MIB),
    )

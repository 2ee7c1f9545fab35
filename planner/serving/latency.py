"""Percentiles of queue wait, TTFT, TBT, TPOT and whole requests of a worker under load.

Definitions, shared with the replay: TTFT from arrival to the first token; TBT every gap between consecutive tokens of
all requests, pooled; TPOT (last - first token) / (O - 1) of a request; wait from arrival to the first step that carries
the prompt. Each time is a sum of independent parts (:mod:`planner.serving.quantiles`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.serving.convolution import refined
from planner.serving.gaps import decode_parts, longest_gap, tbt_quantiles, tpot_parts
from planner.serving.open_loop import Flow, WorkerLoad, flow
from planner.serving.prefill_pool import PrefillPool
from planner.serving.quantiles import LEVELS, Part, sum_quantile, total, waiting_part
from planner.serving.queues import Wait
from planner.serving.rows import put
from planner.serving.slots import lane_full, rejection
from planner.serving.ttft import split_parts, ttft_parts

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

RARE = 1e-4
"""Probability of a queue that settings are still made for."""
METRICS = ("wait", "ttft", "tbt", "tpot", "e2e")
EVERYTHING: Mapping[str, Sequence[str]] = {metric: tuple(LEVELS) for metric in METRICS}
"""Every percentile of every metric."""


@dataclass(frozen=True)
class LoadResult:
    """Times in seconds by "mean" and percentile ("p50", ...), each (n,); infinite where a worker is not stable."""

    wait: dict[str, Array]
    ttft: dict[str, Array]
    tbt: dict[str, Array]
    tpot: dict[str, Array]
    e2e: dict[str, Array]
    rejection: Array
    """Part of requests that find no KV slot (0 to 1); they leave where admission rejects and wait where it queues."""
    stable: BoolArray
    outside: BoolArray
    """Where the closed forms cannot be trusted; :data:`OUTSIDE` says why."""
    flow: Flow

    @property
    def completion(self) -> Array:
        """Part of requests that are served where those without a slot are refused; 0 where the worker is not stable."""
        return np.where(self.stable, 1.0 - self.rejection, 0.0)

    @property
    def peak_occupancy(self) -> Array:
        """Requests present that are exceeded rarely: four standard deviations above the mean, and those that come while
        the prompt work that one in 10,000 finds is done (it leaves them to decode all at once where decodes pause)."""
        f = self.flow
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(f.stable, f.backlog.mean, 0.0)
            queue = waiting_part(mean, f.backlog.probability, f.backlog.delayed_scv)
            queued = queue.quantile(1.0 - RARE) * f.occupancy / f.residence_s
        return np.asarray(np.ceil(f.occupancy + 4.0 * np.sqrt(f.occupancy_variance) + np.nan_to_num(queued)))

    def updated(self, rows: NDArray[np.int64], part: LoadResult) -> LoadResult:
        """With the candidates at positions ``rows`` replaced by those of ``part``."""

        found: dict[str, Any] = {
            m: {name: put(v, rows, getattr(part, m)[name]) for name, v in getattr(self, m).items()} for m in METRICS
        }
        found |= {
            name: put(getattr(self, name), rows, getattr(part, name)) for name in ("rejection", "stable", "outside")
        }
        mine, theirs = self.flow, part.flow
        states: dict[str, Any] = {
            f.name: put(getattr(mine, f.name), rows, getattr(theirs, f.name))
            for f in fields(Flow)
            if f.name != "backlog"
        }
        queue = Wait(*(put(getattr(mine.backlog, f.name), rows, getattr(theirs.backlog, f.name)) for f in fields(Wait)))
        return LoadResult(**found, flow=Flow(**states, backlog=queue))

    def take(self, rows: NDArray[np.int64]) -> LoadResult:
        """The candidates at positions ``rows``."""
        found: dict[str, Any] = {m: {name: v[rows] for name, v in getattr(self, m).items()} for m in METRICS}
        found |= {name: getattr(self, name)[rows] for name in ("rejection", "stable", "outside")}
        return LoadResult(**found, flow=self.flow.take(rows))

    def get(self, metric: str, percentile: str) -> Array:
        """Seconds of a metric (:data:`METRICS`) at "mean" or a percentile."""
        found: Array = getattr(self, metric)[percentile]
        return found


def joined(parts: Sequence[LoadResult]) -> LoadResult:
    """Results of consecutive blocks of candidates, end to end."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    found: dict[str, Any] = {
        m: {name: np.concatenate([getattr(p, m)[name] for p in parts]) for name in getattr(first, m)} for m in METRICS
    }
    found |= {name: np.concatenate([getattr(p, name) for p in parts]) for name in ("rejection", "stable", "outside")}
    states: dict[str, Any] = {
        f.name: np.concatenate([getattr(p.flow, f.name) for p in parts]) for f in fields(Flow) if f.name != "backlog"
    }
    backlog = Wait(*(np.concatenate([getattr(p.flow.backlog, f.name) for p in parts]) for f in fields(Wait)))
    return LoadResult(**found, flow=Flow(**states, backlog=backlog))


OUTSIDE = (
    "prompt load above 0.9 of the token budget, bursts larger than what the worker holds at once, or KV slots that "
    "run out for more than one in a hundred requests, on one of several attention-DP ranks for more than one in "
    "five hundred"
)
UTILISATION_RANGE, FULL_RANGE = 0.9, 0.01
LANE_FULL_RANGE = 0.002
"""Part of requests that find their attention-DP rank full: they wait for the end of a whole request, and those behind
them too, whatever room other ranks have. P99 of TTFT feels it long before it is one in a hundred."""


def percentiles(
    load: WorkerLoad,
    wanted: Mapping[str, Sequence[str]] = EVERYTHING,
    prefill: PrefillPool | None = None,
    known: Flow | None = None,
) -> LoadResult:
    """Latencies of a worker at its rate; only the ``wanted`` percentiles by metric are computed beside means. ``known``
    is its steady state (:func:`flow`) where that was found before.

    TTFT = wait until the scheduler looks + wait for room in the token budget + wait for a KV slot + prompts in the same
    steps + own prompt + fixed time. TBT = decode step at the occupancy that tokens see, plus, in the part f of gaps
    that prompts interrupt, what they add. TPOT = mean gap, with the occupancy's drift over a request and the chance
    number of prompts beside it. Whole request = TTFT + (O - 1) TPOT.

    With ``prefill``, prompts are processed elsewhere: TTFT = wait of that pool + own prompt + KV transfer + the wait
    for a slot and for the decode scheduler; ``load`` then has no prompt work (prefill_step_s 0, decodes_pause).
    """
    f = flow(load) if known is None else known
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # what is not stable answers infinity
        if prefill is None:
            first, until_first = ttft_parts(load, f)
        else:
            first, until_first = split_parts(load, f, prefill)
            f = replace(f, stable=f.stable & prefill.stable)
        refused = rejection(load, f)
    found = spread_of(load, f, first, until_first, wanted, refused)
    return found if prefill is None else replace(found, outside=found.outside | (prefill.load > UTILISATION_RANGE))


def spread_of(
    load: WorkerLoad,
    f: Flow,
    first: Sequence[Part],
    until_first: Sequence[Part],
    wanted: Mapping[str, Sequence[str]],
    refused: Array,
) -> LoadResult:
    """Percentiles of a worker in steady state ``f`` whose TTFT and wait are the sums of these parts."""
    # ascending, whatever the order asked in: a percentile is at least the one before it
    names = {metric: ("mean", *(name for name in LEVELS if name in levels)) for metric, levels in wanted.items()}
    found: dict[str, dict[str, Array]] = {name: {} for name in METRICS}
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if "wait" in names:
            found["wait"] = _quantiles(until_first, names["wait"], 0.0, f.stable)
        if "ttft" in names:
            found["ttft"] = _quantiles(first, names["ttft"], load.request_s, f.stable, exact=True)
        for name in names.get("ttft", ()):
            if name in found["wait"]:  # a part of TTFT is not above it, whatever the rules for sums of both say
                found["wait"][name] = np.minimum(found["wait"][name], found["ttft"][name] - load.request_s)
        if "tpot" in names:
            times = _quantiles(tpot_parts(load, f), names["tpot"], 0.0, f.stable)
            # no request is slower than its longest gap could be
            most = np.where(f.stable, np.maximum(longest_gap(load, f), f.tpot_s), np.inf)
            found["tpot"] = {name: v if name == "mean" else np.minimum(v, most) for name, v in times.items()}
        if "e2e" in names:
            found["e2e"] = _quantiles([*first, *decode_parts(load, f)], names["e2e"], load.request_s, f.stable)
        if "tbt" in names:
            found["tbt"] = tbt_quantiles(load, f, names["tbt"])
    crowded = np.sqrt(f.occupancy_variance) > np.maximum(load.slots - f.occupancy, 1e-9)
    outside = ~f.stable | (f.utilisation > UTILISATION_RANGE) | ((f.occupancy_variance > 0.0) & crowded)
    outside = outside | (refused > FULL_RANGE) | (lane_full(load, f) > LANE_FULL_RANGE)
    return LoadResult(**found, rejection=refused, stable=f.stable, outside=outside, flow=f)


def _quantiles(
    parts: Sequence[Part], names: Sequence[str], fixed: Array | float, stable: BoolArray, *, exact: bool = False
) -> dict[str, Array]:
    """Mean and percentiles of a sum, infinite where not stable, each at least the percentile before it.

    ``exact`` starts from the rule for sums and goes on with the convolution.
    """
    out: dict[str, Array] = {}
    least: Array | float = 0.0
    for name in names:
        if name == "mean":
            value = total(parts)[0]
        else:
            value = sum_quantile(parts, LEVELS[name])
            value = np.maximum(refined(parts, LEVELS[name], value) if exact else value, least)
        least = least if name == "mean" else value
        out[name] = np.where(stable, value + fixed, np.inf)
    return out

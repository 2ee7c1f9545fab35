"""Requests in a deployment at once: which ones a candidate counts, and Little's law with the candidate's own times.

A candidate counts the requests that hold KV cache: in one kind of worker those from their first step to their last
token, in separate pools those that the decode workers have. A closed loop keeps all of its requests in flight, waiting
ones included. Little's law (Operations Research 9, 1961) gives each from the rate of requests and the seconds that one
of them is counted for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate
from planner.search.setup import Setup
from planner.search.table import Deployments
from planner.serving.latency import LoadResult
from planner.units import MILLISECOND

Array = NDArray[np.float64]
Counted = Literal["workers", "decode", "loop"]

COUNTED: dict[Counted, str] = {
    "workers": "requests in the workers, from first step to last token",
    "decode": "requests in the decode workers",
    "loop": "requests in flight, waiting ones included",
}
"""Which requests a candidate counts, in words."""


def counted(scenario: Scenario, c: Candidate) -> Counted:
    """Which requests the candidate's ``concurrency`` counts."""
    if c.prefill_pool is not None:
        return "decode"
    return "loop" if scenario.workload.arrival.rate() is None else "workers"


@dataclass(frozen=True)
class Little:
    """Requests = ``rate_rps`` x the seconds of ``parts``, the first less the others; for a loop, all of them added."""

    counted: Counted
    rate_rps: float
    parts: tuple[float, ...]
    """workers: whole request, wait before the first step, time outside the steps. decode: whole request, TTFT. loop:
    TTFT, output tokens after the first x TPOT."""

    @property
    def stay_s(self) -> float:
        first, *others = self.parts
        return first + sum(others) if self.counted == "loop" else first - sum(others)

    @property
    def requests(self) -> float:
        return self.rate_rps * self.stay_s


def little(scenario: Scenario, c: Candidate) -> Little | None:
    """Little's law for ``c.concurrency``; None where a term is not known."""
    kind, rate = counted(scenario, c), c.throughput_rps
    ttft, tpot, whole, wait = (p.mean for p in (c.ttft_ms, c.tpot_ms, c.e2e_ms, c.wait_ms))
    if not rate or ttft is None:
        return None
    if kind == "loop":
        if tpot is None:
            return None
        further = max(float(scenario.workload.output_tokens.mean()) - 1.0, 0.0)
        return Little(kind, rate, (ttft * MILLISECOND, further * tpot * MILLISECOND))
    if whole is None:
        return None
    if kind == "decode":
        return Little(kind, rate, (whole * MILLISECOND, ttft * MILLISECOND))
    if wait is None:
        return None
    outside = max((whole - wait) * MILLISECOND - c.concurrency / rate, 0.0)  # what the count was made with
    return Little(kind, rate, (whole * MILLISECOND, wait * MILLISECOND, outside))


def set_to_run(c: Candidate) -> int | None:
    """Requests that the engines' settings let run at once, over the same workers as ``c.concurrency``; None where the
    plan does not say. No more than memory holds, and often far fewer: settings follow from the load.
    """
    at_once = c.settings.max_num_seqs
    return None if at_once is None else at_once * c.layout.attention_dp * c.replicas


def in_workers(s: Setup, d: Deployments, rows: NDArray[np.int64], result: LoadResult) -> Array:
    """Mean requests that hold KV in one worker of each of ``rows``, (n,), by the times of ``result``, which are of
    these rows; what the table says where they are not steady. In separate pools: in one decode worker.
    """
    assert d.loaded is not None
    before = np.asarray(d.decode.concurrency[rows], dtype=float)
    if d.prefill is None and s.rate_rps is None:
        return before
    whole, ttft, wait = (getattr(result, m)["mean"] for m in ("e2e", "ttft", "wait"))
    outside = np.broadcast_to(d.loaded.worker.request_s, d.decode.concurrency.shape)[rows]
    with np.errstate(invalid="ignore"):
        stay = whole - ttft if d.prefill is not None else whole - wait - outside
        held = d.outcome.throughput_rps[rows] / np.maximum(d.decode.count[rows], 1) * stay
    return np.where(result.stable & np.isfinite(held) & (held > 0.0), held, before)

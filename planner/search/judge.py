"""The verdict on every deployment: memory, longest request, nodes, rate, SLO, in that order."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from planner.search.rejections import Judge, Rejections
from planner.search.setup import Setup
from planner.search.table import Outcome, Workers
from planner.units import GIB, MILLISECOND

Array = NDArray[np.float64]


class Fits(Protocol):
    """What judging needs of memory budgets, arrays (n,); bytes of the tightest rank."""

    @property
    def total(self) -> Array: ...

    @property
    def capacity(self) -> Array: ...

    @property
    def fits(self) -> NDArray[np.bool_]: ...


def latency_ms(outcome: Outcome, metric: str, level: str) -> Array:
    """A metric of the SLO ("ttft_ms", ...) at "mean" or a percentile, in milliseconds, (n,)."""
    return outcome.latency[(metric.removesuffix("_ms"), level)] / MILLISECOND


def judge(
    s: Setup,
    decode: Workers,
    prefill: Workers | None,
    outcome: Outcome,
    budgets: tuple[Fits, ...],
) -> Rejections:
    """Reasons of all candidates; every limit is compared with the percentile that it names."""
    verdict = Judge(len(decode))
    for budget in budgets:
        verdict.check("memory", budget.total / GIB, budget.capacity / GIB, broken=~budget.fits)
    for pool in (decode, prefill):
        if pool is None:
            continue
        most = pool.hardware.choice.max_nodes
        if most is not None:
            verdict.check("nodes", pool.nodes + s.scenario.reliability.spare_nodes, float(most))
    if s.rate_rps is not None:
        verdict.check("rate", float(s.rate_rps), outcome.reached_rps, broken=~outcome.stable)
    for metric, level, limit in s.scenario.slo.limits():
        verdict.check(f"slo_{metric.removesuffix('_ms')}", latency_ms(outcome, metric, level), limit)
    if s.scenario.slo.completion_rate is not None:
        verdict.check("completion", s.scenario.slo.completion_rate, 1.0 - outcome.rejection)
    return verdict.done()

"""The verdict on every deployment: memory, rate, SLO, nodes, in that order: what only more nodes would let through says
so, and what more nodes would not help does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from planner.search.rejections import Judge, Rejections
from planner.search.setup import Setup
from planner.search.standing import billed_nodes
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


def nodes_limited(s: Setup, decode: Workers, prefill: Workers | None) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Nodes that are taken of each choice with a limit, (n,), and the limit: spare ones included, and of both pools
    together where both stand on one choice.
    """
    for pool, nodes in billed_nodes(s, (decode,) if prefill is None else (decode, prefill)):
        most = pool.hardware.choice.max_nodes
        if most is not None:
            yield nodes, most


def short_of_nodes(s: Setup, decode: Workers, prefill: Workers | None) -> NDArray[np.bool_]:
    """Where a deployment takes more nodes of a choice than it allows, (n,)."""
    out = np.zeros(len(decode), dtype=bool)
    for nodes, most in nodes_limited(s, decode, prefill):
        out |= nodes > most
    return out


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
    if s.rate_rps is not None:
        verdict.check("rate", float(s.rate_rps), outcome.reached_rps, broken=~outcome.stable)
    _check_limits(s, outcome, verdict)
    if s.scenario.slo.completion_rate is not None:
        verdict.check("completion", s.scenario.slo.completion_rate, 1.0 - outcome.rejection)
    for nodes, most in nodes_limited(s, decode, prefill):
        verdict.check("nodes", nodes, float(most))
    return verdict.done()


def _check_limits(s: Setup, outcome: Outcome, verdict: Judge) -> None:
    """Of several limits that a candidate breaks, the one that it misses by most is the reason."""
    limits = s.scenario.slo.limits()
    if not limits:
        return
    values = [np.broadcast_to(latency_ms(outcome, metric, level), verdict.count) for metric, level, _ in limits]
    over = [np.where(np.isnan(v), np.inf, v) / limit for v, (_, _, limit) in zip(values, limits, strict=True)]
    worst = np.argmax(over, axis=0) if len(over) > 1 else np.zeros(verdict.count, dtype=np.int64)
    for i, (metric, _, limit) in enumerate(limits):
        broken = ~(over[i] <= 1.0) & (worst == i)
        verdict.check(f"slo_{metric.removesuffix('_ms')}", values[i], limit, broken=broken)

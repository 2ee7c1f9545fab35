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

MEAN_OF_METRIC = {"ttft_ms": "ttft", "tbt_ms": "tpot", "tpot_ms": "tpot", "e2e_ms": "e2e"}
"""Which mean stands for a metric: the mean gap between tokens is the mean time per output token."""


class Fits(Protocol):
    """What judging needs of memory budgets, arrays (n,); bytes of the tightest rank."""

    @property
    def total(self) -> Array: ...

    @property
    def capacity(self) -> Array: ...

    @property
    def fits(self) -> NDArray[np.bool_]: ...


def latencies_ms(s: Setup, outcome: Outcome) -> dict[str, Array]:
    """Means in milliseconds by metric of the SLO."""
    out = float(s.traffic.output_tokens)
    e2e = outcome.ttft_s + np.maximum(out - 1.0, 0.0) * outcome.tpot_s
    means = {"ttft": outcome.ttft_s, "tpot": outcome.tpot_s, "e2e": e2e}
    return {metric: means[mean] / MILLISECOND for metric, mean in MEAN_OF_METRIC.items()}


def judge(
    s: Setup,
    decode: Workers,
    prefill: Workers | None,
    outcome: Outcome,
    budgets: tuple[Fits, ...],
    worker_rps: Array,
) -> Rejections:
    """Reasons of all candidates; a percentile's limit is compared with the mean until percentiles are computed."""
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
        verdict.check("rate", float(s.rate_rps), decode.count * worker_rps, broken=~(worker_rps > 0))
    values = latencies_ms(s, outcome)
    for metric, _, limit in s.scenario.slo.limits():
        verdict.check(f"slo_{metric.removesuffix('_ms')}", values[metric], limit)
    return verdict.done()

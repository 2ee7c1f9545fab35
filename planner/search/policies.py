"""What a plan says beside its numbers: the admission policy of a worker, and latencies by priority class."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from planner.search.plan_schema import AdmissionPolicy, Percentiles, PriorityLatency
from planner.search.setup import Setup
from planner.serving.admission import Policy
from planner.serving.latency import LoadResult
from planner.serving.open_loop import WorkerLoad
from planner.serving.priorities import by_class
from planner.units import MILLISECOND

Array = NDArray[np.float64]

PATIENCE_S = 10.0
"""Longest wait that a queue is sized for where no limit on TTFT says how long a request may wait."""


def admission_policy(s: Setup, result: LoadResult, k: int, max_sequences: int) -> AdmissionPolicy:
    """Policy of one worker of candidate ``k``: as many wait as start within the limit on TTFT.

    Classes that are less urgent leave the blocks that the more urgent ones hold on average.
    """
    limits = s.limits_s.get("ttft", {})
    patience = min(limits.values()) if limits else PATIENCE_S
    flow = result.flow
    rate = float(flow.occupancy[k] / flow.residence_s[k]) if result.stable[k] else 0.0
    full = min(float(flow.occupancy[k] / max(float(flow.slots[k]), 1e-9)), 1.0) if result.stable[k] else 1.0
    held: dict[int, float] = {}
    before = 0.0
    for one in sorted(s.scenario.workload.priority_classes, key=lambda c: c.priority):
        held[one.priority] = max(held.get(one.priority, 0.0), round(before * full, 4))
        before += one.share
    policy = Policy(
        max_sequences=max_sequences,
        max_context_tokens=s.longest_request,
        max_waiting=max(1, ceil(rate * patience)),
        held_back={p: share for p, share in held.items() if share > 0},
    )
    return AdmissionPolicy(**policy.to_dict())


def by_priority(s: Setup, load: WorkerLoad, result: LoadResult, k: int) -> tuple[PriorityLatency, ...]:
    """Waits and TTFT of candidate ``k`` by class; none in a closed loop and where a worker is not stable."""
    classes = sorted(s.scenario.workload.priority_classes, key=lambda c: c.priority)
    if not classes or not result.stable[k] or s.rate_rps is None:
        return ()
    found = by_class(load, result, k, [c.share for c in classes])
    return tuple(
        PriorityLatency(
            name=c.name,
            priority=c.priority,
            share=c.share,
            wait_ms=_milliseconds(found["wait"], i),
            ttft_ms=_milliseconds(found["ttft"], i),
        )
        for i, c in enumerate(classes)
    )


def _milliseconds(seconds: dict[str, Array], i: int) -> Percentiles:
    values = {name: float(v[i]) / MILLISECOND for name, v in seconds.items()}
    return Percentiles(**{name: v for name, v in values.items() if np.isfinite(v)})

"""Deployments with steps at their own occupancy.

A search evaluates steps on a grid of operating points and carries them along their slope to the occupancy that the load
of each deployment comes to. What is listed is evaluated again there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.search.evaluation import at_occupancy, at_own_occupancy, stepped, under_load
from planner.search.judge import judge
from planner.search.loaded import Loaded, slopes, worker_load
from planner.search.outcome import outcome_of
from planner.search.selection import Key
from planner.search.setup import Setup
from planner.search.table import Array, Deployments, IntArray, Workers
from planner.serving.open_loop import WorkerLoad

FEW = 1_000
"""Feasible deployments of a table that are settled all at once: one evaluation of so many takes little longer than of
a few, and saves the next."""


def settled(s: Setup, tables: Sequence[Deployments], keys: Sequence[Key]) -> list[Deployments]:
    """``tables`` with those of ``keys`` settled that are not; a table without any stays the same object."""
    out = []
    for t, table in enumerate(tables):
        rows = np.array([row for of, row in keys if of == t], dtype=np.int64)
        if table.settled is not None and not table.settled[rows].all():
            good = np.flatnonzero(table.rejections.feasible)
            rows = good if good.size <= FEW else rows
        out.append(settle(s, table, rows))
    return out


def settle(s: Setup, d: Deployments, rows: IntArray) -> Deployments:
    """The table with ``rows`` settled, those apart that are."""
    if d.settled is None or not rows.size or d.settled[rows].all():
        return d
    rows = np.unique(rows[~d.settled[rows]])
    assert d.loaded is not None
    load = d.loaded.worker.take(rows)
    return d.updated(rows, at_own_steps(s, d.decode.take(rows), load, load.decode_step_slope_s))


def at_own_steps(s: Setup, w: Workers, load: WorkerLoad, slope: Array | None = None) -> Deployments:
    """A table of aggregated workers, judged, with steps at the occupancy that their counts come to at the offered rate,
    found along the slope of ``load``; in a closed loop with as many requests as they have.

    ``slope``: seconds that one more request adds to a step, evaluated where None.
    """
    closed = s.rate_rps is None
    w = w if closed else at_own_occupancy(s, w, load)
    loop, held, stage = stepped(s, w)
    slope = slopes(s, w, stage.decode_s, 1) if slope is None else slope
    load = worker_load(s, w, stage, slope)
    loaded = Loaded(load, loop=loop, concurrency=w.concurrency) if closed else Loaded(load)
    result = under_load(s, loaded)
    w = w if closed else at_occupancy(w, result, held)
    outcome = outcome_of(s, w, None, result, loop.throughput_rps)
    return Deployments("agg", w, None, outcome, judge(s, w, None, outcome, (held,)), len(w), loaded)

"""How many workers a deployment has under an offered rate: by occupancy, and brought down to the fewest that hold every
limit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.search.evaluation import Held, at_own_occupancy, stepped, under_load
from planner.search.loaded import (
    Loaded,
    Stage,
    asked,
    meets,
    rates,
    sharing,
    worker_load,
)
from planner.search.setup import Setup
from planner.search.table import Workers
from planner.serving.closed_loop import LoopTimes
from planner.serving.latency import LoadResult

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


def sized(w: Workers, rate: float, loop: LoopTimes) -> Workers:
    """Workers for an offered rate: as many as keep each at the mean occupancy of its row."""
    need = np.ceil(rate / loop.throughput_rps - 1e-9)
    count = np.where(np.isfinite(need), np.maximum(need, 1.0), 1.0)
    return replace(w, count=count.astype(np.int64))


def repeated(w: Workers, stride: int) -> NDArray[np.bool_]:
    """Rows that take as many workers as the operating point before theirs: they describe the same deployment."""
    n = len(w)
    before = np.arange(n) - stride
    there = before >= 0
    at = np.where(there, before, 0)
    for column in (*w.layouts.as_columns().values(), w.two_batch, w.token_budget, w.count):
        there = there & (column[at] == column)
    return there & (w.concurrency[at] < w.concurrency)


SLACK = 0.1
"""Relative excess of a mean occupancy over the one asked for that still counts as equal: a plan carries steps along
their slope from a point nearby."""


def at_most(s: Setup, w: Workers, stage: Stage, slope: Array) -> tuple[Workers, Loaded, LoadResult]:
    """As many workers as keep the requests of a row in each on average, one fewer than the closed loop's count or more;
    a few rows at most.
    """
    most = w.count + 1
    w = replace(w, count=np.maximum(w.count - 1, 1))
    while True:
        loaded = Loaded(worker_load(s, w, stage, slope))
        result = under_load(s, loaded)
        crowded = ~result.stable | (result.flow.occupancy > w.concurrency * (1.0 + SLACK))
        over = crowded & (w.count < most)
        if not over.any():
            return w, loaded, result
        w = replace(w, count=w.count + over)


def brought_down(
    s: Setup, w: Workers, held: Held, loaded: Loaded
) -> tuple[Workers, Held, Loaded, LoadResult, NDArray[np.bool_]]:
    """The leanest deployment of each layout and its settings that meets every limit, brought down to as few workers as
    still do; the load with the percentiles that limits name, and which rows have changed.

    Counts are found along the slope of the step times; the steps are then evaluated again at the occupancy that comes
    out. Where a limit breaks after all, the larger count stays.
    """
    result = under_load(s, loaded, asked(s))
    rows = np.flatnonzero(meets(s, result))
    changed = np.zeros(len(w), dtype=bool)
    lean = rows[_leanest(w.take(rows))] if rows.size else rows
    fewer = fewest_workers(s, loaded.take(lean), w.count[lean], np.maximum(w.count[lean] // 2, 1))
    lean, fewer = lean[fewer < w.count[lean]], fewer[fewer < w.count[lean]]
    if not lean.size:
        return w, held, loaded, result, changed
    load = loaded.worker.take(lean)
    few = at_own_occupancy(s, replace(w.take(lean), count=fewer), load)
    _, budget, stage = stepped(s, few)
    here = Loaded(worker_load(s, few, stage, load.decode_step_slope_s))
    found = under_load(s, here, asked(s))
    good = np.flatnonzero(meets(s, found))
    lean = lean[good]
    changed[lean] = True
    w, held = w.updated(lean, few.take(good)), held.updated(lean, budget.take(good))
    return w, held, loaded.updated(lean, here.take(good)), result.updated(lean, found.take(good)), changed


HALVINGS = 12


def fewest_workers(s: Setup, loaded: Loaded, count: NDArray[np.int64], least: NDArray[np.int64]) -> NDArray[np.int64]:
    """Smallest worker counts in ``least``..``count`` that meet every limit, (n,); ``count`` is known to.

    By bisection: with fewer workers each gets more, and no latency falls. The step times are carried on along their
    slope from the operating point of ``count``.
    """
    low, high = np.minimum(least, count), count.copy()
    wanted = asked(s)
    for _ in range(HALVINGS):
        open_rows = np.flatnonzero(low < high)
        if not open_rows.size:
            break
        middle = (low[open_rows] + high[open_rows]) // 2
        rate, cv = rates(s, middle)
        few = loaded.take(open_rows)
        result = Loaded(few.worker.at_rate(rate, cv, sharing(s, middle))).result(wanted)
        good = meets(s, result)
        high[open_rows] = np.where(good, middle, high[open_rows])
        low[open_rows] = np.where(good, low[open_rows], middle + 1)
    return high


def _leanest(w: Workers) -> IntArray:
    """Positions of the row with the fewest workers of each layout and its settings."""
    settings = np.stack([*w.layouts.as_columns().values(), w.two_batch.astype(np.int64), w.token_budget])
    order = np.lexsort((w.count, *settings))
    change = (np.diff(settings[:, order], axis=1) != 0).any(axis=0)
    return np.sort(order[np.concatenate([[True], change])])

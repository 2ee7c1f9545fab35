"""Which settings of a layout are worth a look under load: those that no other setting beats at the same concurrency."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.search.table import Workers
from planner.serving.closed_loop import LoopTimes

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def contenders(w: Workers, loop: LoopTimes) -> BoolArray:
    """Rows that no row of the same layout and concurrency beats, (n,).

    Token budget and overlap change TPOT, TTFT and throughput of a full worker; a setting that is no better in any of
    the three and worse in one is so under a lighter load as well, and needs no percentiles. Equal settings stay.
    """
    key = _place(w)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0])
    sizes = np.diff(np.r_[starts, key.size])
    group = np.repeat(np.arange(starts.size), sizes)
    column = np.arange(key.size) - np.repeat(starts, sizes)
    shape = (starts.size, int(sizes.max(initial=1)))
    worse = np.zeros((*shape, shape[1]), dtype=bool)
    equal = np.ones((*shape, shape[1]), dtype=bool)
    for values in (loop.tpot_s, loop.ttft_s, -loop.throughput_rps):
        table = np.full(shape, np.inf)
        table[group, column] = values[order]
        mine, other = table[:, :, None], table[:, None, :]
        equal &= mine == other
        worse |= mine < other
    beaten = np.any(~worse & ~equal, axis=2)
    keep = np.empty(key.size, dtype=bool)
    keep[order] = ~beaten[group, column]
    return keep


def leanest(w: Workers, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of ``rows``, the one with the fewest workers of each layout and setting: only there can a count still fall."""
    key = (_layout(w)[rows] << 24) + (w.token_budget[rows] << 1) + w.two_batch[rows]
    order = np.lexsort((w.count[rows], key))
    first = np.r_[True, np.diff(key[order]) != 0]
    return np.sort(rows[order[first]])


def _place(w: Workers) -> NDArray[np.int64]:
    """One number for each layout and concurrency."""
    return (_layout(w) << 24) + np.rint(w.concurrency).astype(np.int64)


def _layout(w: Workers) -> NDArray[np.int64]:
    """One number for each layout; moe_tp and redundant experts follow from the others."""
    layouts = w.layouts
    key = np.zeros(len(w), dtype=np.int64)
    for values, bits in ((layouts.tp, 9), (layouts.pp, 8), (layouts.attention_dp, 11), (layouts.ep, 11)):
        key = (key << bits) + values
    return key

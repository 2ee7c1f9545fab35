"""Pareto frontier of many points in several objectives: which ones nothing else beats in every respect."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError

Direction = Literal["min", "max"]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_CELLS = 4_000_000
"""Comparisons held in memory at a time (a boolean each)."""
_PIVOTS = 24
"""Single points used one by one to thin the set before blocks of points are compared."""
_FIRST = 128
"""Points of the first block: the strongest few beat most others; every block may be twice the last."""
_CODES = 1 << 62
"""Largest number of rows that a 64-bit code can tell apart."""
_LARGE = 1e300
"""Stand-in for an infinite value in the sort key only."""


def pareto_mask(objectives: Sequence[ArrayLike], directions: Sequence[Direction]) -> BoolArray:
    """Which points are on the frontier, (n,).

    ``objectives``: k arrays (n,), one ``min`` or ``max`` each. A point is beaten by one that is no worse
    in all and better in at least one; equal points stay together. A point with NaN in any objective
    cannot be judged and is never on the frontier. Two objectives take one sort; more are thinned by
    strong points first, then compared block by block in an order in which only an earlier point can beat
    a later one.
    """
    values = _costs(objectives, directions)
    mask = np.zeros(values.shape[0], dtype=bool)
    known = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not known.size:
        return mask
    cost = values[known]
    mask[known[_frontier(cost)]] = True
    return mask


def pareto_sample(objectives: Sequence[ArrayLike], directions: Sequence[Direction], resolution: float) -> IntArray:
    """Positions of frontier points, at most one per cell of a grid with relative steps of ``resolution``.

    For large sets whose frontier is larger than anyone reads: objectives must be positive; values in one
    cell (within about ``resolution`` of each other in every objective) count as equal and the best sum
    stands for them. Every position returned is on the true frontier; every frontier point left out has a
    returned one no worse than about ``resolution``.
    """
    values = _costs(objectives, directions)
    if not 0 < resolution < 1:
        raise InputError("resolution", resolution, "between 0 and 1")
    known = np.flatnonzero(np.isfinite(values).all(axis=1))
    if not known.size:
        return known.astype(np.int64)
    cost = values[known]
    if np.any(cost == 0) or np.any(np.sign(cost) != np.sign(cost[0])):
        raise InputError("objectives", "zero or negative values", "positive values")
    cells = np.floor(np.sign(cost) * np.log(np.abs(cost)) * (1.0 / np.log1p(resolution))).astype(np.int64)
    code, kinds, rows = _coded(cells)
    best = kinds[_frontier(rows.astype(np.float64))]
    place = np.minimum(np.searchsorted(best, code), best.size - 1)
    members = np.flatnonzero(best[place] == code)
    by_cell = np.lexsort((_scaled_sum(cost[members]), code[members]))
    first = members[by_cell[np.r_[True, np.diff(code[members[by_cell]]) > 0]]]
    return np.sort(known[first]).astype(np.int64)


def pareto_ends(
    objectives: Sequence[ArrayLike], directions: Sequence[Direction], wanted: Sequence[int] = ()
) -> IntArray:
    """Positions of the frontier points that are best in one objective each, and those of ``wanted`` that are on it."""
    values = _costs(objectives, directions)
    known = np.flatnonzero(np.isfinite(values).all(axis=1))
    cost = values[known]
    if not known.size:
        return known.astype(np.int64)
    total = _scaled_sum(cost)  # of equals in one objective the best sum is beaten by none
    leading = [np.flatnonzero(column == column.min()) for column in cost.T]
    best = [int(known[rows[np.argmin(total[rows])]]) for rows in leading]
    on_it = [i for i in wanted if np.isfinite(values[i]).all() and not _beaten(values[[i]], cost)[0]]
    return np.unique(np.array([*best, *on_it], dtype=np.int64))


def _coded(rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """A number for every row (n,), the distinct numbers in order (u,) and the row behind each (u, k)."""
    low = rows.min(axis=0)
    base = [int(b) for b in rows.max(axis=0) - low + 1]
    if prod(base) > _CODES:
        kinds, code = np.unique(rows, axis=0, return_inverse=True)
        return code.reshape(-1).astype(np.int64), np.arange(len(kinds)), kinds
    code = np.zeros(rows.shape[0], dtype=np.int64)
    for column, b, offset in zip(rows.T, base, low, strict=True):
        code = code * b + (column - offset)
    found = np.unique(code)
    columns, rest = [], found
    for b, offset in zip(base[::-1], low[::-1], strict=True):
        rest, digit = np.divmod(rest, b)
        columns.append(digit + offset)
    return code, found, np.stack(columns[::-1], axis=1)


def non_dominated_fronts(
    objectives: Sequence[ArrayLike], directions: Sequence[Direction], fronts: int | None = None
) -> IntArray:
    """Front of every point, (n,): 0 is the frontier, 1 the frontier of what is left, and so on.

    Points beyond the first ``fronts`` and points with NaN are -1.
    """
    values = _costs(objectives, directions)
    front = np.full(values.shape[0], -1, dtype=np.int64)
    left = np.flatnonzero(~np.isnan(values).any(axis=1))
    number = 0
    while left.size and (fronts is None or number < fronts):
        chosen = _frontier(values[left])
        front[left[chosen]] = number
        rest = np.ones(left.size, dtype=bool)
        rest[chosen] = False
        left = left[rest]
        number += 1
    return front


def _costs(objectives: Sequence[ArrayLike], directions: Sequence[Direction]) -> FloatArray:
    """(n, k) values to minimise."""
    if not objectives or len(objectives) != len(directions):
        raise InputError("directions", list(directions), f"one of min, max for each of {len(objectives)} objectives")
    columns = []
    for values, direction in zip(objectives, directions, strict=True):
        if direction not in ("min", "max"):
            raise InputError("directions", direction, "min or max")
        column = np.asarray(values, dtype=np.float64)
        columns.append(column if direction == "min" else -column)
    if len({c.shape for c in columns}) != 1 or columns[0].ndim != 1:
        raise InputError("objectives", [c.shape for c in columns], "arrays of the same shape (n,)")
    return np.stack(columns).T  # column by column in memory, as they are read


def _frontier(cost: FloatArray) -> IntArray:
    """Positions of the points that no other beats; no NaN in ``cost``."""
    if cost.shape[1] == 1:
        return np.flatnonzero(cost[:, 0] == cost[:, 0].min()).astype(np.int64)
    if cost.shape[1] == 2:
        return _frontier_of_two(cost)
    left = _thinned(cost)
    order = np.lexsort((*cost[left].T[::-1], _scaled_sum(cost[left])))
    left = left[order]
    found: list[IntArray] = []
    most = _FIRST
    while left.size:
        # In this order a point is only beaten by an earlier one, so the frontier of a block is final.
        block = left[: max(16, min(int((_CELLS // left.size) or 1), most))]
        most *= 2
        block = block[~_beaten(cost[block], cost[block])]
        found.append(block.astype(np.int64))
        rest = left[~_beaten(cost[left], cost[block])]
        left = rest[~np.isin(rest, block, assume_unique=True)]
    return np.sort(np.concatenate(found))


def _thinned(cost: FloatArray) -> IntArray:
    """Positions that no single strong point beats: the frontier and what is left beside it, most points gone.

    Any point may thin the set; the best sum in turn with the best of one objective thins fast.
    """
    key = _scaled_sum(cost)
    left = np.arange(cost.shape[0])
    columns = [np.ascontiguousarray(column) for column in cost.T]
    for turn in range(_PIVOTS):
        if left.size <= _PIVOTS:
            break
        i = int(np.argmin(key if turn % 2 == 0 else columns[turn // 2 % len(columns)]))
        no_worse = columns[0] >= columns[0][i]
        for column in columns[1:]:
            no_worse &= column >= column[i]
        equal = np.flatnonzero(no_worse)
        for column in columns:
            equal = equal[column[equal] == column[i]]
        no_worse[equal] = False
        key[i] = np.inf
        keep = np.flatnonzero(~no_worse)
        left, key, columns = left[keep], key[keep], [column[keep] for column in columns]
    return left


def _frontier_of_two(cost: FloatArray) -> IntArray:
    """One sort: along the first objective only a new strict minimum of the second is unbeaten."""
    order = np.lexsort((cost[:, 1], cost[:, 0]))
    first, second = cost[order, 0], cost[order, 1]
    starts = np.r_[True, first[1:] != first[:-1]]
    group = np.cumsum(starts) - 1
    best = second[starts]  # of every value of the first objective
    before = np.r_[np.inf, np.minimum.accumulate(best)[:-1]]
    open_group = (best < before) | (np.arange(best.size) == 0)
    return np.sort(order[open_group[group] & (second == best[group])]).astype(np.int64)


def _beaten(points: FloatArray, by: FloatArray) -> BoolArray:
    """Which points (n, k) some row of ``by`` (m, k) beats, (n,)."""
    beaten = np.zeros(points.shape[0], dtype=bool)
    step = max(1, _CELLS // max(1, by.shape[0]))
    for start in range(0, points.shape[0], step):
        part = points[start : start + step]
        no_worse = part[:, 0, None] >= by[None, :, 0]
        better = part[:, 0, None] > by[None, :, 0]
        for column in range(1, points.shape[1]):
            no_worse &= part[:, column, None] >= by[None, :, column]
            better |= part[:, column, None] > by[None, :, column]
        beaten[start : start + step] = (no_worse & better).any(axis=1)
    return beaten


def _scaled_sum(cost: FloatArray) -> FloatArray:
    """Sum of the objectives on a common scale: grows with each, so whoever beats a point is not behind it."""
    finite = np.clip(cost, -_LARGE, _LARGE)
    low, high = finite.min(axis=0), finite.max(axis=0)
    width = np.where(high > low, high / 2 - low / 2, 1.0)
    total: FloatArray = ((finite - low) / width / 2).sum(axis=1)
    return total

"""Operating points to try: requests in flight per worker, and tokens of a prefill chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class OperatingPoints:
    """Every (layout, concurrency) pair; arrays of shape (m,)."""

    layout: IntArray
    """Index of the layout."""
    concurrency: IntArray
    """Requests in flight in one worker."""


def step_grid(limit: int) -> IntArray:
    """1, 2, 3, 4, 6, 8, 12, 16, …: powers of two and one and a half times them, up to ``limit``, and
    ``limit`` itself.
    """
    if limit < 1:
        return np.empty(0, dtype=np.int64)
    powers = 1 << np.arange(limit.bit_length(), dtype=np.int64)
    halves = powers[1:] // 2 * 3
    grid = np.unique(np.concatenate([powers, halves, [limit]]))
    return grid[grid <= limit]


def operating_points(limits: ArrayLike, attention_dp: ArrayLike = 1, grid: ArrayLike | None = None) -> OperatingPoints:
    """All operating points of layouts that hold at most ``limits`` (n,) requests each.

    Without ``grid`` the steps are per attention-DP rank (a worker spreads its requests evenly over them),
    and the limit itself is the last point. A given ``grid`` is requests per worker, kept up to each
    limit. Layouts with a limit below 1 have no point.
    """
    most = np.floor(np.asarray(limits, dtype=np.float64)).astype(np.int64)
    ranks = np.broadcast_to(np.asarray(attention_dp, dtype=np.int64), most.shape)
    highest = int(most.max(initial=0))
    if grid is None:
        per_rank = step_grid(max(int((most // ranks).max(initial=0)), 1))[None, :]
        table = per_rank * ranks[:, None]
        keep = table < most[:, None]
    else:
        given = np.unique(np.asarray(grid, dtype=np.int64))
        if given.size and given[0] < 1:
            raise InputError("search.concurrency_per_worker", int(given[0]), "at least 1")
        table = np.broadcast_to(given, (most.size, given.size))
        keep = table <= most[:, None]
    layout, column = np.nonzero(keep)
    concurrency = table[layout, column]
    if grid is None and highest:
        last = np.flatnonzero(most >= 1)
        layout, concurrency = np.concatenate([layout, last]), np.concatenate([concurrency, most[last]])
        order = np.lexsort((concurrency, layout))
        layout, concurrency = layout[order], concurrency[order]
    return OperatingPoints(layout.astype(np.int64), concurrency.astype(np.int64))


def chunk_grid(default: int, given: int | None = None, *, smallest: int, largest: int) -> IntArray:
    """Tokens of a prefill chunk to try: the user's own value alone, else powers of two and the engine's default.

    ``smallest`` and ``largest`` bound what is tried (the engine's range); the default is always among them.
    """
    if given is not None:
        if given < 1:
            raise InputError("engine.options.max_num_batched_tokens", given, "at least 1")
        return np.array([given], dtype=np.int64)
    if not 1 <= smallest <= largest:
        raise InputError("chunk_grid", (smallest, largest), "1 <= smallest <= largest")
    powers = 1 << np.arange(largest.bit_length(), dtype=np.int64)
    inside = powers[(powers >= smallest) & (powers <= largest)]
    return np.unique(np.append(inside, default))

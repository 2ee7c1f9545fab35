"""Evaluation in blocks: arrays that stay near the core, two of them at a time where there are many."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
R = TypeVar("R")

BLOCK = 32_768
"""Candidates evaluated at a time: arrays of a block stay near the core, calls are few beside the arithmetic."""
THREADS = 2
FEW = 4
"""Blocks up to which one thread is faster: two of them wait for each other between calls (and whole tables of a plan
are evaluated side by side already)."""


def in_blocks(n: int, evaluate: Callable[[IntArray], R]) -> list[R]:
    """``evaluate`` on consecutive blocks of row positions, two at a time where they are many; results in order."""
    starts = range(0, max(n, 1), BLOCK)
    blocks = [np.arange(a, min(a + BLOCK, n)) for a in starts]
    if len(blocks) <= FEW:
        return [evaluate(rows) for rows in blocks]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(evaluate, blocks))

"""Evaluation in blocks: arrays that stay near the core, two of them at a time."""

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


def in_blocks(n: int, evaluate: Callable[[IntArray], R]) -> list[R]:
    """``evaluate`` on consecutive blocks of row positions, two at a time; results in order."""
    starts = range(0, max(n, 1), BLOCK)
    blocks = [np.arange(a, min(a + BLOCK, n)) for a in starts]
    if len(blocks) == 1:
        return [evaluate(blocks[0])]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(evaluate, blocks))

"""Small helpers on arrays that several rooms need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

_DENSE_SPAN = 1 << 20
"""Widest range of keys that is looked up in a table; wider ones are sorted."""


def distinct_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Distinct rows of a table of non-negative integers given by columns (n,) each.

    Returns (first, of): the position of one row of each kind, and for every row the number of its kind (n,). Kinds are
    in lexicographic order. Candidates repeat few layouts many times: a look-up table instead of a sort.
    """
    kinds = np.zeros(1, dtype=np.int64)
    of = np.zeros(columns[0].shape[0], dtype=np.int64)
    for column in columns:
        base = int(column.max(initial=0)) + 1
        span = kinds.size * base
        key = of * base + column
        if span > _DENSE_SPAN:
            kinds, of = np.unique(key, return_inverse=True)
            of = of.reshape(-1).astype(np.int64)
            continue
        there = np.zeros(span, dtype=bool)
        there[key] = True
        kinds = np.flatnonzero(there)
        number = np.zeros(span, dtype=np.int64)
        number[kinds] = np.arange(kinds.size)
        of = number[key]
    first = np.empty(kinds.size, dtype=np.int64)
    first[of[::-1]] = np.arange(of.size)[::-1]
    return first, of

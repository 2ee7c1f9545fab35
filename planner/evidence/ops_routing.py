"""Expert loads behind the measured mixture-of-experts rows: balanced, or drawn from a truncated power law.

The measurements assign tokens to experts by sampling loads from a power law with the exponent in the row's name on
[1, 0.8 T], scaled to T·k and capped at T, and time the EP rank that holds the most (as the benchmark that made the
tables does). The same draw is repeated here with a fixed seed, and averaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DRAWS = 8
SEED = 0
LARGEST_SHARE = 0.8
CAP_PASSES = 3


def hottest_rank(
    exponents: Iterable[float],
    tokens: NDArray[np.float64],
    experts: NDArray[np.float64],
    topk: NDArray[np.float64],
    ep: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """((token, expert) pairs, touched experts) on the fullest rank, row by row; exponent 0 means balanced."""
    rows = [
        _hottest(float(a), int(t), int(e), int(k), int(r))
        for a, t, e, k, r in zip(exponents, tokens, experts, topk, ep, strict=True)
    ]
    pairs, touched = np.array(rows, dtype=np.float64).T
    return pairs, touched


@lru_cache(maxsize=100_000)
def _hottest(exponent: float, tokens: int, experts: int, topk: int, ep: int) -> tuple[float, float]:
    total, held = tokens * topk, experts // ep
    if exponent == 0.0:
        counts = np.full(experts, float(total // experts))
        counts[: total % experts] += 1.0
        return _fullest(counts, ep, held)
    rng = np.random.default_rng(SEED)
    draws = [
        _fullest(rng.permutation(_power_law(rng.random(experts), exponent, tokens, total)), ep, held)
        for _ in range(DRAWS)
    ]
    pairs, touched = np.mean(draws, axis=0)
    return float(pairs), float(touched)


def _power_law(uniform: NDArray[np.float64], exponent: float, tokens: int, total: int) -> NDArray[np.float64]:
    """Integer loads summing to ``total``, none above ``tokens``: inverse distribution of x^-exponent on [1, 0.8 T]."""
    power, largest = 1.0 - exponent, max(tokens * LARGEST_SHARE, 1.0 + 1e-4)
    load = ((largest**power - 1.0) * uniform + 1.0) ** (1.0 / power)
    counts = np.minimum(load / load.sum() * total, tokens)
    for _ in range(CAP_PASSES):
        free = counts < tokens
        if not free.any() or counts.sum() >= total - 1e-9:
            break
        counts[free] += (total - counts.sum()) * counts[free] / counts[free].sum()
        counts = np.minimum(counts, tokens)
    counts = np.floor(counts)
    rest = int(total - counts.sum())
    order = np.argsort(-load)
    room = order[counts[order] < tokens]
    while rest > 0 and len(room):
        top = room[:rest]
        counts[top] += 1.0
        rest -= len(top)
        room = order[counts[order] < tokens]
    return counts


def _fullest(counts: NDArray[np.float64], ep: int, held: int) -> tuple[float, float]:
    ranks = counts[: ep * held].reshape(ep, held)
    fullest = ranks[int(ranks.sum(axis=1).argmax())]
    return float(fullest.sum()), float((fullest > 0).sum())

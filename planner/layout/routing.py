"""How many ranks or nodes a token's routed experts reach: exact for uniform (group-limited) top-k routing.

A token picks ``groups_per_token`` of ``groups`` expert groups, then ``topk`` experts in them, both without
replacement and every choice equally likely (DeepSeek-V3 report, section 2.1.2: 4 of 8 groups, so at most
4 nodes). Experts lie contiguously over equal units (ranks or domains). With redundant experts a unit is
taken to hold experts / units expert-equivalents: copies share the load of their expert.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError

FloatArray = NDArray[np.float64]
MOST_SELECTIONS = 100_000
"""Group selections that are enumerated; known models have at most C(8, 4) = 70."""


def expected_units(units: ArrayLike, experts: int, topk: int, groups: int = 1, groups_per_token: int = 1) -> FloatArray:
    """Expected number of distinct units (ranks, domains) that hold at least one of a token's experts.

    ``units``: whole numbers of equal units, any shape; the answer has that shape. Between 1 and
    min(units, topk). Raises InputError for routing that cannot be (topk above the experts of the groups
    that a token may reach).
    """
    asked = np.asarray(units, dtype=np.int64)
    distinct, back = np.unique(asked, return_inverse=True)
    values = [_expected(int(u), experts, topk, groups, groups_per_token) for u in distinct]
    return np.asarray(values, dtype=np.float64)[back].reshape(asked.shape)


@lru_cache(maxsize=4096)
def _expected(units: int, experts: int, topk: int, groups: int, groups_per_token: int) -> float:
    if units < 1:
        raise InputError("units", units, "at least 1")
    if experts % groups or not 1 <= groups_per_token <= groups:
        raise InputError("groups", groups, f"a divisor of {experts} experts, at least {groups_per_token}")
    size = experts // groups
    reachable = groups_per_token * size
    if not 1 <= topk <= reachable:
        raise InputError("experts_per_token", topk, f"between 1 and {reachable}")
    if comb(groups, groups_per_token) > MOST_SELECTIONS:
        raise InputError("groups", groups, f"at most {MOST_SELECTIONS} selections of groups")
    edges = np.arange(units + 1) * experts / units
    starts = np.arange(groups) * size
    overlap = np.minimum(edges[1:, None], starts + size) - np.maximum(edges[:-1, None], starts)
    held = np.maximum(overlap, 0.0)  # (units, groups): experts of each group in each unit
    missed = np.zeros(units)
    selections = list(combinations(range(groups), groups_per_token))
    for selection in selections:
        missed += _miss_probability(held[:, selection].sum(axis=1), reachable, topk)
    return float(units - missed.sum() / len(selections))


def _miss_probability(held: FloatArray, reachable: int, topk: int) -> FloatArray:
    """Probability that none of ``topk`` of ``reachable`` experts is among the ``held`` ones of a unit.

    Hypergeometric: C(reachable - held, topk) / C(reachable, topk). A fractional holding is a mixture of
    the two whole numbers around it, which is what an uneven split of experts is.
    """
    low = np.floor(held + 1e-9)
    share = np.clip(held - low, 0.0, 1.0)

    def whole(count: FloatArray) -> FloatArray:
        drawn = np.arange(topk)
        left = np.maximum(reachable - count[:, None] - drawn, 0.0)
        return np.prod(left / (reachable - drawn), axis=1)

    return (1.0 - share) * whole(low) + share * whole(low + 1.0)

"""Prompts of one step on the attention-DP ranks of a worker: which of them cost time of their own.

Ranks step together, and a step lasts as long as its busiest rank. Prompts on different ranks share the time of what
each rank does for its own (attention, dense layers), not that of what all ranks do for all tokens (experts).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.serving.quantiles import normal
from planner.serving.routed import balance_rps

Array = NDArray[np.float64]
BLOM = 0.375
"""Constant of the mean of the largest of n normal values, the quantile (n - a) / (n + 1 - 2 a) (Blom 1958)."""


@dataclass(frozen=True)
class Counted:
    """Prompts of a step in those that take time one after the other, arrays (n,)."""

    mean: Array
    """Over all steps with prompts."""
    several: Array
    """Of steps with more than one."""
    each: Array
    """Part of its own time that one more prompt adds to a step that has one (0 to 1)."""


def busiest(prompts: Array, lanes: Array, most: Array) -> Array:
    """Expected prompts on the busiest of ``lanes`` ranks of a step with ``prompts``, each at the rank with the fewest
    requests; ``most`` fit one rank.

    Filled up to one level, the rank that held the fewest gets the most: the mean and by how much it lay below the
    others. Requests of a rank vary about their mean by v = (1 - 1 / N) rate / balance
    (:func:`planner.serving.routed.balance_rps`), the largest of N normal deviations is Blom's.
    """
    number = np.asarray(lanes, dtype=np.int64)
    below = _below(int(number.max(initial=1)))[number]
    return np.maximum(np.minimum(np.minimum(prompts / lanes + below, most), prompts), 1.0)


@lru_cache(maxsize=8)
def _below(most: int) -> Array:
    """Requests by which the emptiest of N ranks lies below the mean, for N = 0 to ``most``."""
    lanes = np.maximum(np.arange(most + 1, dtype=float), 1.0)
    return np.asarray(np.sqrt(apart(lanes)) * normal((lanes - BLOM) / (lanes + 1.0 - 2.0 * BLOM)))


def apart(lanes: Array) -> Array:
    """Variance of the requests of one of ``lanes`` ranks about the mean of all, (1 - 1 / N) rate / balance."""
    return (1.0 - 1.0 / lanes) / balance_rps(1.0, lanes)


def counted(
    batch: Array, alone: Array, lanes: Array, most: Array, shared: Array, longest: tuple[Array, Array]
) -> Counted:
    """Prompts of steps that have ``batch`` of them on average, one in the part ``alone`` of them.

    ``shared`` is the part of a prompt's time that counts for prompts of all ranks; ``most`` prompts fit one rank. With
    one rank every prompt counts. The busiest of ranks with one prompt each has the longest of them, ``longest`` over
    the mean of two and of as many as there are ranks, in between linear in the logarithm of their number
    (:meth:`planner.serving.length_shape.LengthShape.longest`); with m in a row on each, m + sqrt(m) (longest - 1).
    """
    rest = np.maximum(1.0 - alone, 1e-12)
    if np.all(lanes == 1.0):
        return Counted(batch, np.maximum((batch - alone) / rest, 1.0), np.ones(batch.shape))
    number = np.where(lanes > 1.0, np.maximum((batch - alone) / rest, 2.0), 2.0)
    row, (two, every) = busiest(number, lanes, most), longest
    between = np.log(np.minimum(number, np.maximum(lanes, 2.0)) / 2.0) / np.log(np.maximum(lanes, 3.0) / 2.0)
    longer = np.sqrt(row) * (two - 1.0 + between * (every - two))
    more = shared * number + (1.0 - shared) * np.minimum(row + longer, number)
    mean = np.where(lanes > 1.0, alone + rest * more, batch)
    single = np.maximum((batch - alone) / rest, 1.0)
    return Counted(
        mean,
        np.where(lanes > 1.0, more, single),
        np.where(lanes > 1.0, (more - 1.0) / (number - 1.0), 1.0),
    )

"""Quantiles of a wait plus a prompt, by summing over the prompt's lengths: what rules for sums of quantiles miss where
one part is mostly zero and the other has a long tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.serving.quantiles import TAIL_FROM, Part, signed_root

Array = NDArray[np.float64]

EDGES = (0.0, 0.3, 0.7, 0.9, 0.97, 0.99, 1.0)
"""Probabilities between which the prompt of the middle stands for all, finer in the tail."""
LOOKS = (0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5)
"""Gauss points of the first part (the wait for the scheduler) where there is no queue."""
ROUNDS = 4
NEVER = 1e-6
"""Chance of a wait that is left out."""
NARROW = 0.5
"""The search starts between this part of the first guess and its inverse."""


def refined(parts: Sequence[Part], p: float, guess: Array) -> Array:
    """Quantile ``p`` of the sum of ``parts``, from a first ``guess`` (n,).

    One part has a ``survival`` and a ``chance`` (the wait V), one a ``survival`` alone (the prompt X); further ones
    with both (the wait W for a slot) are added to the mean of the rest; the others are counted with their means, and in
    the tail with their deviations by the rule for sums.
    P(V + X > t) = (1 - chance) P(X > t) + sum over bins of X of P(V > t - x), and of what is not above t for that,
    P(W > t - mean) is. Solved for 1 - p by interpolation of the logarithm between ends that enclose it. Other sums keep
    the guess.
    """
    waits = [part for part in parts if part.survival is not None and part.chance is not None]
    waits, seldom = waits[:1], waits[1:]
    prompts = [part for part in parts if part.survival is not None and part.chance is None]
    if len(waits) != 1 or len(prompts) != 1:
        return guess
    wait, prompt = waits[0], prompts[0]
    whole = [part for part in parts if not any(part is one for one in seldom)]
    rest = sum(part.mean for part in whole if part is not wait and part is not prompt)
    usual = sum(part.mean for part in whole)
    seldom = [part for part in seldom if part.chance is not None and np.any(part.chance > NEVER)]
    middles = [0.5 * (a + b) for a, b in pairwise(EDGES)]
    shares = [b - a for a, b in pairwise(EDGES)]
    lengths = [np.asarray(prompt.quantile(u)) + rest for u in middles]
    looks = [np.asarray(parts[0].quantile(level)) for level in LOOKS]
    chance = wait.chance
    assert chance is not None

    def logarithm(t: Array) -> Array:
        assert wait.survival is not None
        assert prompt.survival is not None
        alone = [prompt.survival(t - rest + parts[0].mean - look) for look in looks]
        queued = [share * wait.survival(t - length) for share, length in zip(shares, lengths, strict=True)]
        above = np.asarray((1.0 - chance) * sum(alone) / len(LOOKS) + sum(queued))
        for part in seldom:
            assert part.survival is not None
            above = above + part.survival(t - usual) * np.maximum(1.0 - above, 0.0)
        return np.log(np.maximum(above, 1e-12))

    wanted = np.log1p(-p)
    low, high = NARROW * guess, guess / NARROW
    at_low, at_high = logarithm(low), logarithm(high)
    # Where the guess is far off the quantile lies outside; then the end is the better guess.
    for _ in range(ROUNDS):
        part = (at_low - wanted) / np.maximum(at_low - at_high, 1e-12)
        middle = low + np.clip(part, 0.05, 0.95) * (high - low)
        value = logarithm(middle)
        above = value > wanted
        low, at_low = np.where(above, middle, low), np.where(above, value, at_low)
        high, at_high = np.where(above, high, middle), np.where(above, at_high, value)
    part = np.clip((at_low - wanted) / np.maximum(at_low - at_high, 1e-12), 0.0, 1.0)
    found = np.asarray(low + part * (high - low))
    if p < TAIL_FROM:
        return found
    counted = (wait, prompt, parts[0])
    others = [one.quantile(p) - one.mean for one in whole if not any(one is known for known in counted)]
    return np.asarray(usual + signed_root(found - usual, *(np.maximum(d, 0.0) for d in others)))

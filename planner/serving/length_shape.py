"""The shape of a length distribution as queueing needs it: moments and quantiles in units of the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.scenario.lengths import Length

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

NODES, REACH = 2048, 4.5
"""Quantiles that moments are summed over: at equal steps of the normal quantile from -REACH to REACH, so that the upper
3e-6 still counts (second moments of a lognormal's work need it)."""
TAIL = 9.0
"""Quantiles are tabulated over -ln(1 - p) up to this value, p = 0.99988."""
STEPS = 256
"""Token budgets of the tables below, evenly spaced in the logarithm."""
SMALLEST_BUDGET, LARGEST_BUDGET = 1e-3, 1e3
COUNTS, MOST = 25, 256.0
"""Numbers of lengths that the longest is tabulated for, evenly spaced in the logarithm, and the most of them."""


@dataclass(frozen=True)
class LengthShape:
    """A distribution of lengths x (mean 1 after division by ``mean``): values in order and their weights, (m,)."""

    mean: float
    """Mean length in tokens."""
    values: Array
    weights: Array

    @classmethod
    def of(cls, length: Length, longest: float = np.inf) -> LengthShape:
        """Shape of a scenario's length distribution, cut at ``longest`` tokens (what the engine admits)."""
        from scipy.special import ndtr

        z = np.linspace(-REACH, REACH, NODES)
        weights = np.exp(-0.5 * z * z)
        weights /= weights.sum()
        tokens = np.minimum(np.maximum(length.quantile(ndtr(z)), 1.0), longest)
        mean = float(weights @ tokens)
        return cls(mean, tokens / mean, weights)

    @classmethod
    def fixed(cls, tokens: float) -> LengthShape:
        """All lengths equal."""
        return cls(float(tokens), np.ones(1), np.ones(1))

    @classmethod
    def mixed(cls, shares: Sequence[float], tokens: Sequence[Array], weights: Array) -> LengthShape:
        """Lengths of which parts (``shares``) are as in one of ``tokens`` each, arrays (m,) with common ``weights``."""
        values = np.concatenate(tokens)
        chances = np.concatenate([share * weights for share in shares])
        order = np.argsort(values, kind="stable")
        mean = float(chances @ values)
        return cls(mean, values[order] / mean, chances[order])

    def moment(self, order: int) -> float:
        """E[x^order], dimensionless; 1 for order 1."""
        return float(self.weights @ self.values**order)

    @cached_property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        return self.moment(2) - 1.0

    def quantile(self, p: ArrayLike) -> Array:
        """Length at cumulative probability ``p`` over the mean; broadcasts."""
        table = self._table
        level = np.nan_to_num(np.asarray(p, dtype=float))
        at = -np.log1p(-np.clip(level, 0.0, 1.0 - 1e-12)) * ((table.size - 1) / TAIL)
        below = np.minimum(at.astype(np.int64), table.size - 2)
        part = np.minimum(at - below, 1.0)
        return np.asarray(table[below] * (1.0 - part) + table[below + 1] * part)

    def survival(self, x: ArrayLike) -> Array:
        """Part of lengths above ``x`` (over the mean); broadcasts."""
        if self.values.size == 1:
            return np.asarray(np.asarray(x, dtype=float) < self.values[0], dtype=float)
        distinct, above = self._survival_table
        return np.interp(np.asarray(x, dtype=float), distinct, above, left=1.0, right=0.0)

    @cached_property
    def _survival_table(self) -> tuple[Array, Array]:
        distinct, index = np.unique(self.values, return_index=True)
        before = np.concatenate([[0.0], np.cumsum(self.weights)])[index]
        share = np.diff(np.append(before, 1.0))
        return distinct, 1.0 - before - 0.5 * share

    @cached_property
    def _table(self) -> Array:
        levels = 1.0 - np.exp(-np.linspace(0.0, TAIL, 257))
        places = np.cumsum(self.weights) - 0.5 * self.weights
        return np.interp(levels, places, self.values)

    def mean_inverse(self, less: float = 1.0) -> float:
        """E[1 / (tokens - less)] per token; lengths of at most ``less`` + 1 count as one token."""
        return float(self.weights @ (1.0 / np.maximum(self.values * self.mean - less, 1.0)))

    @cached_property
    def overlap(self) -> float:
        """E[min(x, x')] of two independent lengths: 1 where all are equal, 1/2 for an exponential.

        What is left of the burstiness of arrivals in the number of requests present (peakedness of G/GI/inf, Whitt,
        "Heavy-traffic approximations for service systems with blocking", 1984, eq. 1.3).
        """
        above = 1.0 - np.cumsum(self.weights)
        return float(np.sum(self.values * self.weights * (2.0 * above + self.weights)))

    def longest(self, number: ArrayLike, budget: ArrayLike) -> Array:
        """E[max] of so many independent lengths (1 to MOST), each cut at a ``budget``, over the mean of one; 1 or more.

        The integral of 1 - F^n up to the budget; linear between tabulated logarithms of both.
        """
        n, b = np.broadcast_arrays(np.log(np.asarray(number, dtype=float)), _log_budget(budget))
        step = np.log(MOST) / (COUNTS - 1)
        row = np.clip(n / step, 0.0, COUNTS - 1 - 1e-9)
        low, part = row.astype(np.int64), row % 1.0
        levels, means = self._longest
        at = np.clip(np.interp(b, levels, np.arange(levels.size)), 0.0, levels.size - 1 - 1e-9)
        column, beside = at.astype(np.int64), at % 1.0

        def found(rows: IntArray) -> Array:
            return np.asarray((1.0 - beside) * means[rows, column] + beside * means[rows, column + 1])

        one = found(np.zeros_like(low))
        return np.asarray(((1.0 - part) * found(low) + part * found(low + 1)) / one)

    @cached_property
    def _longest(self) -> tuple[Array, Array]:
        counts = np.geomspace(1.0, MOST, COUNTS)
        levels = np.linspace(np.log(SMALLEST_BUDGET), np.log(LARGEST_BUDGET), STEPS)
        upto = np.clip(np.cumsum(self.weights), 0.0, 1.0)
        upto[-1] = 1.0
        shares = np.diff(upto ** counts[:, None], axis=1, prepend=0.0)
        return levels, shares @ np.minimum(self.values[:, None], np.exp(levels))

    def steps(self, budget: ArrayLike) -> Array:
        """Mean steps that one length takes when a step carries at most ``budget`` (in means): E[ceil(x / budget)]."""
        return np.asarray(np.interp(_log_budget(budget), self._step_grid[0], self._step_grid[1]))

    def full_share(self, budget: ArrayLike) -> Array:
        """Part of those steps that carry the whole ``budget``: E[ceil(x / budget) - 1] / E[ceil(x / budget)]."""
        return np.asarray(np.interp(_log_budget(budget), self._step_grid[0], self._step_grid[2]))

    def step_load(self, budget: ArrayLike) -> Array:
        """Prompt tokens of a step as one of them sees it, E[y^2] / E[y] over the pieces y <= ``budget``, in means."""
        return np.asarray(np.interp(_log_budget(budget), self._step_grid[0], self._step_grid[3]))

    @cached_property
    def _step_grid(self) -> tuple[Array, Array, Array, Array]:
        return _steps_of(self.values.tobytes(), self.weights.tobytes())


@lru_cache(maxsize=32)
def _steps_of(lengths: bytes, weights: bytes) -> tuple[Array, Array, Array, Array]:
    """Logarithms of budgets; steps of one length, part of them that are full, tokens of a step as one sees it: over all
    shapes of a process, as plans of one scenario with other limits, prices and rates share theirs."""
    values, often = np.frombuffer(lengths), np.frombuffer(weights)
    levels = np.linspace(np.log(SMALLEST_BUDGET), np.log(LARGEST_BUDGET), STEPS)
    sizes = np.exp(levels)[:, None]
    whole = np.ceil(values / sizes - 1e-9) - 1.0
    steps = whole @ often + 1.0
    squares = (whole * np.square(sizes) + np.square(values - whole * sizes)) @ often
    return levels, steps, (steps - 1.0) / steps, squares


def _log_budget(budget: ArrayLike) -> Array:
    return np.log(np.asarray(budget, dtype=float))

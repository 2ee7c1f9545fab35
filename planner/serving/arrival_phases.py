"""Gamma-distributed gaps between arrivals as a Markov process of a few phases, and the prompt work that comes with it.

A gamma law of shape 1 / cv^2 below 1 is a mixture of exponentials of mean cv^2 B / rate with B beta distributed on
(0, 1) with parameters 1 / cv^2 and 1 - 1 / cv^2 (Gleser, "The gamma distribution as a mixture of exponential
distributions", 1989). The nodes and weights of Gauss-Jacobi quadrature for that law give a mixture of J exponentials
that keeps the first 2 J - 1 moments of the gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

PHASES = ((1.05, 1), (np.inf, 4))
"""(largest CV of gaps, exponentials that stand for them)."""


@dataclass(frozen=True)
class Arrivals:
    """A renewal process whose gaps are exponential with ``rates[j]`` for a share ``shares[j]`` of them; (J,) each."""

    rates: Array
    shares: Array

    @classmethod
    def of(cls, rate_rps: float, cv: float) -> Arrivals:
        """Gamma gaps of mean 1 / ``rate_rps``; a CV of at most 1 counts as 1."""
        means, shares = _mixture(max(float(cv), 1.0))
        return cls(rate_rps / means, shares)

    @property
    def rate_rps(self) -> float:
        return 1.0 / float(np.sum(self.shares / self.rates))

    @property
    def lasting(self) -> Array:
        """Part of all time spent in gaps of each kind."""
        return self.shares / self.rates * self.rate_rps

    def none(self, seconds: ArrayLike) -> Array:
        """Chance of no arrival in the ``seconds`` after one of them, of the same shape."""
        t = np.asarray(seconds, dtype=float)
        return np.asarray(np.exp(-self.rates * t[..., None]) @ self.shares)

    def counts(self, seconds: ArrayLike) -> Array:
        """Mean arrivals in the ``seconds`` after one of them, of the same shape."""
        t = np.asarray(seconds, dtype=float)
        if self.rates.size == 1:
            return self.rates[0] * t
        generator = self.rates[:, None] * self.shares - np.diag(self.rates)
        values, vectors = np.linalg.eig(generator)
        weights = (self.shares @ vectors) * np.linalg.solve(vectors, self.rates)
        values, weights = values.real, weights.real
        still = np.abs(values) < 1e-9 * self.rates.max()
        slow = np.where(still, -1.0, values)
        grown = np.where(still, t[..., None], np.expm1(slow * t[..., None]) / slow)
        return np.asarray(grown @ weights)


@lru_cache(maxsize=256)
def _mixture(cv: float) -> tuple[Array, Array]:
    """Means (over the mean gap) and shares of the exponentials."""
    count = next(j for largest, j in PHASES if cv <= largest)
    if count == 1:
        return np.ones(1), np.ones(1)
    from scipy.special import roots_jacobi

    shape = 1.0 / cv**2
    with np.errstate(invalid="ignore"):  # scipy divides 0 by 0 in a branch that it does not take
        nodes, weights = roots_jacobi(count, -shape, shape - 1.0)
    return 0.5 * (nodes + 1.0) * cv**2, weights / weights.sum()


class WorkArrivals:
    """Prompt work that arrives in a time: a batch of ``lengths`` (probabilities on a grid (N,)) with each arrival."""

    def __init__(self, arrivals: Arrivals, lengths: Array) -> None:
        self.arrivals, self._size = arrivals, lengths.size
        transform = np.fft.rfft(lengths, 2 * lengths.size)
        rates, shares = arrivals.rates, arrivals.shares
        if rates.size == 1:
            self._values: ComplexArray = (rates[0] * (transform - 1.0))[:, None]
            self._left: ComplexArray | None = None
            return
        generator = transform[:, None, None] * (rates[:, None] * shares) - np.diag(rates)
        self._values, self._left = np.linalg.eig(generator)
        self._right = np.linalg.inv(self._left)

    def within(self, seconds: ArrayLike) -> Array:
        """Probabilities of (work, kind of the gap at the end) by kind at the start, (times, J, J, N)."""
        t = np.atleast_1d(np.asarray(seconds, dtype=float))
        grown = np.exp(self._values[None] * t[:, None, None])
        if self._left is None:
            found = grown[:, :, None, :]
        else:
            found = (self._left[None] * grown[:, :, None, :]) @ self._right[None]
        return np.asarray(np.fft.irfft(np.moveaxis(found, 1, -1), 2 * self._size, axis=-1)[..., : self._size])

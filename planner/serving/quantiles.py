"""Quantiles of sums of independent parts, without integrals: each part brings mean, variance and its own quantiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

LEVELS: dict[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Percentiles by their name in scenarios and plans."""


TAIL_FROM = 0.75
"""Probability from which on a quantile is one of the tail."""

Level = float | Array
"""A probability, or one for each row."""


@dataclass(frozen=True)
class Part:
    """One independent part of a time, arrays (n,) that broadcast."""

    mean: Array
    variance: Array
    quantile: Callable[[Level], Array]
    """The part's own quantile at a probability."""
    chance: Array | None = None
    """Probability of being above zero, where that is not 1."""
    survival: Callable[[Array], Array] | None = None
    """Probability of being above a time, (n,) each."""


def sum_quantile(parts: Sequence[Part], p: float) -> Array:
    """Quantile ``p`` of the sum of independent ``parts``.

    Above the median: mean + root of the sum of squares of the parts' deviations q_i(p) - mean_i, exact for normal parts
    and for a single one, 7 % high at P99 for two equal exponentials. At the median: mean + sum of deviations weighted
    by variance (a median lies below its mean by a third cumulant over 6 variances, Cornish-Fisher, and cumulants add);
    for a part that is mostly zero, as far as it is larger than the spread of the others, the quantile p / (1 - chance)
    of these alone.
    """
    if p >= TAIL_FROM:
        mean = total(parts)[0]
        return mean + signed_root(*(part.quantile(p) - part.mean for part in parts))
    rare = [part for part in parts if part.chance is not None]
    rest = [part for part in parts if part.chance is None]
    plain = _central(parts, p)
    if not rare or not rest:
        return plain
    deviation = np.sqrt(total(rest)[1])
    delayed = [(part.chance, part.mean / np.maximum(part.chance, 1e-12)) for part in rare if part.chance is not None]
    far = [(chance, late / np.maximum(late + deviation, 1e-300), late) for chance, late in delayed]
    gone = np.minimum(sum(chance * large for chance, large, _ in far), 1.0)
    near = sum(chance * (1.0 - large) * late for chance, large, late in far)
    alone = _central(rest, np.minimum(p / np.maximum(1.0 - gone, 1e-9), 0.9)) + near
    return np.asarray((1.0 - gone) * alone + gone * plain)


def _central(parts: Sequence[Part], p: Level) -> Array:
    mean, variance = total(parts)
    scale = 1.0 / np.maximum(variance, 1e-300)
    return np.asarray(mean + sum(part.variance * scale * (part.quantile(p) - part.mean) for part in parts))


def signed_root(*deviations: ArrayLike) -> Array:
    """Deviations of independent parts at one probability, combined: root of the sum of squares above zero, less that
    of those below."""
    upper = sum(np.square(np.maximum(d, 0.0)) for d in deviations)
    lower = sum(np.square(np.minimum(d, 0.0)) for d in deviations)
    return np.asarray(np.sqrt(upper) - np.sqrt(lower))


def normal(p: Level) -> Array:
    """Standard normal quantile."""
    if isinstance(p, float):
        return np.asarray(normal_quantile(p))
    from scipy.special import ndtri

    return np.asarray(ndtri(p))


def total(parts: Sequence[Part]) -> tuple[Array, Array]:
    """Mean and variance of the sum."""
    return (
        np.asarray(sum(part.mean for part in parts), dtype=float),
        np.asarray(sum(part.variance for part in parts), dtype=float),
    )


@lru_cache(maxsize=64)
def normal_quantile(p: float) -> float:
    """Standard normal quantile."""
    return NormalDist().inv_cdf(p)


def gamma_part(mean: Array, variance: Array) -> Part:
    """A gamma-distributed part (Wilson and Hilferty 1931)."""
    return Part(mean, variance, lambda p: gamma_quantile(mean, variance, normal(p)))


def gamma_quantile(mean: Array, variance: Array, z: ArrayLike) -> Array:
    """Quantile of a gamma law at the standard normal quantile ``z``: m (1 - v / 9 + z sqrt(v / 9))^3, v = var / m^2.

    Wilson and Hilferty (1931); within 2 % at P50 to P99 for v up to 1; 0 where the mean is 0.
    """
    # the floor keeps its square above zero: a part of mean 0 is 0 at every quantile
    ninth = variance / (9.0 * np.square(np.maximum(mean, 1e-150)))
    ninth = np.where(mean > 0, ninth, 0.0)
    root = np.maximum(1.0 - ninth + np.asarray(z) * np.sqrt(ninth), 0.0)
    return np.asarray(mean * root * root * root)


def uniform_part(mean: Array) -> Part:
    """A time uniform between 0 and twice its mean."""
    return Part(mean, np.square(mean) / 3.0, lambda p: np.asarray(2.0 * p * mean))


def waiting_part(mean: Array, probability: Array, scv: Array, served: Array | float = 0.0) -> Part:
    """A wait above zero with ``probability``, then Weibull with squared CV ``scv`` (exponential at 1), less ``served``.

    The shape k solves scv = Gamma(1 + 2 / k) / Gamma(1 + 1 / k)^2 - 1, the scale e keeps the mean. What exceeds
    ``served`` = S has the mean x Q(1 / k, y), y = (S / e)^k, Q the regularised upper incomplete gamma function.
    """
    chance = np.clip(probability, 1e-12, 1.0)
    delayed = mean / chance
    spread = np.clip(scv, SCV_RANGE[0], SCV_RANGE[1])
    power, ratio = _weibull(spread)
    scale = np.maximum(delayed * ratio, 1e-300)

    def quantile(p: Level) -> Array:
        reached = scale * np.log(np.maximum(chance / (1.0 - p), 1.0)) ** power
        return np.asarray(np.maximum(reached - served, 0.0))

    shape, level = 1.0 / power, np.log(scale)

    def survival(t: Array) -> Array:
        """Of the wait itself, before ``served`` is taken off; logarithms and exponentials are faster than a power."""
        with np.errstate(over="ignore", under="ignore"):
            depth = np.exp(shape * (np.log(np.maximum(t, 1e-30)) - level))
            return np.asarray(chance * np.exp(-depth))

    if isinstance(served, float) and served == 0.0:
        return Part(mean, np.square(delayed) * chance * (spread + 1.0 - chance), quantile, chance, survival)
    from scipy.special import gammaincc

    with np.errstate(over="ignore", under="ignore"):
        y = np.minimum((served / scale) ** (1.0 / power), 700.0)
        left = gammaincc(power, y)
    later = np.maximum(chance * np.exp(-y), 1e-300)
    beyond = mean * left
    spread = np.square(beyond) * (2.0 / np.maximum(later, 1e-12) - 1.0) + 1e-30
    return Part(beyond, spread, quantile, later, lambda t: survival(np.maximum(t, 0.0) + served))


SCV_RANGE = (0.05, 15.0)
"""Squared CV that :func:`waiting_part` follows; outside it the end of the range is taken."""


def _weibull(scv: Array) -> tuple[Array, Array]:
    """1 / shape and scale / mean of a Weibull law with squared CV ``scv``."""
    levels, powers, scales = _weibull_table()
    at = np.log(scv)
    return np.interp(at, levels, powers), np.interp(at, levels, scales)


@lru_cache(maxsize=1)
def _weibull_table() -> tuple[Array, Array, Array]:
    from scipy.special import gamma

    powers = np.linspace(0.15, 3.0, 400)
    scv = gamma(1.0 + 2.0 * powers) / np.square(gamma(1.0 + powers)) - 1.0
    return np.log(scv), powers, 1.0 / gamma(1.0 + powers)

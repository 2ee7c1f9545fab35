"""What every operator formula shares: the smooth maximum and the curve's coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def as_array(value: ArrayLike) -> Array:
    """``value`` as float64, without a copy where it already is."""
    return np.asarray(value, dtype=np.float64)


def smooth_max(a: ArrayLike, b: ArrayLike, exponent: float) -> Array:
    """``(a^p + b^p)^(1/p)``: p = 1 adds (no overlap), p → ∞ is the classic roofline's maximum.

    Only p in {1, 2, 4, inf} are evaluated, so that no general power is taken on large arrays.
    """
    a, b = as_array(a), as_array(b)
    if exponent == 1:
        return a + b
    if exponent == np.inf:
        return np.maximum(a, b)
    a2, b2 = a * a, b * b
    if exponent == 2:
        return np.sqrt(a2 + b2)
    if exponent == 4:
        return np.sqrt(np.sqrt(a2 * a2 + b2 * b2))
    raise ValueError(f"smooth_max: exponent {exponent} is not one of 1, 2, 4, inf")

"""A ratio that is unknown, not infinite, where nothing is produced."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def per(amount: FloatArray, rate: FloatArray) -> FloatArray:
    """amount / rate, NaN where the rate is not positive; broadcasts."""
    amount, rate = np.broadcast_arrays(amount, rate)
    return np.divide(amount, rate, out=np.full(amount.shape, np.nan), where=rate > 0)

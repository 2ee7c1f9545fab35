"""Replacing some candidates of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def put(whole: NDArray[Any], rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[Any]:
    """A copy of ``whole`` (n,) with ``values`` at positions ``rows``."""
    out = np.array(whole)
    out[rows] = values
    return out

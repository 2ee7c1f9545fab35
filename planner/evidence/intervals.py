"""Intervals around predicted times and rates, from cross-validated residuals by distance to the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.loader import data_root
from planner.evidence.e2e_keys import interval_document
from planner.hardware.curves import Curve

Array = NDArray[np.float64]

LEVELS = {"low80": 0.1, "low50": 0.25, "high50": 0.75, "high80": 0.9}
"""Quantiles of log(measured / predicted) that bound the central 80 % and 50 %."""
NORMAL_SCORE_50 = 0.6745
NORMAL_SCORE_80 = 1.2816
"""Upper end of a standard normal's central 80 %: what a spread of residuals is compared with."""


@dataclass(frozen=True)
class Interval:
    """Bounds of the central 80 % and 50 %, in the unit of the prediction, arrays of its shape."""

    low80: Array
    high80: Array
    low50: Array
    high50: Array


def curve_spread(used: Iterable[Curve]) -> float:
    """Half-width of an 80 % interval (of a logarithm) that operator curves add which no run was seen with; 0 without.

    The median over those curves: some of a step's operators err upwards, others downwards.
    """
    spreads = [c.spread for c in used if c.beyond_runs]
    return float(np.median(spreads)) if spreads else 0.0


def around(value: ArrayLike, log_spread: ArrayLike) -> Interval:
    """Interval of a log-normal around ``value`` with a standard deviation of the logarithm, arrays that broadcast."""
    middle, sigma = np.asarray(value, dtype=float), np.asarray(log_spread, dtype=float)
    wide, narrow = np.exp(NORMAL_SCORE_80 * sigma), np.exp(NORMAL_SCORE_50 * sigma)
    return Interval(middle / wide, middle * wide, middle / narrow, middle * narrow)


def intervals(
    distances: str | Sequence[str],
    metric: str,
    predicted: ArrayLike,
    extra_log_spread: ArrayLike = 0.0,
    directory: Path | None = None,
) -> Interval:
    """Interval of ``predicted`` (tpot, ttft or throughput) at a distance, or one distance per value.

    ``extra_log_spread`` is the half-width of a further 80 % interval in the logarithm, added in quadrature: what
    operator curves of an accelerator without measurements add (:func:`curve_spread`), (n,) or one for all.
    """
    classes = interval_document(directory or data_root() / "hardware_db" / "efficiency")["classes"]
    values = np.asarray(predicted, dtype=float)
    extra = np.asarray(extra_log_spread, dtype=float)
    names = [distances] if isinstance(distances, str) else list(dict.fromkeys(distances))
    which = 0 if isinstance(distances, str) else np.array([names.index(d) for d in distances], dtype=np.int64)
    bounds: dict[str, Array] = {}
    middle = np.array([classes[n][metric]["q50"] for n in names] or [0.0])[which]
    for level, quantile in LEVELS.items():
        edge = np.array([classes[n][metric][f"q{round(100 * quantile)}"] for n in names] or [0.0])[which]
        narrow = 1.0 if level.endswith("80") else NORMAL_SCORE_50 / NORMAL_SCORE_80
        width = np.hypot(edge - middle, narrow * extra)
        bounds[level] = values * np.exp(middle + np.copysign(width, edge - middle))
    return Interval(bounds["low80"], bounds["high80"], bounds["low50"], bounds["high50"])

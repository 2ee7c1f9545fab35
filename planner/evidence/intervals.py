"""Intervals around predicted times and rates, from cross-validated residuals by distance to the evidence and by
accelerator (planner.evidence.accelerator_check).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.evidence.accelerator_check import residual_quantiles
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
    accelerators: str | Sequence[str] | None = None,
) -> Interval:
    """Interval of ``predicted`` (tpot, ttft or throughput) at a distance, or one distance per value.

    ``accelerators`` likewise: those with enough runs have residuals of their own, all others share one set.

    ``extra_log_spread`` is the half-width of a further 80 % interval in the logarithm, added in quadrature: what
    operator curves of an accelerator without measurements add (:func:`curve_spread`), (n,) or one for all.
    """
    values = np.asarray(predicted, dtype=float)
    extra = np.asarray(extra_log_spread, dtype=float)
    keys, which = _distinct(distances, accelerators)
    found = [residual_quantiles(kind, accelerator, directory)[metric] for kind, accelerator in keys]
    bounds: dict[str, Array] = {}
    middle = np.array([q["q50"] for q in found] or [0.0])[which]
    for level, quantile in LEVELS.items():
        edge = np.array([q[f"q{round(100 * quantile)}"] for q in found] or [0.0])[which]
        narrow = 1.0 if level.endswith("80") else NORMAL_SCORE_50 / NORMAL_SCORE_80
        width = np.hypot(edge - middle, narrow * extra)
        bounds[level] = values * np.exp(middle + np.copysign(width, edge - middle))
    return Interval(bounds["low80"], bounds["high80"], bounds["low50"], bounds["high50"])


def _distinct(
    distances: str | Sequence[str], accelerators: str | Sequence[str] | None
) -> tuple[list[tuple[str, str | None]], NDArray[np.int64]]:
    """Distinct (distance, accelerator) and which of them each value has; a 0-d index where both are one for all."""
    one_kind, one_place = isinstance(distances, str), accelerators is None or isinstance(accelerators, str)
    kinds = [distances] if isinstance(distances, str) else list(distances)
    places = [accelerators] if accelerators is None or isinstance(accelerators, str) else list(accelerators)
    if one_kind and one_place:
        return [(kinds[0], places[0])], np.zeros((), dtype=np.int64)
    size = len(places) if one_kind else len(kinds)
    of = list(zip(kinds * size if one_kind else kinds, places * size if one_place else places, strict=True))
    keys = {key: i for i, key in enumerate(dict.fromkeys(of))}
    return list(keys), np.array([keys[key] for key in of], dtype=np.int64)

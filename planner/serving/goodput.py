"""Goodput: the part of requests that meet every limit at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from planner.serving.latency import LoadResult
from planner.serving.quantiles import LEVELS

Array = NDArray[np.float64]


def within(result: LoadResult, metric: str, limit_s: float) -> Array:
    """Part of requests (of gaps, for "tbt") whose ``metric`` is at most ``limit_s``, (n,), from mean and percentiles.

    Between percentiles the distribution is taken as linear in -ln(1 - p) over the time, exponential piece by piece;
    beyond P99 the last piece goes on, below the median the piece from 0 to it. Needs every percentile of the metric.
    """
    levels = [0.0, *LEVELS.values()]
    times = [np.zeros(result.stable.shape), *(result.get(metric, name) for name in LEVELS)]
    depth = np.zeros(result.stable.shape)
    pieces = list(zip(zip(levels, times, strict=True), zip(levels[1:], times[1:], strict=True), strict=False))
    for k, ((low, start), (high, end)) in enumerate(pieces):
        rise = np.log1p(-low) - np.log1p(-high)
        with np.errstate(invalid="ignore", divide="ignore"):
            part = (limit_s - start) / np.maximum(end - start, 1e-12)
        last = k == len(pieces) - 1
        depth += rise * np.clip(np.nan_to_num(part), 0.0, None if last else 1.0)
    return np.where(result.stable, -np.expm1(-depth), 0.0)


def good_share(result: LoadResult, limits: Mapping[str, Mapping[str, float]], output_tokens: float) -> Array:
    """Part of arriving requests that are served and meet every limit, (n,).

    ``limits``: seconds by metric ("ttft", "tbt", "tpot", "e2e") and by "mean" or percentile. A request meets a
    percentile's limit when its own time is within it; a limit on the mean does not sort requests, so all count where
    the mean is within it and none elsewhere. A request meets a limit on TBT at p when that part of its own gaps does:
    the normal limit of a binomial count of its O - 1 gaps.

    Dependence: TPOT and TBT follow the same interference and are taken together (the smaller probability); TTFT is
    taken as independent of them, which is a lower bound as all rise with load; a limit on the whole request binds with
    the others (the smaller one).
    """
    found: dict[str, Array] = {}
    for metric, by_level in limits.items():
        probability = np.ones(result.stable.shape)
        for name, limit in by_level.items():
            if name == "mean":
                one = (result.get(metric, "mean") <= limit).astype(float)
            elif metric == "tbt":
                one = _gaps_within(within(result, metric, limit), LEVELS[name], output_tokens)
            else:
                one = within(result, metric, limit)
            probability = np.minimum(probability, one)
        found[metric] = probability
    one = np.ones(result.stable.shape)
    gaps = np.minimum(found.get("tpot", one), found.get("tbt", one))
    both = np.minimum(found.get("ttft", one) * gaps, found.get("e2e", one))
    return np.asarray(result.completion * both)


def _gaps_within(inside: Array, wanted: float, output_tokens: float) -> Array:
    from scipy.special import ndtr

    gaps = max(output_tokens - 1.0, 1.0)
    deviation = np.sqrt(np.maximum(inside * (1.0 - inside), 1e-12) * gaps)
    return np.asarray(ndtr(((inside - wanted) * gaps + 0.5) / deviation))

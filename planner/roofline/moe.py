"""Routing arithmetic of mixture-of-experts layers: experts touched, tokens per expert, the hottest rank.

Load per expert is described by the coefficient of variation ``skew_cv`` of the experts' popularity (0 = perfectly
even), taken as lognormal. For DeepSeek-R1 over 256 experts, TensorRT-LLM's tech blog 4 reports a standard deviation
of 0.48 of the mean over 32 ranks and a hottest expert at 11.9 times the mean; a lognormal with one and the same
``skew_cv`` reproduces both (tests).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.arrays import distinct_rows

Array = NDArray[np.float64]

QUADRATURE_NODES = 96
GRID_POINTS = 1024


def touched_share(
    tokens: ArrayLike, experts: ArrayLike, topk: ArrayLike, skew_cv: float = 0.0, load: ArrayLike = 1.0
) -> Array:
    """Part of a rank's experts that ``tokens`` of its group reach, 0 to 1; all broadcast.

    Even popularity: 1 - (1 - load k/E)^T. With lognormal popularity w (mean 1, ``skew_cv``) a token picks an expert
    with probability 1 - exp(-lambda w), lambda such that it picks k in all; so 1 - E[exp(-lambda w load T)].
    ``load``: tokens of this rank over the mean of the ranks.
    """
    t, rate = np.asarray(tokens, dtype=float), np.asarray(load, dtype=float)
    pick = np.minimum(np.asarray(topk, dtype=float) / np.asarray(experts, dtype=float), 1.0 - 1e-12)
    if skew_cv <= 0.0:
        return np.asarray(-np.expm1(t * np.log1p(-np.minimum(rate * pick, 1.0 - 1e-12))))
    logs, share = _reach(float(skew_cv))
    per_token = np.interp(pick, share, logs)
    return np.asarray(np.interp(np.log(np.maximum(t * rate, 1e-300)) + per_token, logs, share))


@lru_cache(maxsize=64)
def _reach(skew_cv: float) -> tuple[Array, Array]:
    """(log x, 1 - E[exp(-x w)]) of a lognormal w with mean 1 on a grid of x, by Gauss-Hermite quadrature."""
    sigma = np.sqrt(np.log1p(skew_cv**2))
    nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
    popularity = np.exp(sigma * nodes - 0.5 * sigma**2)
    logs = np.linspace(np.log(1e-6), np.log(1e8), GRID_POINTS)
    missed = -np.expm1(-np.exp(logs)[:, None] * popularity)
    share = missed @ weights / weights.sum()
    return logs, np.minimum(np.maximum.accumulate(share), 1.0)


def touched_experts(tokens: ArrayLike, experts: ArrayLike, topk: ArrayLike, skew_cv: float = 0.0) -> Array:
    """Expected number of distinct experts that ``tokens`` reach (:func:`touched_share` of all of them).

    ``tokens``, ``experts`` and ``topk`` broadcast; returns experts (dimensionless).
    """
    return np.asarray(np.asarray(experts, dtype=float) * touched_share(tokens, experts, topk, skew_cv))


def normal_max_score(count: ArrayLike) -> Array:
    """Expected maximum of ``count`` standard normals (Blom 1958: quantile (n - 0.375)/(n + 0.25))."""
    from scipy.special import ndtri

    n = np.asarray(count, dtype=float)
    return np.where(n > 1, ndtri((n - 0.375) / (n + 0.25)), 0.0)


def rank_imbalance(
    tokens: ArrayLike,
    topk: int,
    experts: int,
    ep: ArrayLike,
    redundant: ArrayLike,
    skew_cv: float,
    placement_residual: float,
) -> Array:
    """Expected max/mean of tokens per EP rank (>= 1): placement part plus the chance of a finite batch.

    ``tokens`` of the whole EP group, ``ep`` ranks and ``redundant`` expert replicas broadcast. The placement part
    comes from :func:`placement_imbalance`; a batch adds z(ep) sqrt(ep / (T k)) from multinomial counts (normal
    approximation), and no rank can hold more than every token's choices it has experts for (bound ep).
    """
    t, ranks, extra = np.broadcast_arrays(np.asarray(tokens, dtype=float), ep, redundant)
    shape = t.shape
    ep_, extra_ = (np.asarray(v, dtype=np.int64).reshape(-1) for v in (ranks, extra))
    # Candidates share a few pairs of (ep, redundant): what depends on these alone is worked out once each.
    first, of = distinct_rows((ep_, extra_))
    count = ep_[first].astype(float)
    systematic = np.array(
        [
            placement_imbalance(experts, int(r), int(e), skew_cv, placement_residual)
            for r, e in zip(ep_[first], extra_[first], strict=True)
        ]
    )
    spread = normal_max_score(count) * np.sqrt(count / topk)
    chance = spread[of].reshape(shape) / np.sqrt(np.maximum(t, 1e-9))
    most = np.maximum(count, 1.0)
    return np.minimum(systematic[of].reshape(shape) + chance, most[of].reshape(shape))


@lru_cache(maxsize=4096)
def placement_imbalance(experts: int, ep: int, redundant: int, skew_cv: float, placement_residual: float) -> float:
    """Expected max/mean load per EP rank from expert popularity alone (infinite batch).

    redundant = 0: experts lie on ranks as numbered; a rank's load is a sum of experts/ep lognormals, taken as
    lognormal with the same mean and variance (Fenton-Wilkinson), its expected maximum over ep ranks at Blom's
    quantile.

    redundant > 0: an EPLB-like placement. Replicas go to the hottest experts so that the largest load per replica is
    least (water-filling on the popularity quantiles); packing then reaches the lower bound max(1, hottest replica /
    mean load per rank) times 1 + ``placement_residual`` (what statistics of yesterday leave, from data).
    """
    if ep <= 1 or skew_cv <= 0:
        return 1.0
    sigma2 = np.log1p(skew_cv**2)
    if redundant == 0:
        per_rank = max(experts / ep, 1.0)
        s2 = np.log1p(skew_cv**2 / per_rank)
        return float(max(1.0, np.exp(normal_max_score(ep) * np.sqrt(s2) - s2 / 2)))
    hottest = _hottest_replica(experts, redundant, float(np.sqrt(sigma2)))
    return float(max(1.0, hottest * ep / experts) * (1.0 + placement_residual))


def _hottest_replica(experts: int, redundant: int, sigma: float) -> float:
    """Largest load of one replica, in mean loads per expert, after the best use of ``redundant`` replicas."""
    from scipy.special import ndtri

    load = np.exp(sigma * ndtri((np.arange(1, experts + 1) - 0.375) / (experts + 0.25)))
    load /= load.mean()

    def replicas_needed(limit: float) -> float:
        return float(np.ceil(load / limit - 1e-9).sum())

    low, high = float(load.sum() / (experts + redundant)), float(load.max())
    for _ in range(60):
        mid = 0.5 * (low + high)
        if replicas_needed(mid) <= experts + redundant:
            high = mid
        else:
            low = mid
    return high

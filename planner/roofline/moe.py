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

Array = NDArray[np.float64]


def touched_experts(tokens: ArrayLike, experts: ArrayLike, topk: ArrayLike) -> Array:
    """Expected number of distinct experts that ``tokens`` reach: E (1 - (1 - k/E)^T), routing taken as uniform.

    ``tokens``, ``experts`` and ``topk`` broadcast; returns experts (dimensionless).
    """
    e = np.asarray(experts, dtype=float)
    miss = np.log1p(-np.minimum(np.asarray(topk, dtype=float) / e, 1.0 - 1e-12))
    return e * -np.expm1(np.asarray(tokens, dtype=float) * miss)


def tokens_per_expert(tokens: ArrayLike, experts: ArrayLike, topk: ArrayLike) -> Array:
    """Mean number of tokens in a touched expert's GEMM (its m): T k / touched."""
    touched = touched_experts(tokens, experts, topk)
    return np.asarray(tokens, dtype=float) * np.asarray(topk, dtype=float) / np.maximum(touched, 1e-12)


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
    t = np.asarray(tokens, dtype=float)
    r = np.asarray(ep, dtype=float)
    systematic = placement_imbalance_array(experts, ep, redundant, skew_cv, placement_residual)
    chance = normal_max_score(r) * np.sqrt(r / np.maximum(t * topk, 1e-9))
    return np.where(r > 1, np.minimum(systematic + chance, r), 1.0)


def placement_imbalance_array(
    experts: int, ep: ArrayLike, redundant: ArrayLike, skew_cv: float, placement_residual: float
) -> Array:
    """:func:`placement_imbalance` on arrays; the few distinct (ep, redundant) pairs are worked out once each."""
    ep_a, red_a = np.broadcast_arrays(np.asarray(ep, dtype=np.int64), np.asarray(redundant, dtype=np.int64))
    key = ep_a * (1 << 20) + red_a
    pairs, inverse = np.unique(key, return_inverse=True)
    values = [
        placement_imbalance(experts, int(p) >> 20, int(p) & ((1 << 20) - 1), skew_cv, placement_residual) for p in pairs
    ]
    return np.asarray(values)[inverse].reshape(key.shape)


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

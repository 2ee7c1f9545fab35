"""Prefix cache: what a hit rate saves, the memory behind it, and routing by affinity against an even load."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError
from planner.serving.length_shape import LengthShape

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hits:
    """Which prompts are found in the cache: a part of the requests, each as far as a part of its tokens or a number of
    them."""

    requests: float
    """Part of the requests that are."""
    part: float
    """Part of the tokens of one of them."""
    tokens: float = 0.0
    """Number of its first tokens, where that is the same for all; else 0."""

    def cached(self, prompt_tokens: Array) -> Array:
        """Tokens found of a prompt that is."""
        found = np.minimum(self.tokens, prompt_tokens - 1.0) if self.tokens else self.part * prompt_tokens
        return np.asarray(np.maximum(found, 0.0))


def computed_shape(prompts: LengthShape, hits: Hits) -> LengthShape:
    """Prompt tokens that are computed: all of a prompt that is not found, the rest of one that is."""
    if hits.requests >= 1.0 and not hits.tokens:
        return replace(prompts, mean=prompts.mean * (1.0 - hits.part))
    tokens = prompts.values * prompts.mean
    shares = (hits.requests, 1.0 - hits.requests)
    return LengthShape.mixed(shares, (tokens - hits.cached(tokens), tokens), prompts.weights)


def cached_before(prompts: LengthShape, hits: Hits) -> float:
    """Cached tokens before a computed one, mean over prompts where all are alike, else over computed tokens."""
    if hits.requests >= 1.0 and not hits.tokens:
        return hits.part * prompts.mean
    tokens = prompts.values * prompts.mean
    cached = hits.cached(tokens)
    before = hits.requests * float(prompts.weights @ (cached * (tokens - cached)))
    return before / computed_shape(prompts, hits).mean


def lru_hit_rate(popularity: ArrayLike, capacity: ArrayLike) -> Array:
    """Hit rate of an LRU cache of ``capacity`` equal items under independent requests, (k,) for k capacities.

    Che's approximation: item i of popularity p_i is in the cache with 1 - exp(-p_i t), t such that they add up to the
    capacity (Che, Tung and Wang 2002, eq. 4); hit rate sum p_i (1 - exp(-p_i t)).
    """
    p = np.asarray(popularity, dtype=float)
    if p.ndim != 1 or not p.size or np.any(p < 0) or not p.sum() > 0:
        raise InputError("popularity", p.shape, "a list of weights of at least 0, one of them above 0")
    p = p / p.sum()
    found = []
    for size in np.atleast_1d(np.asarray(capacity, dtype=float)):
        held = np.count_nonzero(p)
        if size >= held:
            found.append(1.0)
            continue
        low, high = 0.0, 1.0
        while np.sum(-np.expm1(-p * high)) < size:
            high *= 2.0
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if np.sum(-np.expm1(-p * middle)) < size else (low, middle)
        found.append(float(p @ -np.expm1(-p * high)))
    return np.array(found)


def zipf(items: int, exponent: float) -> Array:
    """Popularities of ``items`` in proportion to rank^-exponent, adding up to 1."""
    weights = np.arange(1, items + 1, dtype=float) ** -exponent
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class RoutedCache:
    """A prefix cache over workers under one routing."""

    hit_rate: float
    """Part of prefix requests served from cache."""
    imbalance: float
    """Load of the busiest worker over the mean, prompts that must be computed."""
    worker_load: Array
    """Share of the prompt work at each worker, (workers,)."""


def spread_evenly(popularity: ArrayLike, workers: int, items_per_worker: float) -> RoutedCache:
    """Requests go anywhere: every worker sees all prefixes, and each caches what it can of them."""
    hit = float(lru_hit_rate(popularity, items_per_worker)[0])
    return RoutedCache(hit, 1.0, np.full(workers, 1.0 / workers))


def by_affinity(popularity: ArrayLike, workers: int, items_per_worker: float) -> RoutedCache:
    """A prefix always goes to its own worker: caches hold different prefixes, popular ones make their worker busy.

    Prefixes are placed by decreasing popularity on the least loaded worker, as a router with a consistent view does.
    """
    if workers < 1:
        raise InputError("workers", workers, "at least 1")
    p = np.asarray(popularity, dtype=float)
    p = np.sort(p / p.sum())[::-1]
    load, owner = np.zeros(workers), np.empty(p.size, dtype=np.int64)
    for i, weight in enumerate(p):
        owner[i] = int(np.argmin(load))
        load[owner[i]] += weight
    hits, misses = 0.0, np.zeros(workers)
    for w in range(workers):
        mine = p[owner == w]
        if not mine.size or not mine.sum() > 0:
            continue
        rate = float(lru_hit_rate(mine, items_per_worker)[0])
        hits += rate * float(mine.sum())
        misses[w] = float(mine.sum()) * (1.0 - rate)
    work = load if misses.sum() == 0 else misses / misses.sum()
    return RoutedCache(hits, float(work.max() * workers), work)

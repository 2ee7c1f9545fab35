"""LRU hit rates against a simulated cache; affinity against balance."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from planner.errors import InputError
from planner.serving.prefix_cache import (
    affinity_pays,
    by_affinity,
    computed_tokens,
    lru_hit_rate,
    spread_evenly,
    tokens_for_hit_rate,
    zipf,
)


def test_a_simulated_lru_cache() -> None:
    p, size = zipf(400, 0.9), 60
    cache: OrderedDict[int, None] = OrderedDict()
    hits, draws = 0, np.random.default_rng(0).choice(p.size, size=60_000, p=p)
    for item in draws.tolist():
        hits += item in cache
        cache[item] = None
        cache.move_to_end(item)
        if len(cache) > size:
            cache.popitem(last=False)
    assert lru_hit_rate(p, size)[0] == pytest.approx(hits / draws.size, abs=0.01)


def test_hit_rate_and_memory_are_inverse() -> None:
    p = zipf(200, 1.0)
    tokens = tokens_for_hit_rate(p, 1000.0, 0.6)
    assert lru_hit_rate(p, tokens / 1000.0)[0] == pytest.approx(0.6, abs=1e-3)
    rates = lru_hit_rate(p, np.array([1, 10, 100, 200]))
    assert np.all(np.diff(rates) > 0)
    assert rates[-1] == 1.0
    with pytest.raises(InputError):
        tokens_for_hit_rate(p, 1000.0, 1.0)


def test_affinity_keeps_more_and_spreads_less_evenly() -> None:
    p = zipf(1000, 1.1)
    even, own = spread_evenly(p, 8, 50), by_affinity(p, 8, 50)
    assert own.hit_rate > even.hit_rate
    assert own.imbalance > even.imbalance == 1.0
    assert own.worker_load.sum() == pytest.approx(1.0)


def test_one_worker_has_nothing_to_route() -> None:
    p = zipf(100, 1.0)
    assert by_affinity(p, 1, 20).hit_rate == pytest.approx(spread_evenly(p, 1, 20).hit_rate)


def test_one_hot_prefix_is_better_spread() -> None:
    p = np.concatenate([[0.9], np.full(100, 0.001)])
    assert not affinity_pays(spread_evenly(p, 8, 200), by_affinity(p, 8, 0.5))


def test_computed_tokens() -> None:
    assert computed_tokens(1000, 0.563) == pytest.approx(437)
    assert computed_tokens(1, 0.9) == 1.0

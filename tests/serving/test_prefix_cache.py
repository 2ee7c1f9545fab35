"""LRU hit rates against a simulated cache; affinity against balance."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from planner.scenario.lengths import LognormalLength
from planner.serving.length_shape import LengthShape
from planner.serving.prefix_cache import (
    Hits,
    by_affinity,
    cached_before,
    computed_shape,
    lru_hit_rate,
    spread_evenly,
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


def test_more_memory_hits_more() -> None:
    rates = lru_hit_rate(zipf(200, 1.0), np.array([1, 10, 100, 200]))
    assert np.all(np.diff(rates) > 0)
    assert rates[-1] == 1.0


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
    even, own = spread_evenly(p, 8, 200), by_affinity(p, 8, 0.5)
    assert (1.0 - own.hit_rate) * own.imbalance > (1.0 - even.hit_rate) * even.imbalance


PROMPTS = LengthShape.of(LognormalLength(kind="lognormal", mean_tokens=1200.0, p95_tokens=3000.0))


def test_equal_hits_leave_the_shape_of_prompts() -> None:
    found = computed_shape(PROMPTS, Hits(1.0, 0.4))
    assert found.mean == pytest.approx(0.6 * PROMPTS.mean)
    assert found.values == pytest.approx(PROMPTS.values)
    assert cached_before(PROMPTS, Hits(1.0, 0.4)) == pytest.approx(0.4 * PROMPTS.mean)


def test_hits_of_some_requests_keep_the_mean_and_widen_what_is_computed() -> None:
    alike, some = (computed_shape(PROMPTS, h) for h in (Hits(1.0, 0.4), Hits(0.5, 0.8)))
    assert some.mean == pytest.approx(alike.mean)
    assert some.scv > alike.scv + 0.3
    assert some.weights.sum() == pytest.approx(1.0)
    assert (np.diff(some.values) >= 0.0).all()
    assert some.quantile(0.95) > alike.quantile(0.95)
    before = cached_before(PROMPTS, Hits(0.5, 0.8))  # found tokens stand before a fifth of the computed ones only
    second = PROMPTS.moment(2) * PROMPTS.mean**2
    assert before == pytest.approx(0.5 * 0.8 * 0.2 * second / some.mean)


def test_a_shared_prefix_saves_its_own_tokens() -> None:
    found = computed_shape(LengthShape.fixed(1000.0), Hits(0.75, 0.4, 400.0))
    assert found.mean == pytest.approx(0.75 * 600.0 + 0.25 * 1000.0)
    assert found.values * found.mean == pytest.approx([600.0, 1000.0])

"""Waits by priority class against a simulated queue."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from planner.serving.latency import percentiles
from planner.serving.priorities import by_class, priority_wait_laws
from planner.serving.queues import queue_wait
from tests.serving.loads import load


def _simulated(
    rate: float, shares: list[float], service: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    n = service.size
    at, rank = np.cumsum(rng.exponential(1.0 / rate, n)), rng.choice(len(shares), size=n, p=shares)
    waiting: list[tuple[int, float, int]] = []
    wait, now, i = np.zeros(n), 0.0, 0
    while i < n or waiting:
        now = max(now, at[i]) if not waiting else now
        while i < n and at[i] <= now:
            heapq.heappush(waiting, (int(rank[i]), at[i], i))
            i += 1
        _, since, j = heapq.heappop(waiting)
        wait[j] = now - since
        now += service[j]
    return wait, rank


@pytest.mark.parametrize("kind", ["exponential", "constant"])
def test_moments_of_a_simulated_queue(kind: str) -> None:
    n = 100_000
    service = np.ones(n) if kind == "constant" else np.random.default_rng(3).exponential(1.0, n)
    shares, rate = [0.3, 0.7], 0.7
    wait, rank = _simulated(rate, shares, service, 5)
    moments = (float(service.mean()), float((service**2).mean()), float((service**3).mean()))
    for k, law in enumerate(priority_wait_laws([rate * share for share in shares], *moments)):
        mine = wait[rank == k]
        late = mine[mine > 1e-12]
        assert law.mean == pytest.approx(mine.mean(), rel=0.06)
        assert law.probability == pytest.approx(late.size / mine.size, rel=0.03)
        assert law.delayed_scv == pytest.approx(late.var() / late.mean() ** 2, rel=0.1)


@settings(deadline=None)
@given(st.floats(0.05, 0.95), st.floats(1.0, 4.0))
def test_one_class_is_the_queue_without_classes(load: float, second: float) -> None:
    third = 1.5 * second**2  # any that is at least the square
    law = priority_wait_laws([load], 1.0, second, third)[0]
    plain = queue_wait(load, 1.0, 1.0, second - 1.0, third / second**2)
    assert law.mean == pytest.approx(plain.mean)
    assert law.probability == pytest.approx(plain.probability)
    assert law.delayed_scv == pytest.approx(plain.delayed_scv)


def test_overload_reaches_the_last_class_first() -> None:
    urgent, other = priority_wait_laws([0.5, 0.6], 1.0, 2.0, 6.0)
    assert np.isfinite(urgent.mean)
    assert np.isinf(other.mean)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0.5, 12.0),
    st.lists(st.floats(0.05, 1.0), min_size=2, max_size=4),
    st.sampled_from([1.0, 2.0]),
    st.booleans(),
    st.sampled_from([1.0, 8.0]),
)
def test_classes_add_up_and_keep_their_order(
    rate: float, parts: list[float], cv: float, pause: bool, room: float
) -> None:
    shares = [part / sum(parts) for part in parts]
    worker = load(rate, cv=cv, pause=pause, most_prompts=np.array(room))
    result = percentiles(worker)
    if not result.stable[0]:
        return
    for metric, by_level in by_class(worker, result, 0, shares).items():
        whole = getattr(result, metric)
        assert float(np.dot(shares, by_level["mean"])) == pytest.approx(float(whole["mean"][0]), rel=1e-6, abs=1e-9)
        for name, values in by_level.items():
            assert np.all(np.diff(values) >= -1e-12)
            if name != "mean":
                assert values[0] <= whole[name][0] * (1.0 + 1e-9) + 1e-12
        for low, high in (("p50", "p90"), ("p90", "p95"), ("p95", "p99")):
            assert np.all(by_level[low] <= by_level[high] + 1e-12)


def test_the_urgent_wait_less_where_prompts_queue() -> None:
    worker = load(10.0, most_prompts=np.array(1.0))
    result = percentiles(worker)
    assert result.stable[0]
    found = by_class(worker, result, 0, [0.3, 0.7])["ttft"]
    assert found["p99"][0] < 0.8 * result.ttft["p99"][0] < result.ttft["p99"][0] < found["p99"][1]

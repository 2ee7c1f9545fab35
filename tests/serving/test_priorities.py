"""Waits by priority class against a simulated queue."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from planner.serving.priorities import priority_wait_laws
from planner.serving.queues import queue_wait


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

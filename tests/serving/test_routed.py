"""What one of several equally full workers sees of arrivals: rates of balance against levels stepped through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.routed import apart, balance_rps, busy_rate, damping, left_in

PARTS = st.floats(0.0, 1.0)


def _level_variance(workers: int, events: int) -> float:
    """Variance of a worker's requests about the mean of all, arrivals to the one with the fewest, departures even."""
    rng = np.random.default_rng(workers)
    held, total = np.zeros(workers), 0.0
    for comes, which in zip(rng.random(events) < 0.5, rng.integers(0, workers, events), strict=True):
        if comes:
            least = np.flatnonzero(held == held.min())
            held[least[which % least.size]] += 1.0
        else:
            held[which] -= 1.0
        total += held.var()
    return total / events


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_the_rate_of_balance_is_that_of_the_levels_it_leaves(workers: int) -> None:
    rate = 3.0
    wanted = (1.0 - 1.0 / workers) * rate / _level_variance(workers, 60_000)
    assert balance_rps(rate, float(workers)) == pytest.approx(wanted, rel=0.08)


def test_one_worker_gets_what_comes() -> None:
    assert damping(1.0, balance_rps(2.0, 1.0), 10.0, apart(1.0, 1.0, 1.0), 0.8, 0.1) == 0.0
    assert busy_rate(0.0, 0.1) == 1.0


def test_many_workers_with_time_to_balance_get_what_leaves() -> None:
    d = damping(1e6, 100.0, 100.0, apart(1e6, 1.0, 1.0), 0.5, 0.0)
    assert d == pytest.approx(1.0, abs=1e-3)
    assert busy_rate(d, 0.1) == pytest.approx(0.1, abs=1e-3)


def test_what_is_alike_in_all_is_not_damped() -> None:
    bursts = damping(4.0, 5.0, 1.0, apart(4.0, 100.0, 1.0), 0.8, 0.1)
    single = damping(4.0, 5.0, 1.0, apart(4.0, 1.0, 1.0), 0.8, 0.1)
    assert 0.0 < bursts < 0.3 * single


@given(own=PARTS, used=st.floats(0.01, 0.99), leaving=PARTS, lasting=st.floats(1e-3, 1e3), workers=st.integers(2, 500))
def test_parts_stay_parts(own: float, used: float, leaving: float, lasting: float, workers: int) -> None:
    d = damping(float(workers), balance_rps(1.0, float(workers)), lasting, own, used, leaving)
    assert 0.0 <= d <= 1.0
    assert min(leaving, 1.0) - 1e-9 <= busy_rate(d, leaving) <= 1.0


def test_nothing_leaves_while_decodes_pause() -> None:
    assert left_in(0.02, np.array([0.01, 0.04]), False) == pytest.approx([1.0, 0.5])
    assert left_in(0.02, np.array([0.01, 0.04]), True) == pytest.approx([0.0, 0.0])

"""Queues against exact formulas, tables and a simulated recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.serving.queues import (
    batch_of,
    erlang_b,
    erlang_c,
    fano,
    peaked_blocking,
    priority_waits,
    queue_wait,
    worker_cv,
)

RHO = st.floats(0.01, 0.99)
CV = st.floats(0.2, 8.0)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_one_server_with_poisson_arrivals_is_exact(rho: float) -> None:
    exponential = queue_wait(rho, 1.0, 1.0, 1.0, 1.5)
    assert exponential.mean == pytest.approx(rho / (1 - rho))  # M/M/1
    assert exponential.probability == pytest.approx(rho)
    assert exponential.delayed_scv == pytest.approx(1.0)
    fixed = queue_wait(rho, 1.0, 1.0, 0.0, 1.0)
    assert fixed.mean == pytest.approx(rho / (2 * (1 - rho)))  # M/D/1


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.85])
def test_gamma_bursts_before_an_exponential_server_are_exact(rho: float) -> None:
    cv = 3.0
    found = queue_wait(rho, cv, 1.0, 1.0, 1.5)
    sigma = float(found.probability)
    assert sigma == pytest.approx((1 + (1 - sigma) * cv**2 / rho) ** (-1 / cv**2), rel=1e-6)
    assert found.mean == pytest.approx(sigma / (1 - sigma), rel=1e-6)


@pytest.mark.parametrize(("cv", "scv", "third"), [(1.0, 2.0, 3.0), (2.0, 0.0, 1.0), (4.0, 1.0, 1.5), (0.5, 1.0, 1.5)])
def test_waits_follow_the_recursion_of_one_server(cv: float, scv: float, third: float) -> None:
    rng, n, rho = np.random.default_rng(1), 400_000, 0.6
    gaps = rng.gamma(1 / cv**2, cv**2, n)
    sigma = np.sqrt(np.log1p(scv))
    services = {0.0: np.ones(n), 1.0: rng.exponential(1.0, n)}.get(scv, rng.lognormal(-(sigma**2) / 2, sigma, n)) * rho
    work = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    waits = work - np.minimum.accumulate(work)
    found = queue_wait(1.0, cv, rho, scv, third)
    assert found.mean == pytest.approx(waits.mean(), rel=0.08)
    assert found.probability == pytest.approx((waits > 0).mean(), abs=0.03)


def test_a_full_queue_waits_for_ever() -> None:
    assert np.all(np.isinf(queue_wait(np.array([1.0, 2.0]), 1.0, 1.0, 1.0, 1.5).mean))


@settings(deadline=None)
@given(rho=RHO, cv=CV, scv=st.floats(0.0, 5.0))
def test_waits_rise_with_load_and_burstiness(rho: float, cv: float, scv: float) -> None:
    third = 1.0 + scv
    here = queue_wait(rho, cv, 1.0, scv, third)
    assert np.isfinite(here.mean)
    assert here.mean >= 0
    assert 0 <= here.probability <= 1
    assert queue_wait(min(rho * 1.05, 0.995), cv, 1.0, scv, third).mean >= here.mean * (1 - 1e-9)
    if cv >= 1.0:
        assert queue_wait(rho, cv * 1.1, 1.0, scv, third).mean >= here.mean * (1 - 1e-9)


def test_more_servers_wait_less_at_equal_load() -> None:
    waits = [float(queue_wait(0.8 * c, 1.0, 1.0, 1.0, 1.5, c).mean) for c in (1, 2, 8, 64)]
    assert waits == sorted(waits, reverse=True)


def test_two_servers_are_near_erlang() -> None:
    load = 1.6
    exact = float(erlang_c(2.0, load)) / (2.0 - load)
    assert queue_wait(load, 1.0, 1.0, 1.0, 1.5, 2.0).mean == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(
    ("slots", "load", "blocked"),
    [(1, 1.0, 0.5), (2, 1.0, 0.2), (5, 3.0, 0.1101), (10, 5.0, 0.0184), (20, 12.0, 0.0098), (100, 84.06, 0.01)],
)
def test_erlang_b_of_the_tables(slots: int, load: float, blocked: float) -> None:
    assert erlang_b(slots, load) == pytest.approx(blocked, abs=2e-4)


@settings(deadline=None)
@given(slots=st.integers(1, 300), load=st.floats(0.1, 400.0))
def test_erlang_b_is_its_recursion(slots: int, load: float) -> None:
    blocked = 1.0
    for k in range(1, slots + 1):
        blocked = load * blocked / (k + load * blocked)
    assert erlang_b(slots, load) == pytest.approx(blocked, rel=1e-6, abs=1e-12)


def test_erlang_c_of_one_server_is_its_load() -> None:
    assert erlang_c(1.0, np.array([0.2, 0.7])) == pytest.approx([0.2, 0.7])
    assert erlang_c(3.0, 4.0) == 1.0


def test_peaked_arrivals_block_more() -> None:
    blocked = peaked_blocking(50.0, 40.0, np.array([0.5, 1.0, 2.0, 4.0]))
    assert np.all(np.diff(blocked) > 0)


def test_priorities() -> None:
    waits = priority_waits([0.3, 0.4], 1.0, 2.0)
    assert waits[0] == pytest.approx(0.7 / 0.7)
    assert waits[1] == pytest.approx(0.7 / (0.7 * 0.3))
    conserved = (0.3 * waits[0] + 0.4 * waits[1]) / 0.7  # Kleinrock's conservation law
    assert conserved == pytest.approx(0.7 / 0.3)
    assert np.isinf(priority_waits([0.5, 0.6], 1.0, 2.0)[1])
    with pytest.raises(InputError):
        priority_waits([], 1.0, 1.0)


def test_sharing_a_stream() -> None:
    assert worker_cv(4.0, 4, "round_robin") == pytest.approx(2.0)
    assert worker_cv(4.0, np.array([4, 64])) == pytest.approx(np.sqrt(1.0 + 15.0 / np.array([4, 64])))
    assert worker_cv(0.5, 3) == pytest.approx(np.sqrt(0.75))
    assert worker_cv(4.0, 4, "random") == pytest.approx(np.sqrt(1 + 15 / 4))
    assert worker_cv(1.0, 7, "random") == pytest.approx(1.0)


def test_counts_disperse_from_one_to_the_squared_cv() -> None:
    assert fano(1.0, 5.0) == 1.0
    assert fano(4.0, 1e-6) == pytest.approx(1.0, abs=0.01)
    assert fano(4.0, 1e6) == pytest.approx(16.0, rel=0.01)
    assert fano(4.0, 10.0) == pytest.approx(12.86, rel=0.1)  # 4e6 simulated gaps


def test_batches() -> None:
    assert batch_of(1e-9) == pytest.approx(1.0)
    assert batch_of(2.0) == pytest.approx(2.0 / (1 - np.exp(-2.0)))
    assert batch_of(1.0, 8.49) == pytest.approx(5.45, rel=0.1)  # 4e6 simulated gaps of cv 4

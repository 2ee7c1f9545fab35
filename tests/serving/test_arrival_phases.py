"""Mixtures of exponentials in place of gamma gaps: moments, counts, and the work that comes with arrivals."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.serving.arrival_phases import PHASES, Arrivals, WorkArrivals

CV = st.floats(1.06, 15.0)


@settings(deadline=None)
@given(cv=CV, rate=st.floats(0.01, 100.0))
def test_a_mixture_keeps_the_moments_of_gamma_gaps(cv: float, rate: float) -> None:
    found = Arrivals.of(rate, cv)
    shape = 1.0 / cv**2
    phases = next(j for largest, j in PHASES if cv <= largest)
    assert found.shares.sum() == pytest.approx(1.0)
    for order in range(1, 2 * phases):
        gamma = np.prod([(shape + k) / shape for k in range(order)]) / rate**order
        mixture = factorial(order) * np.sum(found.shares / found.rates**order)
        assert mixture == pytest.approx(gamma, rel=1e-6), order
    assert found.rate_rps == pytest.approx(rate)
    assert found.lasting.sum() == pytest.approx(1.0)


def test_poisson_and_smoother_gaps_are_one_exponential() -> None:
    for cv in (0.0, 0.5, 1.0):
        found = Arrivals.of(3.0, cv)
        assert found.rates == pytest.approx([3.0])
        assert found.counts(np.array([0.0, 2.0])) == pytest.approx([0.0, 6.0])


@pytest.mark.parametrize("cv", [2.0, 4.0])
def test_counts_after_an_arrival_are_those_of_gamma_gaps(cv: float) -> None:
    rng, shape = np.random.default_rng(0), 1.0 / cv**2
    times = np.cumsum(rng.gamma(shape, 1.0 / shape, size=(20_000, 400)), axis=1)
    found = Arrivals.of(1.0, cv)
    for window in (1.0, 3.0, 10.0):
        counted = (times <= window).sum(axis=1)
        wanted = counted[counted < 400].mean()
        assert float(found.counts(window)) == pytest.approx(wanted, rel=0.15), window


def test_work_within_a_time_has_its_mean_and_is_a_distribution() -> None:
    lengths = np.zeros(256)
    lengths[[1, 2, 5]] = 0.5, 0.3, 0.2
    mean = float(lengths @ np.arange(256))
    for cv in (1.0, 2.0, 4.0):
        arrivals = Arrivals.of(2.0, cv)
        found = WorkArrivals(arrivals, lengths).within([0.0, 0.7])
        assert found.shape == (2, arrivals.rates.size, arrivals.rates.size, 256)
        assert found[0].sum(axis=2) == pytest.approx(np.eye(arrivals.rates.size), abs=1e-9)
        steady = np.tensordot(arrivals.lasting, found[1], 1).sum(axis=0)
        assert steady.min() > -1e-9
        assert steady.sum() == pytest.approx(1.0)
        assert float(steady @ np.arange(256)) == pytest.approx(2.0 * 0.7 * mean, rel=1e-6)

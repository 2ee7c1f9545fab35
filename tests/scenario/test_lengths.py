"""Moments, quantiles and samples of the length distributions agree with each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.validation import validate
from planner.errors import InputError
from planner.scenario.lengths import (
    MAX_P95_OVER_MEAN,
    EmpiricalLength,
    FixedLength,
    Length,
    LognormalLength,
    UniformLength,
    histogram,
)
from planner.scenario.safe_yaml import dump_yaml, load_yaml

fixed = st.builds(lambda t: FixedLength(kind="fixed", tokens=t), st.integers(1, 10**6))
uniform = st.builds(
    lambda a, n: UniformLength(kind="uniform", min_tokens=a, max_tokens=a + n),
    st.integers(1, 10**5),
    st.integers(0, 10**5),
)
lognormal = st.builds(
    lambda m, r: LognormalLength(kind="lognormal", mean_tokens=m, p95_tokens=m * r),
    st.floats(1.0, 1e6),
    st.floats(1.001, 3.868),
)
empirical = st.builds(
    lambda values: EmpiricalLength(kind="empirical", **histogram(values)),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=50),
)
any_length = st.one_of(fixed, uniform, lognormal, empirical)


@given(any_length)
def test_yaml_round_trip_is_exact(length: Length) -> None:
    data = load_yaml(dump_yaml(length.to_dict()), "length")
    assert validate(type(length), data, "length") == length


@settings(deadline=None)
@given(any_length, st.lists(st.floats(0.001, 0.999), min_size=2, max_size=8))
def test_quantiles_rise_and_stay_below_the_maximum(length: Length, p: list[float]) -> None:
    q = length.quantile(np.sort(p))
    assert np.all(np.diff(q) >= 0)
    assert np.all(q <= length.maximum())
    assert q.shape == (len(p),)


@given(any_length)
def test_second_moment_is_at_least_the_squared_mean(length: Length) -> None:
    assert length.second_moment() >= length.mean() ** 2 * (1 - 1e-12)


@settings(deadline=None, max_examples=30)
@given(any_length)
def test_samples_follow_the_moments(length: Length) -> None:
    n = 20_000
    x = length.sample(np.random.default_rng(7), n)
    assert x.dtype == np.int64
    assert x.min() >= 1
    spread = math.sqrt(max(length.second_moment() - length.mean() ** 2, 0.0))
    # whole tokens: rounding moves a mean by less than half a token, and lengths below one token become one
    assert abs(x.mean() - length.mean()) <= 6 * spread / math.sqrt(n) + 0.6


@given(uniform)
def test_uniform_matches_its_histogram(length: UniformLength) -> None:
    values = np.arange(length.min_tokens, min(length.max_tokens, length.min_tokens + 300) + 1)
    if values[-1] != length.max_tokens:
        return
    assert length.mean() == pytest.approx(values.mean())
    assert length.second_moment() == pytest.approx((values.astype(float) ** 2).mean())
    p = np.linspace(0, 1, 7)
    assert np.array_equal(length.quantile(p), np.quantile(values, p, method="inverted_cdf"))


@settings(deadline=None)
@given(lognormal)
def test_lognormal_hits_its_p95(length: LognormalLength) -> None:
    assert float(length.quantile(0.95)) == pytest.approx(length.p95_tokens, rel=1e-6)


def test_lognormal_range_is_that_of_the_law() -> None:
    edge = LognormalLength(kind="lognormal", mean_tokens=100.0, p95_tokens=100.0 * MAX_P95_OVER_MEAN)
    assert edge.sigma == pytest.approx(1.6448536269514722)
    with pytest.raises(ValueError, match=r"3\.868"):
        LognormalLength(kind="lognormal", mean_tokens=100.0, p95_tokens=390.0)


@given(st.lists(st.integers(1, 10**5), min_size=1, max_size=200))
def test_empirical_is_the_data(values: list[int]) -> None:
    length = EmpiricalLength(kind="empirical", **histogram(values))
    data = np.asarray(values, dtype=float)
    assert length.mean() == pytest.approx(data.mean())
    assert length.second_moment() == pytest.approx((data**2).mean())
    assert float(length.quantile(0.5)) == np.quantile(data, 0.5, method="inverted_cdf")


def test_probabilities_outside_are_refused() -> None:
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError):
            FixedLength(kind="fixed", tokens=3).quantile(p)


def test_a_file_must_be_read_first() -> None:
    with pytest.raises(InputError, match="load_scenario"):
        EmpiricalLength(kind="empirical", file="a.csv", column="n").mean()

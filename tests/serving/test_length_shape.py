"""Shapes of length distributions."""

from __future__ import annotations

import numpy as np
import pytest

from planner.scenario.lengths import EmpiricalLength, FixedLength, LognormalLength, UniformLength
from planner.serving.length_shape import LengthShape

LOGNORMAL = LognormalLength(kind="lognormal", mean_tokens=1000.0, p95_tokens=3000.0)


@pytest.mark.parametrize(
    "length",
    [LOGNORMAL, UniformLength(kind="uniform", min_tokens=100, max_tokens=900), FixedLength(kind="fixed", tokens=64)],
)
def test_moments_and_quantiles_are_the_distributions_own(
    length: LognormalLength | UniformLength | FixedLength,
) -> None:
    shape = LengthShape.of(length)
    assert shape.mean == pytest.approx(length.mean(), rel=0.01)
    assert shape.moment(1) == pytest.approx(1.0)
    assert shape.moment(2) == pytest.approx(length.second_moment() / length.mean() ** 2, rel=0.02)
    for p in (0.1, 0.5, 0.9, 0.99):
        assert shape.quantile(p) * shape.mean == pytest.approx(float(length.quantile(p)), rel=0.02)


def test_a_cut_shortens_the_tail() -> None:
    assert LengthShape.of(LOGNORMAL, 2000.0).values.max() * LengthShape.of(LOGNORMAL, 2000.0).mean <= 2000.0 + 1e-6


def test_overlap_of_equal_lengths_is_one_and_of_others_less() -> None:
    assert LengthShape.fixed(10.0).overlap == pytest.approx(1.0)
    two = EmpiricalLength(kind="empirical", values_tokens=(1, 3))
    assert LengthShape.of(two).overlap == pytest.approx((0.75 * 1 + 0.25 * 3) / 2, rel=0.01)
    assert LengthShape.of(LOGNORMAL).overlap < 0.7


def test_steps_of_a_budget() -> None:
    shape = LengthShape.fixed(1000.0)
    assert shape.steps(0.25) == pytest.approx(4.0, rel=0.1)
    assert shape.full_share(0.25) == pytest.approx(0.75, abs=0.05)
    assert shape.steps(5.0) == pytest.approx(1.0)
    assert shape.step_load(5.0) == pytest.approx(1.0)
    many = LengthShape.of(LOGNORMAL)
    assert np.all(np.diff(many.steps(np.array([0.1, 0.5, 1.0, 5.0]))) < 0)


def test_mean_inverse() -> None:
    assert LengthShape.fixed(11.0).mean_inverse() == pytest.approx(0.1)

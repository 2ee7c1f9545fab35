"""Quantiles of sums against the laws that are known."""

from __future__ import annotations

import numpy as np
import pytest

from planner.serving.quantiles import (
    Part,
    gamma_part,
    gamma_quantile,
    normal,
    normal_quantile,
    signed_root,
    sum_quantile,
    uniform_part,
    waiting_part,
)

ONE = np.ones(1)


def test_one_part_keeps_its_quantiles() -> None:
    part = gamma_part(2 * ONE, ONE)
    for p in (0.9, 0.95, 0.99):
        assert sum_quantile([part], p) == pytest.approx(part.quantile(p))


def test_normal_parts_add_in_quadrature() -> None:
    parts = [Part(m * ONE, s * s * ONE, lambda p, m=m, s=s: m + s * normal(p) * ONE) for m, s in ((5, 1), (2, 2))]
    for p in (0.5, 0.95, 0.99):
        assert sum_quantile(parts, p) == pytest.approx(7 + np.sqrt(5) * normal(p))


def test_two_exponentials_are_near_their_gamma() -> None:
    parts = [waiting_part(ONE, ONE, ONE), waiting_part(ONE, ONE, ONE)]
    assert sum_quantile(parts, 0.5) == pytest.approx(1.678, rel=0.03)
    assert sum_quantile(parts, 0.95) == pytest.approx(4.744, rel=0.04)
    assert sum_quantile(parts, 0.99) == pytest.approx(6.638, rel=0.08)


def test_a_rare_wait_does_not_move_the_median() -> None:
    prompt = gamma_part(ONE, 0.04 * ONE)
    rare = waiting_part(0.5 * ONE, 0.05 * ONE, ONE)
    assert sum_quantile([prompt, rare], 0.5) == pytest.approx(prompt.quantile(0.526), rel=0.05)


@pytest.mark.parametrize("scv", [0.3, 1.0, 3.0])
def test_waits_have_their_mean_and_variance(scv: float) -> None:
    part = waiting_part(0.6 * ONE, 0.5 * ONE, scv * ONE)
    levels = (np.arange(200_000) + 0.5) / 200_000
    values = np.array(part.quantile(levels))
    assert values.mean() == pytest.approx(0.6, rel=0.02)
    assert values.var() == pytest.approx(part.variance[0], rel=0.06)
    less = waiting_part(0.6 * ONE, 0.5 * ONE, scv * ONE, served=ONE)
    assert less.mean[0] == pytest.approx(np.maximum(values - 1.0, 0.0).mean(), rel=0.08)


def test_uniform_and_gamma() -> None:
    assert uniform_part(ONE).quantile(0.99) == pytest.approx(1.98)
    assert gamma_quantile(ONE, ONE, normal(0.99)) == pytest.approx(4.605, rel=0.02)
    assert signed_root(3.0, 4.0) == pytest.approx(5.0)
    assert signed_root(-3.0, 4.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("p", "expected"), [(0.5, 0.6931), (0.95, 2.9957), (0.99, 4.6052)])
def test_gamma_of_variance_one_is_exponential(p: float, expected: float) -> None:
    """Unit mean and variance: -ln(1 - p); Wilson and Hilferty are within 2 %."""
    found = gamma_quantile(np.array(1.0), np.array(1.0), normal_quantile(p))
    assert found == pytest.approx(expected, rel=0.02)


def test_a_part_of_mean_zero_is_zero() -> None:
    found = gamma_quantile(np.array([0.0, 0.0]), np.array([0.0, 1.0]), 2.33)
    assert found.tolist() == [0.0, 0.0]

"""Quantiles of the parts that latencies are made of."""

from __future__ import annotations

import numpy as np
import pytest

from planner.serving.quantiles import gamma_quantile, normal_quantile


@pytest.mark.parametrize(("p", "expected"), [(0.5, 0.6931), (0.95, 2.9957), (0.99, 4.6052)])
def test_gamma_of_variance_one_is_exponential(p: float, expected: float) -> None:
    """Unit mean and variance: -ln(1 - p); Wilson and Hilferty are within 2 %."""
    found = gamma_quantile(np.array(1.0), np.array(1.0), normal_quantile(p))
    assert found == pytest.approx(expected, rel=0.02)


def test_a_part_of_mean_zero_is_zero() -> None:
    found = gamma_quantile(np.array([0.0, 0.0]), np.array([0.0, 1.0]), 2.33)
    assert found.tolist() == [0.0, 0.0]

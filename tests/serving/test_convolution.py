"""A wait plus a prompt against samples of their sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.serving.convolution import refined
from planner.serving.length_shape import LengthShape
from planner.serving.quantiles import Part, sum_quantile, uniform_part, waiting_part

ONE = np.ones(1)


@pytest.mark.parametrize("chance", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_quantiles_of_a_sampled_sum(chance: float, sigma: float) -> None:
    rng, n = np.random.default_rng(0), 400_000
    prompts = 0.1 * np.exp(sigma * rng.normal(size=n) - sigma**2 / 2)
    waits = np.where(rng.random(n) < chance, rng.exponential(0.3, n), 0.0)
    looks = rng.uniform(0.0, 0.02, n)
    values = np.sort(prompts[:20_000]) / 0.1
    shape = LengthShape(1.0, values, np.full(values.size, 1 / values.size))
    prompt = Part(0.1 * ONE, prompts.var() * ONE, lambda p: 0.1 * shape.quantile(p) * ONE)
    prompt = replace(prompt, survival=lambda t: shape.survival(t / 0.1))
    parts = [uniform_part(0.01 * ONE), waiting_part(0.3 * chance * ONE, chance * ONE, ONE), prompt]
    whole = prompts + waits + looks
    for p in (0.5, 0.9, 0.95, 0.99):
        found = refined(parts, p, sum_quantile(parts, p))
        assert found[0] == pytest.approx(np.quantile(whole, p), rel=0.05), p


def test_other_sums_keep_their_guess() -> None:
    parts = [uniform_part(ONE), replace(uniform_part(ONE))]
    assert refined(parts, 0.9, 3 * ONE) == 3.0

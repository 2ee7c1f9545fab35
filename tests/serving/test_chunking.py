"""Token budgets against gaps; static batching against steps."""

from __future__ import annotations

import numpy as np
import pytest
from serving.loads import ANSWERS, DECODE_S, FIXED, load

from planner.serving.chunking import expected_maximum, largest_budget, static_batching
from planner.serving.length_shape import LengthShape

BUDGETS = np.array([512.0, 1024.0, 2048.0, 4096.0])


def _choice(limit: float) -> tuple[int | None, float]:
    share = np.minimum(BUDGETS / 1000.0, 1.0)
    found = largest_budget(
        load(
            np.full(4, 3.0),
            prompts=FIXED,
            prefill_step_s=DECODE_S + 0.002 + 0.045 * share,
            prefill_fixed_s=np.zeros(4),
            chunks=1.0 / share,
            most_prompts=np.maximum(BUDGETS / 1000.0, 1.0),
        ),
        BUDGETS,
        limit,
    )
    return found.chosen, found.price_s()


def test_a_tight_limit_takes_a_small_budget_and_pays_in_ttft() -> None:
    loose, no_price = _choice(10.0)
    tight, price = _choice(0.05)
    assert loose == 3
    assert tight == 0
    assert price > no_price >= 0
    assert _choice(0.001)[0] is None


def test_static_batches_wait_for_the_longest() -> None:
    same = static_batching(np.array([1.0, 16.0]), LengthShape.fixed(100.0), 0.1, 0.02)
    assert same.idle_share == pytest.approx([0.0, 0.0])
    assert same.batch_s == pytest.approx([2.1, 2.1])
    mixed = static_batching(np.array([1.0, 4.0, 64.0]), ANSWERS, 0.1, 0.02)
    assert np.all(np.diff(mixed.idle_share) > 0)
    assert mixed.idle_share[-1] > 0.6


def test_expected_maximum_of_exponential_like_lengths() -> None:
    rng = np.random.default_rng(0)
    draws = np.exp(rng.normal(size=(40_000, 8)))
    shape = LengthShape(1.0, np.sort(np.exp(rng.normal(size=20_000))), np.full(20_000, 1 / 20_000))
    assert expected_maximum(shape, 8.0) == pytest.approx(draws.max(axis=1).mean(), rel=0.05)

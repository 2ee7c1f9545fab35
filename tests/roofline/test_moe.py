"""Routing arithmetic: published skew, limits of the expected maximum, and sampled batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.roofline.coefficients import default_expert_skew
from planner.roofline.moe import (
    placement_imbalance,
    rank_imbalance,
    touched_experts,
    touched_share,
)

EXPERTS, TOPK = 256, 8


def test_published_skew_of_deepseek_r1() -> None:
    """TensorRT-LLM's tech blog 4: over 32 ranks the load deviates by 0.48 of its mean, the hottest of 256 experts
    carries 11.9 times the mean. One lognormal gives both.
    """
    cv = default_expert_skew()
    sigma2 = np.log1p(cv**2)
    assert cv / np.sqrt(EXPERTS / 32) == pytest.approx(0.48, rel=0.05)
    rng = np.random.default_rng(1)
    load = np.exp(np.sqrt(sigma2) * rng.standard_normal((4000, EXPERTS)))
    hottest = load.max(axis=1) / load.mean(axis=1)
    low, high = np.quantile(hottest, [0.1, 0.9])
    assert low <= 11.9 <= high * 1.1


@given(st.integers(1, 100_000), st.sampled_from([(256, 8), (128, 4), (512, 10)]))
def test_touched_experts_are_bounded(tokens: int, shape: tuple[int, int]) -> None:
    experts, topk = shape
    touched = float(touched_experts(tokens, experts, topk))
    assert min(topk, experts) * (1 - 1e-9) <= touched <= min(experts, tokens * topk) * (1 + 1e-9)


@settings(deadline=None)
@given(st.integers(1, 10**6), st.sampled_from([(256, 8), (128, 4), (8, 2)]), st.floats(0.0, 3.0))
def test_uneven_popularity_touches_no_more_experts(tokens: int, shape: tuple[int, int], skew: float) -> None:
    experts, topk = shape
    even, uneven = (float(touched_experts(tokens, experts, topk, s)) for s in (0.0, skew))
    assert uneven <= even * (1 + 1e-3)
    assert min(topk, experts) * (1 - 1e-3) <= uneven <= experts
    assert uneven <= float(touched_experts(2 * tokens, experts, topk, skew)) * (1 + 1e-9)


def test_uneven_popularity_against_sampled_batches() -> None:
    """Gumbel top-k draws of 8 of 256 experts, popularity lognormal."""
    rng, skew, tokens = np.random.default_rng(3), 1.36, 64
    sigma = np.sqrt(np.log1p(skew**2))
    counts = []
    for _ in range(40):
        weight = sigma * rng.standard_normal(EXPERTS)
        draws = weight + rng.gumbel(size=(tokens, EXPERTS))
        counts.append(len(np.unique(np.argpartition(-draws, TOPK, axis=1)[:, :TOPK])))
    assert float(touched_experts(tokens, EXPERTS, TOPK, skew)) == pytest.approx(np.mean(counts), rel=0.03)


def test_a_busier_rank_touches_more_of_its_experts() -> None:
    share = touched_share(32, EXPERTS, TOPK, 1.36, np.array([1.0, 1.5, 2.0]))
    assert np.all(np.diff(share) > 0)
    assert share[-1] < 1.0


@settings(deadline=None)
@given(st.integers(1, 10**7), st.sampled_from([1, 2, 8, 32, 144, 256]), st.sampled_from([0, 32]), st.floats(0.0, 2.0))
def test_the_hottest_rank_lies_between_the_mean_and_everything(
    tokens: int, ep: int, redundant: int, skew: float
) -> None:
    found = float(rank_imbalance(tokens, TOPK, EXPERTS, ep, redundant, skew, 0.05))
    assert 1.0 <= found <= max(ep, 1)


def test_replicas_even_out_and_larger_batches_do_too() -> None:
    plain, replicated = (placement_imbalance(EXPERTS, 32, r, 1.0, 0.05) for r in (0, 32))
    assert replicated < plain
    small, large = (float(rank_imbalance(t, TOPK, EXPERTS, 32, 0, 0.0, 0.0)) for t in (64, 65_536))
    assert large < small
    assert large == pytest.approx(1.0, abs=0.05)


def test_even_popularity_against_sampled_batches() -> None:
    """Finite batches alone: multinomial counts over 32 ranks."""
    rng, ranks, tokens = np.random.default_rng(2), 32, 512
    sampled = rng.multinomial(tokens * TOPK, np.full(ranks, 1 / ranks), size=4000).max(axis=1) / (tokens * TOPK / ranks)
    assert float(rank_imbalance(tokens, TOPK, EXPERTS, ranks, 0, 0.0, 0.0)) == pytest.approx(sampled.mean(), rel=0.03)


def test_arrays_give_what_scalars_give() -> None:
    tokens, ep, extra = np.array([64.0, 512.0, 64.0]), np.array([8, 32, 8]), np.array([0, 32, 0])
    together = rank_imbalance(tokens, TOPK, EXPERTS, ep, extra, 1.36, 0.05)
    alone = [rank_imbalance(t, TOPK, EXPERTS, e, r, 1.36, 0.05) for t, e, r in zip(tokens, ep, extra, strict=True)]
    np.testing.assert_allclose(together, np.array(alone, dtype=float))

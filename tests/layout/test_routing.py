from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.layout.routing import expected_units


def counted(units: int, experts: int, topk: int, groups: int, reach: int) -> float:
    """The expectation by listing every choice of groups and experts."""
    size = experts // groups
    total, cases = 0, 0
    for selection in itertools.combinations(range(groups), reach):
        allowed = [g * size + i for g in selection for i in range(size)]
        for chosen in itertools.combinations(allowed, topk):
            total += len({e * units // experts for e in chosen})
            cases += 1
    return total / cases


@pytest.mark.parametrize(
    ("units", "experts", "topk", "groups", "reach"),
    [
        (2, 8, 2, 1, 1),
        (4, 8, 3, 4, 2),
        (8, 8, 3, 4, 2),
        (2, 8, 3, 4, 2),
        (3, 12, 3, 4, 2),
        (6, 12, 2, 4, 3),
        (4, 12, 4, 2, 1),
    ],
)
def test_exact_against_enumeration(units: int, experts: int, topk: int, groups: int, reach: int) -> None:
    assert expected_units(units, experts, topk, groups, reach) == pytest.approx(
        counted(units, experts, topk, groups, reach), rel=1e-12
    )


def test_deepseek_v3_against_sampling() -> None:
    """256 experts, top 8 in 4 of 8 groups: nodes of EP32 on 4 nodes and of EP64 on 8 nodes, and their
    ranks.
    """
    rng = np.random.default_rng(7)
    draws = 20_000
    groups = np.argsort(rng.random((draws, 8)), axis=1)[:, :4]
    inside = np.argsort(rng.random((draws, 128)), axis=1)[:, :8]
    experts = np.take_along_axis(groups, inside // 32, axis=1) * 32 + inside % 32
    for units in (2, 4, 8, 32, 64, 256):
        hit = np.zeros((draws, units), dtype=bool)
        np.put_along_axis(hit, experts * units // 256, True, axis=1)
        assert expected_units(units, 256, 8, 8, 4) == pytest.approx(hit.sum(axis=1).mean(), rel=0.01)


def test_group_limit_keeps_tokens_on_four_nodes() -> None:
    assert expected_units(8, 256, 8, 8, 4) <= 4.0
    assert expected_units(8, 256, 8) > expected_units(8, 256, 8, 8, 4)


def test_more_ranks_than_experts_and_uneven_splits() -> None:
    """EP144 holds 1.78 experts a rank; EP320 of 256 experts has one at most."""
    assert 7.0 < expected_units(144, 256, 8, 8, 4) < 8.0
    assert expected_units(256, 256, 8, 8, 4) == pytest.approx(8.0)
    assert expected_units(320, 256, 8, 8, 4) <= 8.0 + 1e-9


@settings(max_examples=60)
@given(st.integers(1, 400), st.sampled_from([(256, 8, 8, 4), (128, 8, 1, 1), (160, 6, 8, 3), (8, 2, 1, 1)]))
def test_bounds_and_growth(units: int, routing: tuple[int, int, int, int]) -> None:
    experts, topk, groups, reach = routing
    value = float(expected_units(units, experts, topk, groups, reach))
    assert 1.0 - 1e-9 <= value <= min(units, topk) + 1e-9
    assert float(expected_units(2 * units, experts, topk, groups, reach)) >= value - 1e-9


def test_shape_is_kept_and_nonsense_refused() -> None:
    assert expected_units(np.array([[1, 2], [4, 8]]), 256, 8).shape == (2, 2)
    for bad in [(0, 256, 8, 1, 1), (4, 256, 300, 1, 1), (4, 256, 8, 3, 1), (4, 256, 8, 8, 9)]:
        with pytest.raises(InputError):
            expected_units(*bad)

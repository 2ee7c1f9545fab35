"""Expert placement: balance against the lower bound, determinism, what must hold for every input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.errors import InputError
from planner.layout.experts import place_experts, popularity_cv, replicate

EXPERTS, LAYERS = 256, 8


def _loads(kind: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    if kind == "uniform":
        return rng.random((LAYERS, EXPERTS))
    if kind == "exponential":
        return rng.exponential(size=(LAYERS, EXPERTS))
    if kind == "lognormal":
        return rng.lognormal(0.0, 1.0, (LAYERS, EXPERTS))
    exponent = float(kind.removeprefix("zipf "))
    popularity = 1.0 / np.arange(1, EXPERTS + 1) ** exponent
    return np.stack([rng.permutation(popularity) for _ in range(LAYERS)])


@pytest.mark.parametrize(
    "kind", ["uniform", "exponential", "lognormal", "zipf 0.6", "zipf 0.8", "zipf 1", "zipf 1.2", "zipf 1.5", "zipf 2"]
)
def test_is_within_three_percent_of_the_lower_bound(kind: str) -> None:
    p = place_experts(_loads(kind), ranks=32, redundant=32)
    assert np.all(p.imbalance <= 1.03 * p.lower_bound)
    assert np.all(p.imbalance <= p.imbalance_before + 1e-12)


def test_known_case_by_hand() -> None:
    """Loads 8, 4, 2, 2 on two ranks with two copies to spare: 8 is cut in two, then a 4 is; 8 + 8 is reached."""
    p = place_experts([8.0, 4.0, 2.0, 2.0], ranks=2, redundant=2)
    assert p.imbalance[0] == pytest.approx(1.0)
    assert p.imbalance_before[0] == pytest.approx(12.0 / 8.0)
    assert p.replicas[0, 0] == 2
    assert place_experts([1.0, 1.0, 1.0, 1.0], 2).physical_to_logical.tolist() == [[0, 2, 1, 3]]


def test_groups_stay_on_their_node() -> None:
    """8 groups of 32 experts over 4 nodes: a node holds experts of two groups only."""
    p = place_experts(_loads("lognormal"), ranks=32, redundant=32, groups=8, nodes=4)
    by_node = p.physical_to_logical.reshape(LAYERS, 4, -1) // 32
    for layer in by_node:
        assert all(len(set(node.tolist())) == 2 for node in layer)
    assert np.all(p.imbalance >= place_experts(_loads("lognormal"), 32, 32).imbalance - 1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 8).flatmap(
        lambda ranks: st.tuples(
            st.just(ranks),
            st.integers(1, 4),
            st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=ranks, max_size=ranks * 4),
        )
    )
)
def test_what_always_holds(case: tuple[int, int, list[float]]) -> None:
    ranks, extra, loads = case
    experts = len(loads)
    redundant = -experts % ranks + ranks * (extra - 1)
    p = place_experts(loads, ranks, redundant)
    assert p.physical_to_logical.shape == (1, experts + redundant)
    assert p.replicas.min() >= 1
    assert p.replicas.sum() == experts + redundant
    assert p.rank_load.sum() == pytest.approx(sum(loads), rel=1e-9, abs=1e-9)
    assert p.imbalance[0] >= 1.0 - 1e-9
    assert p.imbalance[0] >= p.lower_bound[0] - 1e-9
    assert np.array_equal(p.physical_to_logical, place_experts(loads, ranks, redundant).physical_to_logical)
    back = p.logical_to_physical()
    for expert in range(experts):
        slots = back[0, expert][back[0, expert] >= 0]
        assert np.all(p.physical_to_logical[0, slots] == expert)
        assert slots.size == p.replicas[0, expert]


def test_scale_of_counts_does_not_matter() -> None:
    counts = np.rint(_loads("lognormal") * 1000)
    assert np.array_equal(
        place_experts(counts, 32, 32).physical_to_logical, place_experts(8.0 * counts, 32, 32).physical_to_logical
    )


def test_copies_go_to_the_hottest() -> None:
    """7, 3, 1: the first copy halves 7 to 3.5, the second cuts it to 2.33 where it may; else 3 is next."""
    loads = np.array([[7.0, 3.0, 1.0]])
    assert replicate(loads, 2, most=8).tolist() == [[3, 1, 1]]
    assert replicate(loads, 2, most=2).tolist() == [[2, 2, 1]]


def test_skew_of_even_and_uneven_counts() -> None:
    assert popularity_cv(np.ones(8)) == 0.0
    assert popularity_cv([0.0, 2.0]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"counts": [1.0, -1.0], "ranks": 2}, "counts"),
        ({"counts": [1.0, np.nan], "ranks": 2}, "counts"),
        ({"counts": [], "ranks": 1}, "counts"),
        ({"counts": [1.0, 1.0, 1.0], "ranks": 2}, "redundant"),
        ({"counts": [1.0] * 8, "ranks": 4, "nodes": 3}, "nodes"),
        ({"counts": [1.0] * 8, "ranks": 4, "nodes": 2, "groups": 3}, "groups"),
    ],
)
def test_refuses(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as error:
        planner.place_experts(**arguments)
    assert error.value.field == field

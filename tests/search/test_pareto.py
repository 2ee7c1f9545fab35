from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from planner.errors import InputError
from planner.search.pareto import non_dominated_fronts, pareto_mask, pareto_sample


def slow(values: np.ndarray) -> np.ndarray:
    """Every pair compared; all objectives minimised."""
    known = ~np.isnan(values).any(axis=1)
    mask = known.copy()
    for i in np.flatnonzero(known):
        others = values[known]
        mask[i] = not ((others <= values[i]).all(axis=1) & (others < values[i]).any(axis=1)).any()
    return mask


TABLES = st.integers(1, 4).flatmap(
    lambda k: st.integers(1, 60).flatmap(
        lambda n: arrays(
            np.float64,
            (n, k),
            elements=st.one_of(
                st.integers(0, 6).map(float), st.sampled_from([np.nan, np.inf, -np.inf, 1e-9, 1e300, -1e300])
            ),
        )
    )
)


@settings(max_examples=200)
@given(TABLES)
def test_against_all_pairs(values: np.ndarray) -> None:
    found = pareto_mask(list(values.T), ["min"] * values.shape[1])
    assert np.array_equal(found, slow(values))


@given(TABLES)
def test_max_is_min_of_the_negative(values: np.ndarray) -> None:
    k = values.shape[1]
    assert np.array_equal(pareto_mask(list(values.T), ["max"] * k), pareto_mask(list(-values.T), ["min"] * k))


def test_mixed_directions_ties_and_nan() -> None:
    cost = [1.0, 2.0, 1.0, 3.0, np.nan, 0.5]
    speed = [5.0, 9.0, 5.0, 8.0, 99.0, 1.0]
    assert pareto_mask([cost, speed], ["min", "max"]).tolist() == [True, True, True, False, False, True]


def test_fronts_peel_off() -> None:
    x = np.array([0.0, 1.0, 2.0, 1.0, np.nan])
    y = np.array([0.0, 1.0, 2.0, 0.5, 0.0])
    assert non_dominated_fronts([x, y], ["min", "min"]).tolist() == [0, 2, 3, 1, -1]
    assert non_dominated_fronts([x, y], ["min", "min"], fronts=2).tolist() == [0, -1, -1, 1, -1]


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(2, 5), st.sampled_from([0.02, 0.1, 0.5]))
def test_sample_is_on_the_frontier_and_covers_it(seed: int, k: int, resolution: float) -> None:
    values = np.random.default_rng(seed).lognormal(size=(400, k))
    directions = ["min", "max", "min", "max", "min"][:k]
    columns = list(values.T)
    sample = pareto_sample(columns, directions, resolution)
    full = pareto_mask(columns, directions)
    assert full[sample].all()
    signs = np.array([1.0 if d == "min" else -1.0 for d in directions])
    logs = np.log(values) * signs
    slack = 2.0 * np.log1p(resolution)
    for point in logs[full]:
        assert (logs[sample] <= point + slack).all(axis=1).any()


def test_a_million_points_in_five_objectives() -> None:
    values = np.random.default_rng(3).random((1_000_000, 5))
    start = time.perf_counter()
    found = pareto_mask(list(values.T), ["min", "max", "min", "max", "min"])
    assert time.perf_counter() - start < 20.0  # about one second on an idle core
    assert 500 < found.sum() < 10_000


def test_refuses_nonsense() -> None:
    for columns, directions in [
        ([], []),
        ([[1.0]], ["min", "max"]),
        ([[1.0]], ["up"]),
        ([[1.0], [1.0, 2.0]], ["min", "min"]),
    ]:
        with pytest.raises(InputError):
            pareto_mask(columns, directions)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="positive"):
        pareto_sample([[0.0, 1.0]], ["min"], 0.1)
    assert pareto_mask([[], []], ["min", "min"]).shape == (0,)

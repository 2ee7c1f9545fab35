from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.search.grids import chunk_grid, operating_points, step_grid


def test_steps() -> None:
    assert step_grid(40).tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40]
    assert step_grid(1).tolist() == [1]
    assert step_grid(0).size == 0


@given(st.integers(1, 1_000_000))
def test_steps_grow_by_at_most_a_half_and_end_at_the_limit(limit: int) -> None:
    grid = step_grid(limit)
    assert grid[0] == 1
    assert grid[-1] == limit
    assert (np.diff(grid) > 0).all()
    assert (grid[2:] <= 1.5 * grid[1:-1]).all()


def test_points_per_attention_rank_and_limit() -> None:
    found = operating_points([10.7, 0.4, 40], [1, 1, 8])
    by_layout = {i: found.concurrency[found.layout == i].tolist() for i in range(3)}
    assert by_layout == {0: [1, 2, 3, 4, 6, 8, 10], 1: [], 2: [8, 16, 24, 32, 40]}


def test_limit_below_the_attention_ranks_still_has_its_point() -> None:
    assert operating_points([5], [8]).concurrency.tolist() == [5]


def test_given_grid() -> None:
    found = operating_points([100, 10], [8, 1], grid=[32, 8, 8, 64])
    assert found.layout.tolist() == [0, 0, 0, 1]
    assert found.concurrency.tolist() == [8, 32, 64, 8]
    with pytest.raises(InputError, match="concurrency_per_worker"):
        operating_points([4], grid=[0])


@given(st.lists(st.floats(0, 5000), min_size=1, max_size=20), st.integers(1, 16))
def test_no_point_above_its_limit(limits: list[float], ranks: int) -> None:
    found = operating_points(limits, ranks)
    most = np.array(limits)[found.layout]
    assert (found.concurrency <= most).all()
    assert (found.concurrency >= 1).all()
    pairs = list(zip(found.layout.tolist(), found.concurrency.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(found.layout.tolist()) == {i for i, limit in enumerate(limits) if limit >= 1}


def test_chunks() -> None:
    assert chunk_grid(8192, smallest=1024, largest=16384).tolist() == [1024, 2048, 4096, 8192, 16384]
    assert chunk_grid(3000, smallest=2048, largest=4096).tolist() == [2048, 3000, 4096]
    assert chunk_grid(8192, 5000, smallest=1024, largest=16384).tolist() == [5000]
    for bad in ({"given": 0}, {"smallest": 0}, {"smallest": 8, "largest": 4}):
        with pytest.raises(InputError):
            chunk_grid(8192, **({"smallest": 1, "largest": 8} | bad))

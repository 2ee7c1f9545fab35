"""Two kinds of workers on whole nodes: the count has a placement, and never exceeds what both take apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.layout.packing import nodes_of, packed, places, room_beside

NODES = st.sampled_from([1, 2, 4, 8, 16, 72])
SIZES, COUNTS = st.integers(1, 200), st.integers(1, 40)


def cells(node: np.ndarray, gpu: np.ndarray, size: int, per_node: int) -> np.ndarray:
    """GPUs of workers, counted through all nodes, (workers, size)."""
    return (node * per_node + gpu)[:, None] + np.arange(size)


@given(NODES, COUNTS, SIZES, COUNTS, SIZES)
def test_what_is_counted_has_a_placement(per_node: int, n: int, size: int, m: int, other: int) -> None:
    found = packed(n, size, m, other, per_node)
    where = places(n, size, m, other, per_node)
    one = cells(where.node, where.gpu, size, per_node)
    two = cells(where.other_node, where.other_gpu, other, per_node)
    every = np.concatenate([one.ravel(), two.ravel()])
    assert np.unique(every).size == n * size + m * other  # no GPU twice
    for own, gpus in ((one, size), (two, other)):  # a worker crosses no more nodes than it must
        assert (own[:, -1] // per_node - own[:, 0] // per_node + 1 == -(-gpus // per_node)).all()
    of_one, of_two = np.unique(one // per_node), np.unique(two // per_node)
    assert int(found.nodes) == np.union1d(of_one, of_two).size == every.max() // per_node + 1
    assert (int(found.first), int(found.second)) == (of_one.size, of_two.size)
    assert int(found.shared) == np.intersect1d(of_one, of_two).size


@given(NODES, COUNTS, SIZES, COUNTS, SIZES)
def test_never_more_than_apart_nor_less_than_the_gpus(per_node: int, n: int, size: int, m: int, other: int) -> None:
    found = packed(n, size, m, other, per_node)
    assert found.nodes <= nodes_of(n, size, per_node) + nodes_of(m, other, per_node)
    assert found.nodes >= -(-(n * size + m * other) // per_node)
    assert packed(m, other, n, size, per_node).nodes == found.nodes


@given(NODES, COUNTS, SIZES, COUNTS, SIZES, st.integers(0, 60))
def test_room_is_what_still_fits(per_node: int, n: int, size: int, m: int, other: int, nodes: int) -> None:
    if size >= other:
        assert (room_beside(n, size, other, nodes, per_node) >= m) == bool(
            packed(n, size, m, other, per_node).nodes <= nodes
        )


@pytest.mark.parametrize(
    ("pools", "per_node", "nodes", "shared"),
    [
        ((1, 4, 1, 4), 8, 1, 1),
        ((1, 40, 1, 32), 72, 1, 1),
        ((2, 40, 1, 32), 72, 2, 1),
        ((3, 3, 2, 2), 8, 2, 2),  # two of three and one of two; one of three and one of two
        ((1, 12, 2, 4), 8, 3, 1),  # the second half of the last node, then a node of their own
        ((1, 16, 1, 8), 8, 3, 0),
        ((5, 1, 3, 1), 8, 1, 1),
    ],
)
def test_known_packings(pools: tuple[int, int, int, int], per_node: int, nodes: int, shared: int) -> None:
    found = packed(*pools, per_node)
    assert (int(found.nodes), int(found.shared)) == (nodes, shared)


def test_arrays_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    n, size, m, other = (rng.integers(1, 30, 200) for _ in range(4))
    every = packed(n, size, m, other, 8)
    for k in range(200):
        one = packed(n[k], size[k], m[k], other[k], 8)
        for name in ("nodes", "first", "second", "shared"):
            assert getattr(every, name)[k] == getattr(one, name)

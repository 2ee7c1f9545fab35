"""Pages of a KV pool: what any number of steps takes, and what prefix blocks keep."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.replay.pool import KvPool
from planner.replay.settings import Cache


def _pages(tokens: int, page: int) -> int:
    return -(-tokens // page) * page


@given(
    st.integers(1, 32),
    st.lists(st.tuples(st.integers(1, 200), st.integers(0, 50)), min_size=1, max_size=10),
    st.integers(1, 100),
)
def test_growth_in_one_jump_is_growth_step_by_step(page: int, joins: list[tuple[int, int]], steps: int) -> None:
    """Sequences of given contexts join at given steps; pages taken equal ceil(context / page) of each at the end."""
    pool = KvPool(Cache(10**9, page), 0, 1.0)
    whole, k = pool.free, 0
    running = []
    for context, wait in joins:
        pool.grow(k, wait)
        k += wait
        pool.take(_pages(context, page))
        running.append((k, context, pool.start(k, _pages(context, page) - context)))
    pool.grow(k, steps)
    k += steps
    held = sum(_pages(context + k - joined, page) for joined, context, _ in running)
    assert whole - pool.free == held
    for joined, context, turn in running:
        pool.give(_pages(context, page) + pool.stop(joined, k, turn))
    assert pool.free == whole


@given(st.integers(1, 16), st.integers(0, 40), st.integers(1, 60))
def test_steps_that_fit_are_the_most_that_do(page: int, room: int, steps: int) -> None:
    pool = KvPool(Cache(64 * page, page), 0, 1.0)
    pool.take(64 * page - room // page * page)
    pool.start(0, 0)
    fit = pool.steps_that_fit(0, steps)
    assert fit == min(steps, room // page * page)


def test_blocks_are_shared_then_idle_then_evicted() -> None:
    pool = KvPool(Cache(40, 1, prefix=True), 10, 1.0)
    pool.take(20)
    assert pool.share([1, 2]) == [1, 2]
    assert pool.share([1, 3]) == [3]
    pool.release([3])
    assert pool.cached([1, 2, 9]) == 2
    pool.claim([1])
    pool.release([1, 2])
    assert pool.available == 40 - 20 + 20
    assert pool.unclaimed([1, 2]) == 10
    pool.take(pool.free + 10)
    assert pool.cached([3]) == 0, "block 3 has been idle longest"
    assert pool.cached([1, 2]) == 2

"""Prefill pools against stepping through the same steps, and what must hold at every load."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.scenario.lengths import LognormalLength
from planner.serving.length_shape import LengthShape
from planner.serving.prefill_pool import LEVELS, PoolLoad, PrefillPool, prefill_pool
from planner.serving.prompt_steps import PromptSteps, PromptWork

FIXED_S, PROMPT_S, SHARED_S = 0.02, 0.08, 0.03
"""A step's own time, a prompt of mean length, what one on every other rank adds."""
BUDGET, TOKENS = 16.0, 1000.0
CHAT = LengthShape.of(LognormalLength(kind="lognormal", mean_tokens=1000.0, p95_tokens=2500.0))
EQUAL = LengthShape.fixed(1000)


def steps(ranks: int = 1, quadratic: float = 0.0, budget: float = BUDGET, columns: int = 9) -> PromptSteps:
    weights = np.geomspace(1.0 / TOKENS, budget, columns)
    alone = FIXED_S + PROMPT_S * weights
    shared = alone + (SHARED_S * weights if ranks > 1 else 0.0)
    one = np.ones(1)
    return PromptSteps(one / TOKENS, one * budget, alone[None], shared[None], one * quadratic, one * ranks)


def pool(rate: float, workers: int = 1, cv: float = 1.0, shape: LengthShape = CHAT, **kind: float) -> PrefillPool:
    one = np.ones(1)
    return prefill_pool(PoolLoad(one * rate, one * cv, one * workers, steps(**kind), shape))  # type: ignore[arg-type]


def stepped(rate: float, workers: int, cv: float, shape: LengthShape, ranks: int, n: int = 40_000) -> np.ndarray:
    """Times from arrival to the end of the step that carries the prompt, stepping through a pool of workers."""
    rng = np.random.default_rng(5)
    arrivals = np.cumsum(rng.gamma(1.0 / cv**2, cv**2 / rate, n))
    lengths = shape.quantile(rng.random(n))
    waiting: list[list[deque[int]]] = [[deque() for _ in range(ranks)] for _ in range(workers)]
    under_way = np.zeros((workers, ranks), dtype=int)
    end = np.full(workers, np.inf)
    carried: list[list[int]] = [[] for _ in range(workers)]
    out = np.zeros(n)

    def start(w: int, now: float) -> None:
        loads = np.array([sum(lengths[i] for i in queue) for queue in waiting[w]])
        carried[w] = [i for queue in waiting[w] for i in queue]
        under_way[w] = [len(queue) for queue in waiting[w]]
        for queue in waiting[w]:
            queue.clear()
        others = sum(under_way[w]) - under_way[w][int(np.argmax(loads))]
        beside = SHARED_S * others / max(ranks - 1, 1)
        end[w] = now + FIXED_S + PROMPT_S * loads.max() + beside if carried[w] else np.inf

    for i in range(n + 1):
        upto = arrivals[i] if i < n else np.inf
        while end.min() <= upto and np.isfinite(end.min()):
            w = int(np.argmin(end))
            out[carried[w]] = end[w] - arrivals[carried[w]]
            start(w, end[w])
        if i < n:
            held = [int(under_way[w].sum()) + sum(len(q) for q in waiting[w]) for w in range(workers)]
            held = [h if np.isfinite(end[w]) else 0 for w, h in enumerate(held)]
            w = int(np.argmin(held))
            idle = not np.isfinite(end[w])
            count = [len(q) + (0 if idle else under_way[w][r]) for r, q in enumerate(waiting[w])]
            waiting[w][int(np.argmin(count))].append(i)
            if idle:
                start(w, upto)
    return out[n // 10 :]


@pytest.mark.parametrize(
    ("rate", "workers", "cv", "shape", "ranks"),
    [
        (3.0, 1, 1.0, CHAT, 1),
        (6.0, 1, 1.0, CHAT, 1),
        (9.0, 1, 1.0, EQUAL, 1),
        (6.0, 1, 2.0, CHAT, 1),
        (25.0, 3, 1.0, EQUAL, 1),
        (25.0, 3, 2.0, CHAT, 1),
        (20.0, 1, 1.0, EQUAL, 8),
        (15.0, 1, 1.0, CHAT, 8),
    ],
)
def test_times_are_those_of_stepping(rate: float, workers: int, cv: float, shape: LengthShape, ranks: int) -> None:
    truth = stepped(rate, workers, cv, shape, ranks)
    found = pool(rate, workers, cv, shape, ranks=ranks)
    assert found.mean_s[0] == pytest.approx(truth.mean(), rel=0.15)
    quantiles = np.interp([0.5, 0.95, 0.99], LEVELS, found.quantiles_s[0])
    assert quantiles == pytest.approx(np.quantile(truth, [0.5, 0.95, 0.99]), rel=0.25)


def test_an_idle_pool_takes_the_prompt_alone() -> None:
    found = pool(1e-3)
    assert found.mean_s[0] == pytest.approx(FIXED_S + PROMPT_S, rel=0.02)
    assert found.wait_mean_s[0] == pytest.approx(0.0, abs=1e-4)
    assert found.prompts_per_step[0] == pytest.approx(1.0, abs=1e-3)


def test_the_fixed_part_is_paid_once_a_step() -> None:
    """A queue of single prompts of 0.1 s would not pass 11 a second; steps of several do."""
    found = pool(11.0)
    assert found.stable[0]
    assert found.prompts_per_step[0] > 2.0
    assert found.load[0] == pytest.approx(11.0 * (FIXED_S + PROMPT_S * BUDGET) / BUDGET)
    assert not pool(12.5).stable[0]
    assert np.isinf(pool(12.5).mean_s[0])


def test_lockstep_waits_for_steps_of_other_ranks() -> None:
    """At the same load of each rank, a prompt of a lockstep worker waits longer than one of a worker of its own."""
    together = pool(12.0, ranks=8)
    apart = pool(12.0, workers=8)
    assert together.wait_mean_s[0] > 2.0 * apart.wait_mean_s[0]


@settings(deadline=None, max_examples=40)
@given(
    rate=st.floats(0.5, 9.0),
    more=st.floats(1.02, 1.3),
    workers=st.integers(1, 6),
    cv=st.floats(1.0, 4.0),
    ranks=st.sampled_from([1, 8]),
)
def test_more_load_never_lowers_a_percentile(rate: float, more: float, workers: int, cv: float, ranks: int) -> None:
    low, high = pool(rate * workers, workers, cv, ranks=ranks), pool(rate * more * workers, workers, cv, ranks=ranks)
    assert np.all(np.diff(low.quantiles_s[0]) >= 0.0)
    at = np.searchsorted(LEVELS, [0.5, 0.95, 0.99])
    assert np.all(high.quantiles_s[0][at] >= 0.97 * low.quantiles_s[0][at])
    assert high.mean_s[0] >= 0.995 * low.mean_s[0]
    assert low.at(np.array([rate * workers]), np.array([workers + 1])).mean_s[0] <= 1.01 * low.mean_s[0]


def test_pools_at_other_rates_and_rows() -> None:
    one = np.ones(3)
    rates = np.array([1.0, 4.0, 8.0])
    three = prefill_pool(PoolLoad(rates, one, one, steps().take(np.zeros(3, dtype=int)), CHAT))
    assert three.take(np.array([1])).mean_s[0] == pool(4.0).mean_s[0]
    assert pool(4.0).at(np.array([8.0]), np.array([1])).mean_s[0] == pytest.approx(pool(8.0).mean_s[0])
    part = three.prompt_part()
    assert np.all(np.diff([part.quantile(p) for p in (0.5, 0.9, 0.99)], axis=0) >= 0.0)
    assert part.quantile(np.array([0.5, 0.5, 0.99]))[2] == pytest.approx(part.quantile(0.99)[2])


def test_weights_of_long_prompts_and_of_the_busiest_rank() -> None:
    """q 0.25: a prompt of 3 means weighs 0.75 x 3 + 0.25 x 9 = 4.5; a single prompt makes its rank the busiest."""
    work = PromptWork(EQUAL, steps(ranks=2, quadratic=0.25))
    assert work.weight(np.array([[3.0]]))[0, 0] == 4.5
    assert work.length(np.array([[4.5]]))[0, 0] == pytest.approx(3.0)
    assert work.mean[0] == pytest.approx(1.0)
    assert work.scv[0] == pytest.approx(0.0, abs=1e-12)
    weight, variance = work.busiest(np.array([[1.0]]))
    assert weight[0, 0] == pytest.approx(1.0)
    assert variance[0, 0] == pytest.approx(0.0, abs=1e-9)
    prompts, seconds = work.full_step()
    assert prompts[0] == 2 * BUDGET
    assert seconds[0] == pytest.approx(FIXED_S + (PROMPT_S + SHARED_S) * BUDGET)


def test_more_than_the_budget_takes_further_steps() -> None:
    """17 prompts where 16 fit: the fixed part twice."""
    table = steps()
    assert table.seconds(np.array([[16.0]]), np.zeros((1, 1)))[0, 0] == pytest.approx(FIXED_S + 16 * PROMPT_S)
    twice = table.seconds(np.array([[32.0]]), np.zeros((1, 1)))[0, 0]
    assert twice == pytest.approx(2 * FIXED_S + 32 * PROMPT_S, rel=1e-3)

"""The chain of steps against exact queues and against steps that are drawn one by one."""

from __future__ import annotations

import numpy as np
import pytest
from serving.loads import CHAT, FIXED

from planner.serving.arrival_phases import Arrivals
from planner.serving.chain_waits import middles, waits
from planner.serving.length_shape import LengthShape
from planner.serving.step_chain import (
    FINE,
    Chain,
    Steps,
    chain_of,
    even_points,
    grid_of,
    spread_lengths,
)

NEVER = 1e9


def _chain(shape: LengthShape, rate: float, cv: float, steps: Steps, alone_s: float = NEVER) -> Chain:
    unit = steps.budget / even_points(steps.budget)
    return chain_of(Arrivals.of(rate, cv), spread_lengths(shape, shape.values, unit), steps, alone_s, 40.0)


def _steps(budget: float, decode_s: float, start_s: float, prompt_s: float) -> Steps:
    tokens = np.linspace(0.0, budget, 40)
    return Steps(budget, tokens, decode_s + start_s + prompt_s * tokens, decode_s)


def _drawn(shape: LengthShape, rate: float, cv: float, steps: Steps, n: int) -> np.ndarray:
    """Times to first token of ``n`` prompts in steps drawn one by one; decodes are always there."""
    rng = np.random.default_rng(1)
    arrival = np.cumsum(rng.exponential(1.0 / rate, n) if cv == 1.0 else rng.gamma(cv**-2, cv**2 / rate, n))
    left = np.interp(rng.random(n), np.cumsum(shape.weights), shape.values) if shape.values.size > 1 else np.ones(n)
    first, now, came, head = np.zeros(n), 0.0, 0, 0
    while head < n:
        came = int(np.searchsorted(arrival, now, side="right"))
        room, done, start = steps.budget, [], head
        while head < came and room > 1e-12:
            part = min(room, left[head])
            left[head] -= part
            room -= part
            if left[head] > 1e-12:
                break
            done.append(head)
            head += 1
        taken = steps.budget - room
        now += float(steps.of(np.array(taken))) if start < came else steps.decode_s
        first[done] = now
    return (first - arrival)[n // 10 :]


def test_landings_keep_mean_and_variance() -> None:
    grid = grid_of(8, 120)
    points = grid.points.astype(float)
    for i in range(grid.points.size - 6):
        left = max(points[i] - grid.budget, 0.0)
        inside = left + np.arange(FINE) <= points[-1]
        wanted = left + np.arange(FINE)[inside]
        assert grid.landing(i)[inside].sum(axis=1) == pytest.approx(1.0)
        assert grid.landing(i)[inside] @ points == pytest.approx(wanted)
        assert grid.landing(i)[inside] @ points**2 == pytest.approx(wanted**2)


def test_one_prompt_a_step_of_fixed_length_is_a_queue_with_vacations() -> None:
    """M/D/1 whose server takes steps of the same length when idle: wait = rho s / (2 (1 - rho)) + s / 2."""
    seconds, rate = 0.1, 6.0
    steps = Steps(1.0, np.array([0.0, 1.0]), np.full(2, seconds), seconds)
    chain = _chain(FIXED, rate, 1.0, steps)
    rho = rate * seconds
    found = waits(chain, steps, FIXED, np.ones(middles().size))
    wanted = rho * seconds / (2.0 * (1.0 - rho)) + 0.5 * seconds + seconds
    assert found.first.mean == pytest.approx(wanted, rel=0.07)
    assert chain.cycle_s == pytest.approx(seconds)
    assert 1.0 - chain.starting[0].sum() == pytest.approx(rho, rel=0.03)


@pytest.mark.parametrize(("budget", "rate", "cv"), [(1.5, 4.0, 1.0), (8.0, 8.0, 1.0), (1.5, 3.0, 2.0), (4.0, 5.0, 4.0)])
def test_times_to_first_token_are_those_of_steps_drawn_one_by_one(budget: float, rate: float, cv: float) -> None:
    steps = _steps(budget, 0.015, 0.01, 0.08)
    chain = _chain(CHAT, rate, cv, steps)
    found = waits(chain, steps, CHAT, CHAT.quantile(middles()))
    drawn = _drawn(CHAT, rate, cv, steps, 60_000 if cv < 3.0 else 150_000)
    for p, near in ((0.5, 0.08), (0.9, 0.08), (0.95, 0.1), (0.99, 0.12)):
        assert found.first.quantile(p) == pytest.approx(np.quantile(drawn, p), rel=near), p
    assert found.first.mean == pytest.approx(drawn.mean(), rel=0.08)
    assert found.start.mean < found.first.mean
    assert sum(g.share for g in found.groups) == pytest.approx(1.0)
    assert [g.first_s for g in found.groups] == sorted(g.first_s for g in found.groups)


def test_a_worker_is_idle_as_long_as_gaps_outlast_its_requests() -> None:
    steps = _steps(2.0, 0.015, 0.01, 0.08)
    lean, long = (_chain(CHAT, 0.2, 1.0, steps, alone_s) for alone_s in (0.5, 5.0))
    assert lean.idle_part == pytest.approx(np.exp(-0.2 * 0.5), rel=0.1)
    assert long.idle_part == pytest.approx(np.exp(-0.2 * 5.0), rel=0.1)
    assert _chain(CHAT, 0.2, 1.0, steps).idle_part < 1e-9

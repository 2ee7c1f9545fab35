"""Percentiles from the chain of steps: order, monotony, limits, and gaps that are drawn one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving.loads import ANSWERS, DECODE_S, PROMPT_S, SLOPE_S, load

from planner.serving.latency import METRICS, percentiles
from planner.serving.open_loop import WorkerLoad, flow
from planner.serving.quantiles import LEVELS
from planner.serving.stepwise import StepCurves, Stepwise, applies, stepwise, with_stepwise

RATES = st.floats(0.2, 8.0)
CVS = st.sampled_from([1.0, 2.0, 4.0])


def _curves(worker: WorkerLoad) -> StepCurves:
    """Affine steps, as those of the load."""
    n = worker.rate_rps.size
    occupancy = np.geomspace(1.0, 400.0, 12)
    tokens = float(worker.budget) * (np.arange(21) / 20) ** 1.6
    riding = 0.0 if bool(worker.decodes_pause) else DECODE_S + SLOPE_S * 20.0
    fixed = float(worker.prefill_fixed_s)
    rows = (DECODE_S + SLOPE_S * occupancy, tokens, riding + fixed + (PROMPT_S - fixed) * tokens)
    decode, tokens, prompts = (np.tile(v, (n, 1)) for v in rows)
    alone = np.ones((n, 1)), prompts[..., None]
    return StepCurves(np.tile(occupancy, (n, 1)), decode, np.full(n, 0.001), tokens, prompts, np.full(n, 0.5), *alone)


def _found(rate: float, **changes: Any) -> Stepwise | None:
    worker = load(rate, **changes)
    f = flow(worker)
    return stepwise(worker, f, _curves(worker), 0, False) if applies(worker, f)[0] else None


@settings(deadline=None, max_examples=10)
@given(rate=RATES, cv=CVS, pause=st.booleans())
def test_percentiles_are_in_order(rate: float, cv: float, pause: bool) -> None:
    found = _found(rate, cv=cv, pause=pause)
    if found is None:
        return
    for metric in METRICS:
        values = [found.seconds(metric, name) for name in LEVELS]
        assert values == sorted(values), metric
        assert all(np.isfinite(values))
    assert found.seconds("wait", "p95") <= found.seconds("ttft", "p95")
    assert found.seconds("ttft", "mean") < found.seconds("e2e", "mean")


@settings(deadline=None, max_examples=8)
@given(rate=st.floats(0.3, 6.0), cv=CVS, pause=st.booleans())
def test_more_rate_never_lowers_a_percentile(rate: float, cv: float, pause: bool) -> None:
    """Nor does another replica raise one: each then gets less."""
    few, many = (_found(r, cv=cv, pause=pause) for r in (rate, 1.25 * rate))
    if few is None or many is None:
        return
    for metric in ("ttft", "tbt", "tpot", "e2e"):
        for name in ("mean", "p99"):
            near = 0.9 if (metric, name) == ("tbt", "p99") else 0.97  # pauses last whole steps: it lies among a few
            assert many.seconds(metric, name) >= few.seconds(metric, name) * near, (metric, name)


@settings(deadline=None, max_examples=5)
@given(rate=st.floats(0.3, 6.0), pause=st.booleans())
def test_bursts_never_help(rate: float, pause: bool) -> None:
    found = [_found(rate, cv=cv, pause=pause) for cv in (1.0, 2.0, 4.0)]
    times = [one.seconds("ttft", "p95") for one in found if one is not None]
    assert times == sorted(times)


@settings(deadline=None, max_examples=8)
@given(rate=RATES, cv=CVS, pause=st.booleans(), scale=st.floats(0.5, 3.0))
def test_goodput_is_part_of_the_load_and_falls_with_limits(rate: float, cv: float, pause: bool, scale: float) -> None:
    found = _found(rate, cv=cv, pause=pause)
    if found is None:
        return
    first, mean = scale * found.seconds("ttft", "p50"), scale * found.seconds("tpot", "p50")
    one = found.good_part({"ttft": {"p95": first}})
    both = found.good_part({"ttft": {"p95": first}, "tpot": {"p95": mean}})
    whole = found.good_part({"ttft": {"p95": first}, "e2e": {"p99": scale * found.seconds("e2e", "p50")}})
    assert 0.0 <= both <= one + 1e-9
    assert 0.0 <= whole <= one + 1e-9
    assert one <= 1.0 + 1e-9
    assert found.good_part({"ttft": {"p95": 1e9}, "tpot": {"p99": 1e9}}) == pytest.approx(1.0, abs=1e-4)
    assert found.good_part({"tpot": {"mean": 1e-6}}) == 0.0
    assert 0.0 <= found.good_part({"tbt": {"p95": mean}}) <= 1.0


def test_good_part_is_the_level_at_a_percentile() -> None:
    found = _found(3.0)
    assert found is not None
    for name, p in LEVELS.items():
        assert found.good_part({"ttft": {"p95": found.seconds("ttft", name)}}) == pytest.approx(p, abs=0.02)
        assert found.good_part({"tpot": {"p95": found.seconds("tpot", name)}}) == pytest.approx(p, abs=0.02)


def test_a_long_output_takes_its_own_length_of_gaps() -> None:
    """Under little load a whole request is its output at the mean gap: percentiles are those of the lengths."""
    worker, found = load(0.3), _found(0.3)
    assert found is not None
    gap = found.seconds("tpot", "mean")
    for name, level in LEVELS.items():
        tokens = float(worker.outputs.quantile(level)) * worker.outputs.mean
        assert found.seconds("e2e", name) == pytest.approx(found.seconds("ttft", "p50") + gap * (tokens - 1), rel=0.1)
        assert found.good_part({"e2e": {"p95": found.seconds("e2e", name)}}) == pytest.approx(level, abs=0.02)


def test_it_leaves_out_what_it_does_not_describe() -> None:
    for changes in ({"cv": 0.5}, {"slots": 21.0}):
        worker = load(4.0, **changes)  # type: ignore[arg-type]
        assert not applies(worker, flow(worker))[0], changes
    assert not applies(load(60.0), flow(load(60.0)))[0]
    assert applies(load(4.0), flow(load(4.0)))[0]


def test_rows_take_the_place_of_closed_forms() -> None:
    worker = load(np.array([2.0, 4.0]))
    before = percentiles(worker)
    one = stepwise(worker, flow(worker), _curves(worker), 1, False)
    after = with_stepwise(before, {1: one})
    for metric in METRICS:
        assert after.get(metric, "p95")[0] == before.get(metric, "p95")[0]
        assert after.get(metric, "p95")[1] == one.seconds(metric, "p95")


@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize("cv", [1.0, 2.0])
def test_gaps_are_those_of_steps_drawn_one_by_one(pause: bool, cv: float) -> None:
    rate = 4.0
    worker = replace(load(rate, cv=cv, pause=pause), prefill_fixed_s=np.array(0.005))
    curves = _curves(worker)
    found = stepwise(worker, flow(worker), curves, 0, False)
    gaps, mean_gaps = _drawn(worker, curves, rate, cv, pause)
    assert found.gaps.interrupted == pytest.approx(np.mean(gaps > 1.6 * DECODE_S), abs=0.02)
    assert found.seconds("tbt", "mean") == pytest.approx(gaps.mean(), rel=0.05)
    assert found.seconds("tbt", "p50") == pytest.approx(np.quantile(gaps, 0.5), rel=0.05)
    assert found.seconds("tpot", "p50") == pytest.approx(np.quantile(mean_gaps, 0.5), rel=0.08)
    assert found.seconds("tpot", "p95") == pytest.approx(np.quantile(mean_gaps, 0.95), rel=0.15)


def _drawn(worker: WorkerLoad, curves: StepCurves, rate: float, cv: float, pause: bool) -> tuple[Any, Any]:
    """All gaps, and the mean gap of each request, of 5,000 requests in steps drawn one by one."""
    rng, n = np.random.default_rng(2), 5_000
    arrival = np.cumsum(rng.exponential(1 / rate, n) if cv == 1.0 else rng.gamma(cv**-2, cv**2 / rate, n))
    shape = worker.prompts
    left = np.interp(rng.random(n), np.cumsum(shape.weights), shape.values)
    want = np.rint(np.interp(rng.random(n), np.cumsum(ANSWERS.weights), ANSWERS.values) * ANSWERS.mean).astype(int) - 1
    tokens, seconds, budget = curves.tokens[0], curves.prompt_s[0], float(worker.budget)
    now, head, active, rest = 0.0, 0, np.empty(0, int), want.copy()
    last, first = np.zeros(n), np.zeros(n)
    gaps, counts = [], []
    while head < n:
        came, room, done = int(np.searchsorted(arrival, now, side="right")), budget, []
        start = head
        while head < came and room > 1e-12:
            part = min(room, left[head])
            left[head], room = left[head] - part, room - part
            if left[head] > 1e-12:
                break
            done.append(head)
            head += 1
        prompts, decodes = start < came, active.size > 0 and not (pause and start < came)
        riding = SLOPE_S * (active.size - 20.0) if not pause else 0.0
        if prompts:
            now += float(np.interp(budget - room, tokens, seconds)) + riding
        elif active.size:
            now += DECODE_S + SLOPE_S * active.size
        else:
            now = arrival[head]
        if decodes:
            gap, which = np.unique(np.round(now - last[active], 9), return_counts=True)
            gaps.append(gap)
            counts.append(which)
            last[active] = now
            rest[active] -= 1
            active = active[rest[active] > 0]
        if done:
            fresh = np.array(done)
            first[fresh] = last[fresh] = now
            active = np.concatenate([active, fresh[rest[fresh] > 0]])
    ended = (rest == 0) & (want > 0)
    return np.repeat(np.concatenate(gaps), np.concatenate(counts)), (last - first)[ended] / want[ended]

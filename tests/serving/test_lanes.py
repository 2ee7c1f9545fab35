"""Attention-DP ranks as lanes of one chain: against steps of lanes that are drawn one by one, and against one lane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from serving.loads import ANSWERS, CHAT, FIXED, load

from planner.serving.lanes import held, split_of
from planner.serving.latency import percentiles
from planner.serving.length_shape import LengthShape
from planner.serving.open_loop import WorkerLoad, flow
from planner.serving.side_by_side import apart
from planner.serving.slots import lane_full, slot_part
from planner.serving.stepwise import StepCurves, Stepwise, applies, stepwise

LANES, BUDGET = 4, 3.0
DECODE_S, SLOPE_S = 0.015, 4e-4
START_S, OWN_S, ALL_S = 0.01, 0.05, 0.008
"""A step with prompts: so long at least, and so much for each prompt of its busiest lane and of all lanes."""
RIDING = 15.0
"""Decodes in a lane that steps with prompts are given for."""


def _prompt_s(busiest: Any, taken: Any, own_s: float = OWN_S, all_s: float = ALL_S) -> Any:
    return START_S + own_s * busiest + all_s * taken


def _worker(rate: float, cv: float, pause: bool, shape: LengthShape = CHAT, lanes: int = LANES) -> WorkerLoad:
    riding = 0.0 if pause else DECODE_S + SLOPE_S * RIDING
    found = load(rate, cv=cv, pause=pause)
    return replace(
        found,
        prompts=shape,
        lanes=np.array(float(lanes)),
        most_prompts=np.array(BUDGET * lanes),
        prefill_step_s=np.array(riding + _prompt_s(1.0, 1.0)),
        prefill_fixed_s=np.array(START_S),
        shared_part=np.array(ALL_S / (OWN_S + ALL_S)),
        decode_step_s=np.full(1, DECODE_S + SLOPE_S * RIDING),
        decode_step_slope_s=np.array(SLOPE_S / lanes),
        reference_occupancy=np.array(RIDING * lanes),
        quadratic_share=np.array(0.0),
    )


def _curves(pause: bool, lanes: int = LANES, budget: float = BUDGET, **cost: float) -> StepCurves:
    occupancy, tokens = np.geomspace(1.0, 100.0, 12), budget * (np.arange(21) / 20) ** 1.6
    alike = np.linspace(1.0, lanes, 4) if lanes > 1 else np.ones(1)
    riding = 0.0 if pause else DECODE_S + SLOPE_S * RIDING
    seconds = riding + _prompt_s(tokens[:, None], tokens[:, None] * alike, **cost)
    rows = occupancy, DECODE_S + SLOPE_S * occupancy, tokens, seconds[:, 0], alike, seconds
    a, b, c, d, e, f = (v[None] for v in rows)
    return StepCurves(a, b, np.zeros(1), c, d, np.full(1, 0.5), e, f)


def _found(worker: WorkerLoad, curves: StepCurves) -> Stepwise:
    f = flow(worker)
    assert applies(worker, f)[0]
    return stepwise(worker, f, curves, 0, False)


def _drawn(worker: WorkerLoad, rate: float, cv: float, pause: bool, n: int) -> tuple[Any, Any, Any]:
    """TTFT, gaps and mean gaps of ``n`` requests: each goes to the lane that holds the fewest; lanes step together."""
    rng = np.random.default_rng(3)
    arrival = np.cumsum(rng.exponential(1 / rate, n) if cv == 1.0 else rng.gamma(cv**-2, cv**2 / rate, n))
    shape = worker.prompts
    left = np.interp(rng.random(n), np.cumsum(shape.weights), shape.values) if shape.values.size > 1 else np.ones(n)
    want = np.rint(np.interp(rng.random(n), np.cumsum(ANSWERS.weights), ANSWERS.values) * ANSWERS.mean).astype(int) - 1
    waiting: list[list[int]] = [[] for _ in range(LANES)]
    running: list[list[int]] = [[] for _ in range(LANES)]
    rest, first, last = want.copy(), np.zeros(n), np.zeros(n)
    now, head, done, gaps = 0.0, 0, 0, []
    while done < n:
        while head < n and arrival[head] <= now:
            lane = min(range(LANES), key=lambda k: len(waiting[k]) + len(running[k]))
            waiting[lane].append(head)
            head += 1
        taken, fresh = np.zeros(LANES), [[] for _ in range(LANES)]
        for k in range(LANES):
            while waiting[k] and taken[k] < BUDGET - 1e-12:
                i = waiting[k][0]
                part = min(BUDGET - taken[k], left[i])
                left[i], taken[k] = left[i] - part, taken[k] + part
                if left[i] > 1e-12:
                    break
                fresh[k].append(waiting[k].pop(0))
        prompts, most = taken.sum() > 0.0, max(len(r) for r in running)
        if not prompts and not most:
            now = arrival[head]
            continue
        if prompts:
            riding = 0.0 if pause or not most else DECODE_S + SLOPE_S * most
            now += riding + float(_prompt_s(taken.max(), taken.sum()))
        else:
            now += DECODE_S + SLOPE_S * most
        for k in range(LANES):
            if not (prompts and pause):
                for i in running[k]:
                    gaps.append(now - last[i])
                    last[i], rest[i] = now, rest[i] - 1
                running[k] = [i for i in running[k] if rest[i] > 0]
            for i in fresh[k]:
                first[i] = last[i] = now
            done += len(fresh[k])
            running[k] += [i for i in fresh[k] if rest[i] > 0]
    ended = (rest == 0) & (want > 0)
    return (first - arrival)[n // 20 :], np.array(gaps), (last - first)[ended] / want[ended]


@pytest.mark.parametrize(
    ("rate", "cv", "pause", "shape"),
    [(6.0, 1.0, False, FIXED), (6.0, 2.0, False, CHAT), (8.0, 3.0, True, FIXED), (6.0, 2.0, True, CHAT)],
)
def test_times_are_those_of_lanes_drawn_one_by_one(rate: float, cv: float, pause: bool, shape: LengthShape) -> None:
    worker = _worker(rate, cv, pause, shape)
    found = _found(worker, _curves(pause))
    first, gaps, mean_gaps = _drawn(worker, rate, cv, pause, 12_000)
    assert found.seconds("ttft", "mean") - 0.01 == pytest.approx(first.mean(), rel=0.1)
    for name, p, near in (("p50", 0.5, 0.13), ("p95", 0.95, 0.1), ("p99", 0.99, 0.13)):
        assert found.seconds("ttft", name) - 0.01 == pytest.approx(np.quantile(first, p), rel=near), name
    assert found.gaps.interrupted == pytest.approx(np.mean(gaps > DECODE_S + START_S + SLOPE_S * 16), abs=0.01)
    assert found.seconds("tbt", "mean") == pytest.approx(gaps.mean(), rel=0.03)
    assert found.seconds("tbt", "p50") == pytest.approx(np.quantile(gaps, 0.5), rel=0.03)
    assert found.seconds("tbt", "p99") == pytest.approx(np.quantile(gaps, 0.99), rel=0.1)
    assert found.seconds("tpot", "mean") == pytest.approx(mean_gaps.mean(), rel=0.03)
    assert found.seconds("tpot", "p95") == pytest.approx(np.quantile(mean_gaps, 0.95), rel=0.08)


@pytest.mark.parametrize("cv", [1.0, 3.0])
def test_lanes_that_share_all_their_work_are_one_lane(cv: float) -> None:
    """Where only the tokens of all lanes cost time and none is ever full, how they divide changes nothing."""
    wide = 9.6  # as fine a grid for both
    several, one = (_worker(5.0, cv, False, FIXED, lanes) for lanes in (4, 1))
    cost = {"own_s": 0.0, "all_s": 0.05}
    several, one = (replace(w, most_prompts=np.array(wide), shared_part=np.array(1.0)) for w in (several, one))
    one = replace(one, decode_step_slope_s=several.decode_step_slope_s, reference_occupancy=several.reference_occupancy)
    side = _curves(False, 4, wide / 4, **cost)
    alone = replace(_curves(False, 1, wide, **cost), decode_s=side.decode_s[:, :1] * np.ones((1, 12)))
    side = replace(side, decode_s=alone.decode_s)
    found, wanted = _found(several, side), _found(one, alone)
    for metric in ("ttft", "tbt", "tpot"):
        for name in ("mean", "p95"):
            assert found.seconds(metric, name) == pytest.approx(wanted.seconds(metric, name), rel=0.04), (metric, name)


def test_side_by_side_is_faster_than_in_one_lane_and_slower_than_alone() -> None:
    worker = _worker(8.0, 2.0, False)
    found = {own: _found(worker, _curves(False, own_s=own)) for own in (0.0, 0.03, 0.05)}
    times = [found[own].seconds("ttft", "p95") for own in (0.0, 0.03, 0.05)]
    assert times == sorted(times)


def test_bursts_never_help() -> None:
    times = [_found(_worker(6.0, cv, False), _curves(False)).seconds("ttft", "p95") for cv in (1.0, 2.0, 3.0)]
    assert times == sorted(times)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_lanes_differ_as_their_balance_says(lanes: int) -> None:
    """Where requests leave at random from lanes that hold many: less with eight each, as the fuller lane loses more.
    The less outputs differ, the more do lanes agree."""
    level = (np.arange(4096) + 0.5) / 4096
    at_random = LengthShape(250.0, -np.log1p(-level), np.full(4096, 1 / 4096))
    equal, random = (np.mean(np.var(held(lanes, 8.0 * lanes, 1.0, o).counts, axis=1)) for o in (FIXED, at_random))
    many = float(apart(np.array(float(lanes))))
    assert 0.65 * many < random < 1.1 * many
    assert equal < random


def test_the_fullest_lane_holds_between_its_part_and_all() -> None:
    side = held(8, 20.0, 2.0, ANSWERS)
    requests = np.array([0.0, 0.5, 1.0, 2.0, 8.0, 30.0, 400.0])
    most = side.fullest(requests)
    assert (most >= requests / 8).all()
    assert (most <= requests).all()
    assert (np.diff(most) >= 0.0).all()
    assert most[2] == 1.0


@pytest.mark.parametrize("shape", [CHAT, FIXED])
def test_a_split_keeps_to_what_lanes_can_take(shape: LengthShape) -> None:
    counts = held(LANES, 20.0, 1.0, ANSWERS).counts
    lengths = shape.quantile((np.arange(1000) + 0.5) / 1000)
    split = split_of(counts, BUDGET, lengths, 2.0, _prompt_s)
    b = np.linspace(0.2, 60.0, 300)
    busiest, whole, left = split.at(split.busiest, b), split.at(split.whole, b), split.at(split.left, b)
    assert (np.diff(split.total) > 0.0).all()
    assert (busiest.max(axis=-1) <= np.minimum(b, BUDGET) * 1.05).all()
    assert (busiest.mean(axis=-1) >= np.minimum(b / LANES, BUDGET) * 0.95).all()
    assert ((whole >= 0.0) & (whole <= 1.0)).all()
    assert (b - (1.0 - whole) * left <= LANES * BUDGET * 1.05).all()
    assert whole[0] == pytest.approx(1.0)
    assert whole[-1] == pytest.approx(0.0)
    seconds = split.at(split.seconds, b)
    taken = b - (1.0 - whole) * left
    assert (seconds >= _prompt_s(taken / LANES, taken) * 0.95).all()
    assert (seconds <= _prompt_s(BUDGET, LANES * BUDGET) * 1.0001).all()
    assert split.at(split.atoms, b).mean(axis=-1) == pytest.approx(seconds, rel=1e-6)


def test_a_full_rank_is_met_more_often_than_slots_that_all_share() -> None:
    near = [replace(_worker(6.0, 1.0, False), slots=np.array(slots)) for slots in (60.0, 80.0, 120.0, 1e6)]
    chances = [float(lane_full(w, flow(w))[0]) for w in near]
    assert chances == sorted(chances, reverse=True)
    assert chances[-1] == 0.0
    pooled = slot_part(near[1], flow(near[1])).chance
    assert pooled is not None
    assert chances[1] > float(pooled[0])
    one = replace(near[0], lanes=np.array(1.0))
    assert float(lane_full(one, flow(one))[0]) == 0.0
    marked = [bool(percentiles(w).outside[0]) for w in near]
    assert marked[0]
    assert not marked[-1]

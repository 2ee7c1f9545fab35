"""Workers with attention-DP ranks under bursty arrivals: the plan's figures beside the replay."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.layout.layouts import Layouts
from planner.replay.generate import workload_trace
from planner.search.plan_schema import Candidate
from planner.search.planning import estimate
from planner.search.replays import replay_scenario

LAYOUT = {"tp": 4, "attention_dp": 2, "moe_tp": 8}
RATE = 4.0


def _scenario(prompt: int, cv: float) -> planner.Scenario:
    """4 requests/s of fixed lengths."""
    return planner.Scenario.from_dict(
        {
            "schema": "planner.scenario/1",
            "name": "ranks",
            "model": "qwen3-235b-a22b",
            "hardware": {"candidates": [{"node": "dgx-h100"}]},
            "engine": {"name": "vllm"},
            "workload": {
                "input_tokens": {"kind": "fixed", "tokens": prompt},
                "output_tokens": {"kind": "fixed", "tokens": 500},
                "arrival": {"kind": "gamma", "rate_rps": RATE, "cv": cv},
            },
            "slo": {},
        }
    )


def _both(prompt: int, cv: float, requests: int) -> tuple[Candidate, dict[str, Any]]:
    """The figures of one layout, and those of its replay."""
    scenario = _scenario(prompt, cv)
    found = estimate(scenario, Layouts.of(**LAYOUT), concurrency=90.0).candidate
    trace = workload_trace(scenario.workload, requests, 0).at_rate(RATE)
    return found, replay_scenario(scenario, trace=trace, candidate=found).replayed.summary()


@pytest.mark.parametrize(("cv", "requests"), [(1.0, 6_000), (2.0, 12_000), (3.0, 24_000)])
def test_bursts_on_ranks_side_by_side_are_those_of_the_replay(cv: float, requests: int) -> None:
    found, replayed = _both(1500, cv, requests)
    for metric, near in (("tpot_ms", (0.05, 0.06, 0.14)), ("ttft_ms", (0.1, 0.1, 0.12))):
        for level, part in zip(("mean", "p95", "p99"), near, strict=True):
            ours = getattr(getattr(found, metric), level)
            assert ours == pytest.approx(replayed[metric][level], rel=part), (metric, level)


@pytest.mark.parametrize(("cv", "requests"), [(1.0, 6_000), (2.0, 12_000)])
def test_prompts_that_just_fit_a_step_are_farther_off(cv: float, requests: int) -> None:
    """How many decodes ride along decides whether a prompt of 2,000 tokens takes one step of 2,048 or two."""
    found, replayed = _both(2000, cv, requests)
    assert found.tpot_ms.mean == pytest.approx(replayed["tpot_ms"]["mean"], rel=0.07)
    assert found.tpot_ms.p95 == pytest.approx(replayed["tpot_ms"]["p95"], rel=0.12)
    assert found.ttft_ms.mean == pytest.approx(replayed["ttft_ms"]["mean"], rel=0.3)
    assert found.ttft_ms.p95 == pytest.approx(replayed["ttft_ms"]["p95"], rel=0.4)
    assert found.ttft_ms.p99 == pytest.approx(replayed["ttft_ms"]["p99"], rel=0.4)


def test_plan_and_replay_count_the_same_requests_under_limits_on_means() -> None:
    """A mean is no limit of each request: what keeps to it serves all of them within it, in plan and replay alike."""
    found = {}
    for room in (1.15, 0.85):
        scenario = _scenario(1500, 2.0)
        reached = estimate(scenario, Layouts.of(**LAYOUT), concurrency=90.0).candidate.ttft_ms.mean
        asked = planner.Scenario.from_dict({**scenario.to_dict(), "slo": {"ttft_ms": {"mean": room * reached}}})
        one = estimate(asked, Layouts.of(**LAYOUT), concurrency=90.0).candidate
        trace = workload_trace(asked.workload, 6_000, 0).at_rate(RATE)
        replayed = replay_scenario(asked, trace=trace, candidate=one).replayed
        found[room] = one.goodput_rps / RATE, float(replayed.good.mean())
    assert found == {1.15: (pytest.approx(1.0), 1.0), 0.85: (0.0, 0.0)}

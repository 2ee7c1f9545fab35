"""Workers with attention-DP ranks under bursty arrivals: the closed forms beside the replay."""

from __future__ import annotations

import pytest

import planner
from planner.layout.layouts import Layouts
from planner.replay.generate import workload_trace
from planner.search.planning import estimate
from planner.search.replays import replay_scenario

LAYOUT = {"tp": 4, "attention_dp": 2, "moe_tp": 8}


@pytest.mark.parametrize(("cv", "requests"), [(1.0, 1_500), (2.0, 4_000)])
def test_bursts_on_ranks_side_by_side_are_those_of_the_replay(cv: float, requests: int) -> None:
    rate = 4.0
    scenario = planner.Scenario.from_dict(
        {
            "schema": "planner.scenario/1",
            "name": "ranks",
            "model": "qwen3-235b-a22b",
            "hardware": {"candidates": [{"node": "dgx-h100"}]},
            "engine": {"name": "vllm"},
            "workload": {
                "input_tokens": {"kind": "fixed", "tokens": 2000},
                "output_tokens": {"kind": "fixed", "tokens": 500},
                "arrival": {"kind": "gamma", "rate_rps": rate, "cv": cv},
            },
            "slo": {},
        }
    )
    found = estimate(scenario, Layouts.of(**LAYOUT), concurrency=90.0).candidate
    trace = workload_trace(scenario.workload, requests, 0).at_rate(rate)
    replayed = replay_scenario(scenario, trace=trace, candidate=found).replayed.summary()
    assert found.tpot_ms.mean == pytest.approx(replayed["tpot_ms"]["mean"], rel=0.07)
    assert found.tpot_ms.p95 == pytest.approx(replayed["tpot_ms"]["p95"], rel=0.12)
    assert found.ttft_ms.mean == pytest.approx(replayed["ttft_ms"]["mean"], rel=0.3)
    assert found.ttft_ms.p95 == pytest.approx(replayed["ttft_ms"]["p95"], rel=0.4)
    assert found.ttft_ms.p99 == pytest.approx(replayed["ttft_ms"]["p99"], rel=0.4)

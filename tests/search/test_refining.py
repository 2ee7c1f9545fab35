"""A second look at the best deployments: the plan, an estimate and the verdict tell the same figures."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.layout.layouts import Layouts
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, Plan

EXAMPLE = Path(__file__).parents[2] / "examples" / "qwen3-32b-l40s.yaml"


def _scenario(**slo: Any) -> Scenario:
    data = planner.load_scenario(EXAMPLE).to_dict()
    data["workload"]["arrival"] = {"kind": "poisson", "rate_rps": 2.0}
    data["slo"] = slo or {"ttft_ms": {"p99": 4000.0}, "tpot_ms": {"p95": 150.0}}
    data["search"]["serving"] = ["agg"]
    return Scenario.from_dict(data)


@cache
def _plan() -> Plan:
    return planner.plan(_scenario())


def _best() -> Candidate:
    assert _plan().best is not None
    return _plan().best


def test_the_best_meets_every_limit_in_the_figures_that_are_shown() -> None:
    assert _best().slo
    assert all(check.met for check in _best().slo)
    assert _best().goodput_rps <= _best().throughput_rps


def test_an_estimate_of_the_best_layout_tells_the_same_figures() -> None:
    best = _best()
    found = planner.estimate(_scenario(), Layouts.of(**best.layout.model_dump()), node=best.node)
    assert found.feasible
    if found.candidate.replicas == best.replicas and found.candidate.settings == best.settings:
        for metric in ("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms", "wait_ms"):
            assert getattr(found.candidate, metric) == getattr(best, metric), metric
    assert found.candidate.gpus <= best.gpus


def test_points_of_the_frontier_tell_the_figures_of_their_candidates() -> None:
    plan = _plan()
    by_rank = {c.rank: c for c in plan.candidates}
    for point in plan.pareto:
        if point.rank is not None and point.rank <= 5:
            assert point.ttft_p99_ms == pytest.approx(by_rank[point.rank].ttft_ms.p99)
            assert point.goodput_rps == pytest.approx(by_rank[point.rank].goodput_rps)


def test_a_limit_just_below_what_the_best_reaches_asks_for_another_deployment() -> None:
    reached = _best().ttft_ms.p99
    assert reached is not None
    stricter = planner.plan(_scenario(ttft_ms={"p99": 0.9 * reached}, tpot_ms={"p95": 150.0})).best
    assert stricter is None or (stricter.ttft_ms.p99 or 0.0) <= 0.9 * reached
    assert stricter is None or stricter.settings != _best().settings or stricter.replicas != _best().replicas


def test_steps_of_one_token_keep_the_closed_forms() -> None:
    data = planner.load_scenario(EXAMPLE).to_dict()
    data["engine"]["options"]["max_num_batched_tokens"] = 1
    plan = planner.plan(Scenario.from_dict(data))
    assert not plan.candidates
    assert plan.rejected

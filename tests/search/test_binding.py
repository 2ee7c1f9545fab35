"""The limit that is named is the one that binds, and the fix that is offered works when it is applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import planner
from planner.layout.layouts import Layouts
from planner.scenario.schema import Scenario
from planner.search.candidate_parts import nearest_limit
from planner.search.headline import headline
from planner.search.plan_schema import Plan, SloCheck

EXAMPLES = Path(__file__).parents[2] / "examples"


def _changed(example: str, **paths: Any) -> Scenario:
    data = planner.load_scenario(EXAMPLES / f"{example}.yaml").to_dict()
    for path, value in paths.items():
        *parents, last = path.split("__")
        place = data
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[int(last) if isinstance(place, list) else last] = value
    return Scenario.from_dict(data)


def _first(plan: Plan, reason: str) -> Any:
    assert not plan.candidates
    first = plan.nearest_misses[0]
    assert first.reason == reason, headline(plan)
    return first


def test_a_load_for_many_nodes_says_nodes_and_as_many_serve_it() -> None:
    asked = {"workload__arrival": {"kind": "poisson", "rate_rps": 40.0}, "slo": {"tpot_ms": {"mean": 100.0}}}
    plan = planner.plan(_changed("qwen3-32b-l40s", **asked))
    first = _first(plan, "nodes")
    assert "the number of nodes binds" in headline(plan)
    assert first.available == 4
    nodes = int(first.needed)
    assert f"{nodes} nodes instead of 4" in first.fix
    enough = planner.plan(_changed("qwen3-32b-l40s", **asked, hardware__candidates__0__max_nodes=nodes))
    assert enough.best is not None
    assert enough.best.nodes <= nodes


def test_a_million_requests_a_second_say_nodes() -> None:
    plan = planner.plan(_changed("qwen3-32b-l40s", workload__arrival={"kind": "poisson", "rate_rps": 1e6}))
    assert _first(plan, "nodes").needed > 1000


@pytest.mark.parametrize(
    ("metric", "level", "limit"), [("e2e_ms", "p95", 10.0), ("ttft_ms", "p99", 1.0), ("tpot_ms", "mean", 0.5)]
)
def test_a_limit_that_no_number_of_nodes_meets_says_so(metric: str, level: str, limit: float) -> None:
    slo = {"ttft_ms": {"p95": 4000.0}, "tpot_ms": {"mean": 100.0}} | {metric: {level: limit}}
    for nodes in (1, 4):
        asked = _changed("qwen3-32b-l40s", slo=slo, hardware__candidates__0__max_nodes=nodes)
        first = _first(planner.plan(asked), f"slo_{metric.removesuffix('_ms')}")
        assert first.available == limit
        # a miss is looked at along the slope of its steps, an answer with steps of its own: a few per cent apart
        slack = slo | {metric: {level: first.needed * 1.05}}
        after = planner.plan(_changed("qwen3-32b-l40s", slo=slack, hardware__candidates__0__max_nodes=nodes))
        assert after.best is not None or after.nearest_misses[0].reason != first.reason


def test_memory_names_the_smallest_worker_that_fits_and_it_does() -> None:
    plan = planner.plan(_changed("deepseek-r1-h200", hardware__max_gpus_per_worker=2))
    first = _first(plan, "memory")
    assert "memory binds" in headline(plan)
    after = planner.plan(_changed("deepseek-r1-h200", hardware__max_gpus_per_worker=first.fits_gpus))
    assert after.best is not None or after.nearest_misses[0].reason != "memory"


def test_misses_are_of_different_layouts() -> None:
    plan = planner.plan(_changed("qwen3-32b-l40s", slo={"tpot_ms": {"mean": 0.5}}))
    names = [(m.node, m.serving, m.layout) for m in plan.nearest_misses]
    assert len(names) > 1
    assert len(set(names)) == len(names)


def test_a_layout_that_does_not_fit_is_one_worker_that_serves_nothing() -> None:
    found = planner.estimate(planner.load_scenario(EXAMPLES / "qwen3-32b-l40s.yaml"), Layouts.of(tp=1))
    assert not found.feasible
    assert [r.reason for r in found.rejected] == ["memory"]
    c = found.candidate
    assert (c.replicas, c.gpus, c.goodput_rps) == (1, 1, 0.0)
    assert c.ttft_ms.mean is None
    assert c.memory_gib.total > c.memory_gib.capacity


def test_the_limit_with_the_least_room_is_named() -> None:
    ttft = SloCheck(metric="ttft_ms", percentile="p95", judged_on="p95", limit=4000.0, value=2780.0, met=True)
    e2e = SloCheck(metric="e2e_ms", percentile="p99", judged_on="p99", limit=200_000.0, value=195_000.0, met=True)
    assert nearest_limit((ttft, e2e)) == ("Of the limits, E2E (p99) leaves the least room: 195,000 of 200,000 ms.",)
    assert nearest_limit((ttft,)) == ()
    assert nearest_limit((ttft, e2e.model_copy(update={"value": None}))) == ()

"""The ladder says whose load nothing serves, and how much each rung has replayed."""

from __future__ import annotations

import pytest

from planner.errors import InfeasibleError
from planner.replay.generate import fixed_trace
from planner.scenario.load import load_scenario, scenario_from_data
from planner.search.ladder import REPLICAS, TURNS, NothingToClimb, climb
from planner.search.planning import plan

EXAMPLE = "examples/gpt-oss-120b-h100.yaml"


def test_a_load_of_the_ladders_own_that_nothing_serves_is_not_the_scenarios() -> None:
    """Prompts of 1,000 tokens are answered within 100 ms, documents are not."""
    data = load_scenario(EXAMPLE).to_dict()
    data["slo"] = {"ttft_ms": {"mean": 150}}
    scenario = scenario_from_data(data)
    assert plan(scenario).best is not None
    with pytest.raises(NothingToClimb, match="its load is long_document_qa in place of") as found:
        climb(scenario, fixed_trace("long_document_qa", 50, 0))
    assert isinstance(found.value, InfeasibleError)
    assert found.value.why.startswith("Nothing serves gpt-oss-120b")


def test_rungs_with_more_in_flight_replay_more() -> None:
    found = climb(load_scenario(EXAMPLE), fixed_trace("short_qa", 50, 0))
    last = found.rungs[-1]
    assert str(REPLICAS) in last.name
    for rung in found.rungs:
        assert rung.requests >= TURNS * rung.concurrency - 3 * rung.requests / 50
        assert rung.document()["requests"] == rung.requests
    assert last.requests > found.rungs[0].requests >= found.requests - 3
    assert any(n.startswith(f"{last.name}: the trace is replayed") for n in found.notes)

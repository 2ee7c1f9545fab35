"""The plan that is printed: what is asked of a scenario stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.cli.render_plan import render_plan
from planner.export.answers import best_text

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("classes", [True, False])
def test_priority_classes_have_a_table_of_their_own(classes: bool, capsys: pytest.CaptureFixture[str]) -> None:
    data = planner.load_scenario(EXAMPLES / "qwen3-32b-l40s.yaml").to_dict()
    data["workload"]["arrival"] = {"kind": "poisson", "rate_rps": 4.0}
    if classes:
        data["workload"]["priority_classes"] = [
            {"name": "chat", "share": 0.25, "priority": 0},
            {"name": "batch", "share": 0.75, "priority": 1},
        ]
    render_plan(planner.plan(planner.Scenario.from_dict(data)), 1)
    said = capsys.readouterr().out
    assert ("Priority classes" in said) is classes
    assert ("25 %" in said and "batch" in said) is classes


def test_candidates_without_a_price_are_ranked_by_their_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    scenario = planner.load_scenario(EXAMPLES / "deepseek-r1-h200.yaml")
    priced = planner.plan(scenario)
    costs = [c.model_copy(update={"usd_per_hour": None}) for c in priced.candidates]
    for plan, ranked in ((priced, "lowest cost"), (priced.model_copy(update={"candidates": tuple(costs)}), "fewest")):
        render_plan(plan, 1)
        assert f"Candidates by {ranked}" in capsys.readouterr().out
        assert best_text(plan, plan.candidates[1]).startswith(f"Candidate 2 of {len(costs)} by {ranked}")

"""The plan that is printed: what is asked of a scenario stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.cli.render_plan import render_plan

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

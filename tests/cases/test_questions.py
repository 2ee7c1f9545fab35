"""Questions from the field: stated, predicted beside the measured outcome, every miss with a named cause."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from cases.report import FOLDER, findings

from planner.evidence.questions import MEMORY_FIGURES, Finding, is_met, read_outcomes, scenario_of, table


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    result = findings()
    print(table(result))
    return result


def test_every_question_is_answered_or_says_why_not(shared: Path) -> None:
    asked = {q["id"] for q in yaml.safe_load((shared / "cases" / "questions.yaml").read_text())}
    entries = read_outcomes(FOLDER)
    assert {e["id"] for e in entries} == asked
    assert all(e.get("cases") or e.get("unstated") for e in entries)


def test_every_miss_has_a_named_cause(found: list[Finding]) -> None:
    assert [f for f in found if not f.met and not f.cause] == []


def test_memory_outcomes_come_out(found: list[Finding]) -> None:
    memory = [f for f in found if f.figure in MEMORY_FIGURES]
    decided = [f for f in memory if f.figure == "fits"]
    assert len(decided) >= 12
    assert all(f.met for f in decided)
    assert sum(f.met for f in memory) >= 0.75 * len(memory)


def test_what_changes_between_cases_reaches_the_scenario() -> None:
    case = {
        "scenario": "llama8b_3090_nonmonotonic.yaml",
        "change": {"engine.options.max_model_len": 29000, "workload.prefix_hit_rate": 0.5},
    }
    scenario = scenario_of(FOLDER, case)
    assert scenario.engine.options.max_model_len == 29000
    assert scenario.workload.prefix_hit_rate == 0.5


def test_nearness() -> None:
    assert is_met("fits", True, True)
    assert not is_met("fits", False, True)
    assert is_met("kv_gib", 10.0, 10.4)
    assert not is_met("kv_gib", 10.0, 10.6)
    assert is_met("tpot_ms", 10.0, 7.5)
    assert not is_met("tpot_ms", 10.0, None)

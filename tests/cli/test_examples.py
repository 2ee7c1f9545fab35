"""Every shipped scenario gives an answer; a plan file gives the same answer again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli import run
from planner.search.plan_schema import Plan

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
pytest.importorskip("planner.search.planning", reason="planning is not part of this installation")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, again = tmp_path / "plan.yaml", tmp_path / "again.yaml"
    expected = 3 if path.stem.startswith("infeasible") else 0
    assert run(["plan", str(path), "--json", "--out", str(out)]) == expected
    document = json.loads(capsys.readouterr().out)
    plan = Plan.from_yaml(out)
    assert json.loads(plan.to_json()) == document
    if expected == 3:
        assert "memory" in {r["reason"] for r in document["rejected"]}
        assert document["nearest_misses"][0]["fix"]
    else:
        best = document["candidates"][0]
        assert best["gpus"] >= 1
        assert all(check["met"] for check in best["slo"])
        assert {c["rank"] for c in document["candidates"]} == set(range(1, len(document["candidates"]) + 1))
    assert run(["plan", str(out), "--out", str(again)]) == expected
    capsys.readouterr()
    assert Plan.from_yaml(again) == plan
    assert again.read_text() == out.read_text()

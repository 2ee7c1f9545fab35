"""A user's own runs, kept in their catalogue folder, shift the plan of that deployment and narrow its interval."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.catalog.loader import catalog
from planner.layout.layouts import Layouts

SCENARIO = Path(__file__).parents[2] / "examples" / "deepseek-r1-h200.yaml"
OVERLAY = """\
schema: planner.profile/1
name: ours
source: bench.csv
date: '2026-11-30'
deployments:
- model: deepseek-r1
  gpu: h200-sxm
  engine: {engine}
  metrics:
    tpot: {{log_shift: 0.2, log_spread: 0.05, runs: 12, median_ratio: 1.22, prior_log_spread: 0.2}}
"""


def _estimate(folder: Path | None, engine: str | None = None):
    if folder is not None and engine is not None:
        (folder / "profiles").mkdir()
        (folder / "profiles" / "ours.yaml").write_text(OVERLAY.format(engine=engine), encoding="utf-8")
    scenario = planner.load_scenario(SCENARIO)
    layout = Layouts.of(tp=8)
    return planner.estimate(scenario, layout, concurrency=16, catalog=catalog(folder)).candidate


def test_own_runs_slow_the_deployment_and_narrow_its_interval(tmp_path: Path) -> None:
    engine = planner.load_scenario(SCENARIO).engine.name
    before, after = _estimate(None), _estimate(tmp_path, engine)
    # every part of a decode step takes exp(0.2) times as long, so the mean time per token does at a given concurrency
    assert after.tpot_ms.mean > 1.15 * before.tpot_ms.mean
    narrow, wide = after.interval["tpot_ms"], before.interval["tpot_ms"]
    assert narrow.high80 / narrow.low80 < wide.high80 / wide.low80
    assert narrow.high80 / after.tpot_ms.mean == pytest.approx(2.718281828 ** (1.2816 * 0.05), rel=1e-3)
    assert any("12 of your own runs" in mark.text for mark in after.evidence.marks)


def test_runs_of_another_engine_say_nothing(tmp_path: Path) -> None:
    engine = planner.load_scenario(SCENARIO).engine.name
    other = "vllm" if engine != "vllm" else "trtllm"
    assert _estimate(tmp_path, other).tpot_ms.mean == pytest.approx(_estimate(None).tpot_ms.mean)

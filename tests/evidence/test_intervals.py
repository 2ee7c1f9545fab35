"""Intervals: nested, wider with distance, widened in quadrature, and what their file says they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.evidence.e2e_keys import DISTANCES, distance, distance_classes, evidence_of, shipped_evidence
from planner.evidence.e2e_validate import METRICS
from planner.evidence.intervals import intervals
from planner.evidence.runs import read_runs

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("metric", ["tpot", "ttft", "throughput"])
def test_bounds_are_nested_around_the_prediction(kind: str, metric: str) -> None:
    found = intervals(kind, metric, [10.0, 20.0])
    assert np.all(found.low80 < found.low50)
    assert np.all(found.low50 < found.high50)
    assert np.all(found.high50 < found.high80)
    assert np.all((found.low80 < [10.0, 20.0]) & (found.high80 > [10.0, 20.0]))
    assert found.low80[1] == pytest.approx(2 * found.low80[0])


def test_farther_from_the_evidence_is_wider() -> None:
    widths = {k: float(np.log(v.high80 / v.low80)) for k in DISTANCES for v in [intervals(k, "tpot", 1.0)]}
    assert widths["seen_layout"] < widths["new_layout"] < widths["new_model"]
    assert widths["new_layout"] < widths["new_gpu"]


def test_further_spread_adds_in_quadrature() -> None:
    plain, wide = intervals("new_gpu", "tpot", 1.0), intervals("new_gpu", "tpot", 1.0, 0.5)
    middle = np.log(intervals("new_gpu", "tpot", 1.0).low80 / plain.low80)
    assert middle == 0.0
    assert wide.low80 < plain.low80
    assert wide.high80 > plain.high80
    far = intervals("new_gpu", "tpot", 1.0, 10.0)
    assert float(np.log(far.high80)) == pytest.approx(10.0, rel=0.01)


def test_one_distance_per_value() -> None:
    found = intervals(["seen_layout", "new_engine"], "ttft", [1.0, 1.0])
    assert found.high80[0] == intervals("seen_layout", "ttft", 1.0).high80
    assert found.high80[1] == intervals("new_engine", "ttft", 1.0).high80


def test_evidence_is_that_of_the_fitted_runs() -> None:
    runs = read_runs(ROOT / "measured" / "e2e_runs.csv")
    fitted = [i for i, s in enumerate(runs.text["speculative"]) if s == "none"]
    assert evidence_of(runs, fitted) == {k: list(v) for k, v in shipped_evidence().items()}
    classes = distance_classes(runs)
    assert {classes[i] for i in fitted} == {"seen_layout"}
    assert len(classes) == len(runs)


def test_distance_takes_the_farthest() -> None:
    known = {"models": ["m"], "gpus": ["g"], "engines": ["e"], "groups": ["m g e - - agg tp8"]}
    assert distance(known, "m", "g", "e", "m g e - - agg tp8") == "seen_layout"
    assert distance(known, "m", "g", "e", "m g e - - agg tp4") == "new_layout"
    assert distance(known, "x", "g", "e", "") == "new_model"
    assert distance(known, "x", "y", "e", "") == "new_gpu"
    assert distance(known, "x", "y", "z", "") == "new_engine"


def test_metrics_of_the_report_have_intervals() -> None:
    for metric in METRICS:
        assert intervals("new_model", metric.removesuffix("_ms"), 1.0).high80 > 1.0

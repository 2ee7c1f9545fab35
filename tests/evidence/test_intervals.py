"""Intervals: nested, wider with distance, widened in quadrature, and what their file says they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.catalog import Catalog
from planner.evidence.e2e_keys import DISTANCES, Known, distance_classes, evidence_of, place_key, shipped_evidence
from planner.evidence.e2e_validate import METRICS, validate_e2e
from planner.evidence.intervals import curve_spread, intervals
from planner.evidence.run_reading import architecture_name
from planner.evidence.run_terms import run_terms
from planner.evidence.runs import read_runs, runs_from_rows
from planner.hardware.curves import curves
from planner.hardware.device import device

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


def test_one_accelerator_per_value() -> None:
    gpus = ["h100-sxm", "gb200-nvl72", "h20-96g"]
    found = intervals("new_layout", "tpot", [1.0, 1.0, 1.0], accelerators=gpus)
    for i, gpu in enumerate(gpus):
        assert found.high80[i] == intervals("new_layout", "tpot", 1.0, accelerators=gpu).high80
    both = intervals(["new_layout", "new_gpu", "new_layout"], "tpot", [1.0, 1.0, 1.0], accelerators=gpus)
    assert both.high80[1] == intervals("new_gpu", "tpot", 1.0, accelerators="gb200-nvl72").high80
    assert both.high80[2] == intervals("new_layout", "tpot", 1.0).high80, "no runs on it: those of all accelerators"


def test_evidence_is_that_of_the_fitted_runs() -> None:
    runs = read_runs(ROOT / "measured" / "e2e_runs.csv")
    fitted = [i for i, s in enumerate(runs.text["speculative"]) if s == "none"]
    assert evidence_of(runs, fitted) == {k: list(v) for k, v in shipped_evidence().items()}
    classes = distance_classes(runs)
    assert {classes[i] for i in fitted} == {"seen_layout"}
    assert len(classes) == len(runs)


def test_distance_takes_the_farthest() -> None:
    known = Known.of({"groups": ["o/M-FP8 g e fp8 - agg tp8", "o/N h e - - agg tp8", "o/M h f - - agg tp8"]})
    assert known.distance("m", "g", "e", "m g e fp8 - agg tp8") == "seen_layout"
    assert known.distance("m", "g", "e", place_key("m", "g", "e", "agg", "tp8")) == "seen_layout"
    assert known.distance("m", "g", "e", "m g e fp8 - agg tp4") == "new_layout"
    assert known.distance("x", "g", "e", "") == "new_model"
    assert known.distance("x", "y", "e", "") == "new_gpu"
    assert known.distance("x", "y", "z", "") == "new_engine"


def test_parts_that_were_never_measured_together_are_not_near() -> None:
    known = Known.of({"groups": ["o/M g e - - agg tp8", "o/N h e - - agg tp8", "o/N g f - - agg tp8"]})
    assert known.distance("m", "h", "e", "") == "new_model"
    assert known.distance("m", "h", "f", "") == "new_gpu"


def test_checkpoints_of_one_architecture_are_one_model_and_generations_are_not() -> None:
    assert architecture_name("deepseek-ai/DeepSeek-V3-0324") == architecture_name("deepseek-ai/DeepSeek-V3")
    assert architecture_name("deepseek-ai/DeepSeek-V3") != architecture_name("deepseek-ai/DeepSeek-V2")
    assert architecture_name("mistralai/Mixtral-8x7B-Instruct-v0.1") == "mixtral-8x7b"


def test_metrics_of_the_report_have_intervals() -> None:
    for metric in METRICS:
        assert intervals("new_model", metric.removesuffix("_ms"), 1.0).high80 > 1.0


def test_borrowed_curves_widen_and_another_engines_kernels_do_not(cat: Catalog) -> None:
    own, other = (curves(device(cat.accelerator(gpu)), "trtllm") for gpu in ("h200-sxm", "mi300x"))
    for found in (own, other):
        for op, dtype in (("gemm", "bf16"), ("moe", "fp8_block")):
            found.get(op, dtype)
    assert [c.op for c in own.used() if c.extrapolated] == ["moe"]
    assert curve_spread(own.used()) == curve_spread([]) == 0.0
    assert curve_spread(other.used()) == np.median([c.spread for c in other.used()]) > 0.1


def test_validation_widens_as_a_plan_does(cat: Catalog) -> None:
    row: dict[str, str | float | None] = {"model": "Qwen/Qwen3-32B", "gpu": "mi300x", "engine": "vllm", "tp": 1}
    rows = [
        row | {"input_tokens": 1000, "output_tokens": 500, "concurrency": 8, "tpot_ms": 30} | change
        for change in ({}, {"gpu": "h200-sxm"})
    ]
    runs = runs_from_rows(rows)
    spread = run_terms(runs, cat)[0].curve_spread
    assert spread[0] > spread[1] == 0.0
    far = validate_e2e(runs, cat)["predictions"][0]
    plain, wide = (intervals("new_gpu", "tpot", far["predicted_tpot_ms"], extra) for extra in (0.0, spread[0]))
    assert far["high80_tpot_ms"] == pytest.approx(float(wide.high80))
    assert wide.high80 > plain.high80

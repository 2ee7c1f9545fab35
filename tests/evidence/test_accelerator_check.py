"""Intervals by accelerator hold where those of all accelerators do not, and what was found is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from planner.evidence.accelerator_check import LEAST_MODELS, LEAST_RUNS, check_of, quantiles, residual_quantiles
from planner.evidence.e2e_crossval import Residuals, accelerator_classes, coverage
from planner.evidence.e2e_keys import DISTANCES, interval_document
from planner.evidence.runs import Runs, runs_from_rows

SCHEMES = ("run", "group", "model", "gpu", "engine")


def world(models: int = LEAST_MODELS, **sizes: int) -> tuple[Runs, dict[str, Residuals]]:
    """Residuals of 5 %, and of 100 % off by a factor of e on the accelerator ``bad``."""
    rng = np.random.default_rng(3)
    gpus = [gpu for gpu, size in sizes.items() for _ in range(size)]
    runs = runs_from_rows(
        [
            {
                "model": f"o/M{i % models}",
                "gpu": gpu,
                "engine": "vllm",
                "input_tokens": 1,
                "output_tokens": 1,
                "concurrency": 1,
            }
            for i, gpu in enumerate(gpus)
        ]
    )
    bad = np.array(gpus) == "bad"
    values = np.where(bad, -1.0 + rng.normal(size=bad.size), 0.05 * rng.normal(size=bad.size))
    residuals = Residuals(np.arange(bad.size), values, values, values)
    return runs, dict.fromkeys(SCHEMES, residuals)


def test_an_accelerator_that_is_far_off_has_an_interval_that_holds() -> None:
    runs, found = world(good=900, bad=90)
    classes = accelerator_classes(runs, found)
    bad = np.array(runs.text["gpu"]) == "bad"
    measured_over_predicted = -found["group"].tpot[bad]
    for edges, low, high in (
        (classes["good"]["classes"]["new_layout"]["tpot"], 0.0, 0.3),
        (classes["bad"]["classes"]["new_layout"]["tpot"], 0.75, 0.85),
    ):
        inside = (measured_over_predicted >= edges["q10"]) & (measured_over_predicted <= edges["q90"])
        assert low <= inside.mean() <= high
    assert 0.7 <= coverage(found, bad)["new_layout"]["tpot"] <= 0.9, "by the half that was not used"
    held_out = classes["bad"]["held_out"]["tpot"]
    assert held_out["inside80"] < 45, "the interval of all accelerators misses most of its runs"
    assert held_out["median_ape"] == pytest.approx(1.0 - np.exp(-1.0), abs=0.15)


@pytest.mark.parametrize(("size", "own"), [(LEAST_RUNS - 1, False), (LEAST_RUNS, True)])
def test_least_runs_for_an_interval_of_its_own(size: int, own: bool) -> None:
    assert ("classes" in accelerator_classes(*world(good=100, bad=size))["bad"]) is own
    low, high = 0.1 * (size + 1), 0.9 * (size + 1)
    assert (low >= 1 and high <= size) is own, "both ends lie among the values of the sample"


@pytest.mark.parametrize(("models", "own"), [(LEAST_MODELS - 1, False), (LEAST_MODELS, True)])
def test_errors_of_one_model_are_not_the_accelerators(models: int, own: bool) -> None:
    assert ("classes" in accelerator_classes(*world(models, good=100, bad=90))["bad"]) is own


def test_quantiles_promise_the_next_value() -> None:
    rng = np.random.default_rng(1)
    hits = [
        low <= sample[-1] <= high
        for sample in rng.normal(size=(4000, 20))
        for low, high in [quantiles(sample[:-1], (0.1, 0.9))]
    ]
    assert np.mean(hits) == pytest.approx(0.8, abs=0.02), "plain quantiles of 19 values hold the next in 76 %"


def test_shipped_accelerators_are_told() -> None:
    gb200 = check_of("gb200-nvl72")
    assert gb200.runs == 19
    assert not gb200.holds
    assert "19 measured runs" in gb200.text()
    assert "Qwen3-32B" in gb200.text()
    assert "too few runs or models" in gb200.text()
    assert residual_quantiles("new_gpu", "gb200-nvl72") == residual_quantiles("new_gpu", None)
    for name in ("h100-sxm", "h200-sxm", "b200-sxm"):
        assert check_of(name).holds
        assert residual_quantiles("new_gpu", name) != residual_quantiles("new_gpu", None)
    assert "No end-to-end run on h20-96g" in check_of("h20-96g").text()
    assert residual_quantiles("new_gpu", "h20-96g") == residual_quantiles("new_gpu", None)


def test_too_few_runs_keep_the_interval_of_all(tmp_path: Path) -> None:
    runs, found = world(good=100, bad=3)
    stored = {"classes": {kind: {"tpot": {"q50": 0.0}} for kind in DISTANCES}}
    text = yaml.safe_dump(stored | {"accelerators": accelerator_classes(runs, found)})
    (tmp_path / "intervals.yaml").write_text(text, encoding="utf-8")
    interval_document.cache_clear()
    assert residual_quantiles("new_gpu", "bad", tmp_path) == {"tpot": {"q50": 0.0}}
    assert "too few" in check_of("bad", tmp_path).text()

"""Own runs beyond anything that the evidence shows are refused or warned of; intervals that widen are told."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from planner.cli import run
from planner.errors import InputError
from planner.evidence.profile_check import FAR, bounds, check_shifts
from planner.evidence.profile_overlay import Deployment, Overlay, Shift

HEADER = "model,gpu,engine,input_tokens,output_tokens,concurrency,tp,linear_precision,ttft_ms,tpot_ms\n"


def overlay(ratio: float, spread: float = 0.1, prior: float = 0.2, metric: str = "tpot") -> Overlay:
    shift = Shift(0.0, spread, 5, ratio, prior)
    return Overlay("n", "s", "2026-11-30", (Deployment("m", "h100-sxm", "vllm", {metric: shift}),))


def test_bounds_enclose_what_the_prediction_says() -> None:
    assert bounds().keys() == {"ttft", "tpot"}
    for least, most in bounds().values():
        assert 0.0 < least < 1.0 < most


@pytest.mark.parametrize("metric", ["ttft", "tpot"])
def test_what_no_run_showed_is_refused_and_what_is_far_is_warned_of(metric: str) -> None:
    least, most = bounds()[metric]
    limit = math.exp(FAR * 0.2)
    assert (
        check_shifts(overlay(0.99 * limit, metric=metric)) == check_shifts(overlay(1.01 / limit, metric=metric)) == []
    )
    (note,) = check_shifts(overlay(1.01 * limit, metric=metric))
    assert "outside 0.55 to 1.8, three times the spread" in note
    for ratio in (1.001 * most, 0.999 * least):
        with pytest.raises(InputError, match="behind the coefficients"):
            check_shifts(overlay(ratio, metric=metric))
    with pytest.raises(InputError, match="seconds stood in a column of milliseconds"):
        check_shifts(overlay(0.001, metric=metric))


def test_an_interval_that_widens_is_told() -> None:
    (note,) = check_shifts(overlay(1.0, spread=0.3))
    assert "the interval widens" in note


def test_the_command_refuses_seconds_and_says_what_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "mine.csv", tmp_path / "lab.yaml"
    rows = [f"Qwen/Qwen3-32B,l40s,vllm,1000,500,{2 + i},4,,,{{}}\n" for i in range(4)]
    path.write_text(HEADER + "".join(rows).replace("{}", "0.03"))
    assert run(["calibrate", "--profile", str(path), "--out", str(out)]) == 2
    assert "seconds" in capsys.readouterr().err
    assert not out.exists()
    path.write_text(HEADER + "".join(rows).replace("{}", "30"))
    assert run(["calibrate", "--profile", str(path), "--out", str(out)]) == 0
    assert "precision taken as the checkpoint's" in capsys.readouterr().err
    assert out.is_file()

"""The committed curves come out of the committed tables, and meet their targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console

from planner.catalog import Catalog
from planner.evidence.ops_calibrate import (
    TARGETS_MEDIAN_APE,
    calibrate_ops,
    render_table,
    summary,
    target_group,
    write,
)
from planner.evidence.ops_fit import Fit
from planner.hardware.curves import shipped_directory
from planner.hardware.device import device

MEASURED = Path(__file__).resolve().parents[2] / "measured"


@pytest.fixture(scope="module")
def fits() -> list[Fit]:
    return calibrate_ops(MEASURED)


def test_committed_coefficients_are_regenerated(fits: list[Fit], tmp_path: Path, cat: Catalog) -> None:
    devices = {name: device(cat.accelerator(name)) for name in {one.sample.gpu for one in fits}}
    for path in write(fits, tmp_path, devices):
        new = yaml.safe_load(path.read_text(encoding="utf-8"))
        old = yaml.safe_load((shipped_directory() / path.name).read_text(encoding="utf-8"))
        assert new["peaks_tflops"] == old["peaks_tflops"]
        assert [_identity(c) for c in new["curves"]] == [_identity(c) for c in old["curves"]]
        for ours, theirs in zip(new["curves"], old["curves"], strict=True):
            # Coefficients of one curve trade against each other on another BLAS; what they predict does not.
            assert ours["residuals"]["median_ape"] == pytest.approx(theirs["residuals"]["median_ape"], abs=0.01)
            assert ours["points"] == theirs["points"]
            assert set(ours["coefficients"]) == set(theirs["coefficients"])


def _identity(curve: dict) -> tuple[str, str, str, str]:
    return curve["op"], curve["engine"], curve["dtype"], curve["form"]


def test_targets_are_met_class_by_class(fits: list[Fit]) -> None:
    Console(width=130).print(render_table(fits))
    medians: dict[str, list[float]] = {}
    for one in fits:
        medians.setdefault(target_group(one.sample.op, one.sample.dtype), []).append(one.residuals()["median_ape"])
    assert set(medians) == set(TARGETS_MEDIAN_APE)
    for group, values in medians.items():
        assert np.median(values) <= TARGETS_MEDIAN_APE[group], group


def test_no_curve_is_biased_as_a_whole(fits: list[Fit]) -> None:
    for name, row in summary(fits).items():
        assert abs(row["bias"]) < 0.05, name


def test_coefficients_are_physical(fits: list[Fit]) -> None:
    for one in fits:
        known = one.coefficients
        assert len(one.form.unknowns) <= 7
        assert all(value >= 0 for value in known.values())
        for name in ("compute_efficiency", "bandwidth_efficiency"):
            assert known.get(name, 0.5) <= 1.0
        assert known.get("floor_s", 1e-6) < 1e-3


def test_left_out_rows_are_counted(fits: list[Fit]) -> None:
    artefact = [f for f in fits if (f.sample.op, f.sample.engine, f.sample.dtype) == ("gemm", "vllm", "fp8_block")]
    assert artefact
    for one in artefact:
        assert one.sample.excluded["artefact floor at small m"] > 0
        assert one.sample.gpu != "gb200-nvl72"


def test_a_part_can_be_fitted_alone_and_writes_nothing(fits: list[Fit], tmp_path: Path) -> None:
    part = calibrate_ops(MEASURED, tmp_path, classes=["send"], accelerators=["h200-sxm"])
    assert [f.sample.gpu for f in part] == ["h200-sxm"]
    assert not list(tmp_path.iterdir())
    whole = next(f for f in fits if (f.sample.op, f.sample.gpu) == ("send", "h200-sxm"))
    assert part[0].coefficients == whole.coefficients


def test_narrow_experts_that_no_engine_would_choose_are_named_not_used() -> None:
    path = Path(__file__).resolve().parents[2] / "hardware_db" / "efficiency" / "ops" / "h200-sxm.yaml"
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [(e["op"], e["engine"], e["dtype"]) for e in written["left_out"]] == [("moe", "vllm", "fp8")]
    assert "16-bit" in written["left_out"][0]["reason"]
    used = {(e["op"], e["engine"], e["dtype"]) for e in written["curves"]}
    assert ("moe", "vllm", "fp8") not in used
    assert ("moe", "vllm", "fp8_block") in used

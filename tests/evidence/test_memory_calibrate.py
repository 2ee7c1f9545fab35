"""The committed memory coefficients come out of the measured runs again."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog import catalog
from planner.errors import InputError
from planner.evidence.memory_calibrate import calibrate_memory
from planner.memory.coefficients import EngineMemory, engine_memory

MEASURED = Path(__file__).resolve().parents[2] / "measured"


def test_the_committed_file_is_what_the_fit_gives(tmp_path: Path) -> None:
    fresh = EngineMemory.model_validate(calibrate_memory(MEASURED, tmp_path))
    committed = engine_memory("vllm", catalog())
    assert (tmp_path / "vllm.yaml").is_file()
    assert fresh.model_dump(exclude={"fitted"}) == committed.model_dump(exclude={"fitted"})
    for new, old in zip(fresh.fitted, committed.fitted, strict=True):
        for name, value in old.model_dump().items():
            if isinstance(value, float):
                assert getattr(new, name) == pytest.approx(value, rel=0.01, abs=0.005), name
            elif name not in ("median_abs_residual_gib", "p90_abs_residual_gib"):
                assert getattr(new, name) == value


def test_residuals_are_small() -> None:
    newest = engine_memory("vllm").coefficients(None)
    assert newest.points >= 50
    assert newest.median_abs_residual_gib["activation"] <= 0.01
    assert newest.median_abs_residual_gib["non_torch"] <= 0.02
    assert newest.median_abs_residual_gib["graphs"] <= 0.1


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"memory_runs\.csv"):
        calibrate_memory(tmp_path, tmp_path / "out")

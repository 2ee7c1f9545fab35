"""Calibration prints residuals and writes whole files, only where asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli import run

MEASURED = Path(__file__).resolve().parents[2] / "measured"


def test_memory_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "memory", str(MEASURED), "--out", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["kind"] == "memory"
    assert document["fitted"][0]["points"] > 40
    assert [p.name for p in tmp_path.iterdir()] == ["vllm.yaml"]
    assert run(["calibrate", "memory", str(MEASURED)]) == 0
    assert "median |residual| activation" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["ops", "memory"])
def test_bad_folders_are_named(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", part, str(tmp_path)]) == 2
    assert "MEASURED: got" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run(["calibrate", part, str(MEASURED), "--out", str(tmp_path / "file")]) == 2
    assert "--out: got" in capsys.readouterr().err


def test_a_folder_to_write_to_is_made(tmp_path: Path) -> None:
    assert run(["calibrate", "memory", str(MEASURED), "--out", str(tmp_path / "new" / "one")]) == 0
    assert (tmp_path / "new" / "one" / "vllm.yaml").is_file()

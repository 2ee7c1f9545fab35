"""A file is told from its content, whatever its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from evidence.importers import samples
from evidence.test_logs import SGLANG, TRTLLM, VLLM

from planner.cli import run
from planner.errors import InputError
from planner.evidence.recognise import kind_of


@pytest.mark.parametrize("text", samples.ALL.values())
def test_reports(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.bin"
    path.write_text(text)
    assert kind_of(path) == ("e2e" if text == samples.PLAIN else "results")


@pytest.mark.parametrize("text", [VLLM, SGLANG, TRTLLM])
def test_logs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.csv"
    path.write_text(text)
    assert kind_of(path) == "log"


def test_others(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("- id: x\n  phase: decode\n  metrics:\n    a: 1\n")
    assert kind_of(path) == "published"
    for text in ("", "a,b\n", "{broken", "model: x\n"):
        path.write_text(text)
        with pytest.raises(InputError):
            kind_of(path)


def test_real_files(shared: Path) -> None:
    assert {kind_of(p) for p in (shared / "cases" / "bench").iterdir()} == {"results"}
    assert {kind_of(p) for p in (shared / "cases" / "logs").iterdir()} == {"log"}


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(samples.text(samples.VLLM))
    assert run(["validate", str(path)]) == 2
    assert "--gpu" in capsys.readouterr().err
    assert run(["validate", str(path), "--gpu", "h200", "--tp", "4"]) == 0
    out = capsys.readouterr().out
    assert "tpot_ms" in out
    assert "speculative decoding taken as off" in out
    path.write_text(VLLM)
    assert run(["validate", str(path), "--gpu", "h100"]) == 0
    assert "KV cache, GiB" in capsys.readouterr().out
    path.write_text(samples.PLAIN)
    assert run(["validate", str(path), "--gpu", "h100"]) == 0
    path.write_text("- id: x\n  phase: decode\n  metrics:\n    a: 1\n")
    assert run(["validate", str(path), "--json"]) == 2

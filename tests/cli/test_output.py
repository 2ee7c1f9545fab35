"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from planner.cli.output import print_json, write_text
from planner.errors import InputError


def test_write_replaces_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("old")
    write_text(path, "new ✓")
    assert path.read_text() == "new ✓"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.yaml"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="full"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.yaml"]


def test_no_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "plan.yaml", tmp_path):
        with pytest.raises(InputError, match="--out"):
            write_text(path, "x")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [float("nan"), 1.5, float("inf")], "b": {"c": None}})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5, None], "b": {"c": None}}

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog import files
from planner.errors import InputError


def test_duplicate_keys_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("gb_sold: 80\ngb_sold: 96\n")
    with pytest.raises(InputError, match=r"gb_sold.*twice"):
        files.read_yaml(path)


def test_dates_stay_as_written() -> None:
    assert files.parse_yaml("date: 2026-04-15\nother: 2026-04", "t") == {"date": "2026-04-15", "other": "2026-04"}


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system ['true']", "a: !!python/name:os.system", "a: [", "- 1"]
)
def test_unsafe_broken_or_flat_yaml_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^t"):
        files.parse_yaml(text, "t")


def test_missing_huge_and_binary_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        files.read_yaml(tmp_path / "none.yaml")
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        files.read_yaml(binary)
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 10)
    large = tmp_path / "large.yaml"
    large.write_text("key: " + "x" * 100)
    with pytest.raises(InputError, match="at most 10 bytes"):
        files.read_yaml(large)


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n "a": }')
    with pytest.raises(InputError, match="line 2"):
        files.read_json(path)
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested"):
        files.read_json(path)
    path.write_text("[1]")
    with pytest.raises(InputError, match="mapping"):
        files.read_json(path)


def test_nested_aliases_do_not_explode() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    with pytest.raises(InputError, match="alias"):
        files.parse_yaml(bomb, "t")

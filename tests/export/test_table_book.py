"""Workbooks of scenarios: good rows answered, bad rows kept with their message, the file's own content untouched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from planner.errors import InputError
from planner.export.workbook.table_book import fill_table, template
from planner.search.record import RESULT_COLUMNS, blank
from planner.sheet.rows import COLUMNS, foreign_columns

ROWS = (
    ("name", "model", "node", "input_tokens", "output_tokens", "rate_rps"),
    ("good", "qwen3-32b", "dgx-h100", 2000, 300, 5),
    ("bad", "nonsense", "dgx-h100", 2000, 300, 5),
    (None, None, None, None, None, None),
    ("=1+1", "qwen3-32b", "dgx-h100", 2000, 300, 5),
)


def made(path: Path, rows: tuple[tuple[Any, ...], ...] = ROWS, sheet: str = "Scenarios", skip: int = 0) -> Path:
    book = openpyxl.Workbook()
    book.active.title = sheet
    for _ in range(skip):
        book.active.append(("a line of text",))
    for row in rows:
        book.active.append(row)
    book.create_sheet("Notes")["A1"] = "keep me"
    book["Notes"]["A2"] = "=1+2"
    book.save(path)
    return path


def fake(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if row["model"] == "nonsense":
        return blank("error", "=HYPERLINK(1) no such model")
    return blank("ok", None) | {"gpus": 8, "layout": "TP8"}


def foreign(columns: list[tuple[str, str]]) -> list[str]:
    return foreign_columns([name for _, name in columns])


def run(source: Path, target: Path) -> tuple[dict[str, int], list[dict[str, Any]]]:
    counts = fill_table(source, target, fake, foreign, lambda *_: None)
    sheet = openpyxl.load_workbook(target).worksheets[0]
    rows = [r for r in sheet.iter_rows(values_only=True) if any(r)]
    top = next(i for i, r in enumerate(rows) if "model" in r)
    return counts, [dict(zip(rows[top], r, strict=True)) for r in rows[top + 1 :]]


@pytest.mark.parametrize("skip", [0, 3])
def test_rows_keep_their_place(skip: int, tmp_path: Path) -> None:
    source = made(tmp_path / "in.xlsx", skip=skip)
    counts, rows = run(source, tmp_path / "out.xlsx")
    assert [(r["name"], r["status"], r["gpus"]) for r in rows[:2]] == [("good", "ok", 8), ("bad", "error", None)]
    assert counts == {"ok": 1, "error": 2}
    assert "no stored value" in rows[2]["message"]
    assert openpyxl.load_workbook(tmp_path / "out.xlsx")["Notes"]["A2"].value == "=1+2"


def test_a_message_like_a_formula_is_text(tmp_path: Path) -> None:
    run(made(tmp_path / "in.xlsx"), tmp_path / "out.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").worksheets[0]
    found = next(c for c in sheet[3] if isinstance(c.value, str) and c.value.startswith("=HYPERLINK"))
    assert found.data_type == "s"
    assert found.quotePrefix


def test_running_again_fills_the_same_columns(tmp_path: Path) -> None:
    first, second = tmp_path / "out.xlsx", tmp_path / "again.xlsx"
    run(made(tmp_path / "in.xlsx"), first)
    run(first, second)
    heads = [c.value for c in openpyxl.load_workbook(second).worksheets[0][1]]
    assert len(heads) == len(set(heads)) == len(ROWS[0]) + len(RESULT_COLUMNS)


def test_unknown_columns_are_refused_by_name(tmp_path: Path) -> None:
    rows = (("name", "model", "nod", "input_tokens", "output_tokens"), ("x", "y", "z", 1, 1))
    with pytest.raises(InputError, match="did you mean node"):
        run(made(tmp_path / "in.xlsx", rows), tmp_path / "out.xlsx")


def test_columns_of_the_buyers_own_pass_through(tmp_path: Path) -> None:
    """Values and formulas of theirs stay, and reach no scenario; a row of nothing else is no row."""
    rows = [(*row, *own) for row, own in zip(ROWS[:3], [("prix", "notes"), (3.5, "=1+1"), (None, "=A1")], strict=True)]
    source = made(tmp_path / "in.xlsx", (*rows, (*ROWS[3], "a comment", None)))
    asked: list[Mapping[str, Any]] = []
    fill_table(source, tmp_path / "out.xlsx", lambda r: asked.append(r) or fake(r), foreign, lambda *_: None)
    assert [list(r) for r in asked] == [list(ROWS[0])] * 2
    table = list(openpyxl.load_workbook(tmp_path / "out.xlsx").worksheets[0].iter_rows(values_only=True))
    assert [r[6:8] for r in table] == [("prix", "notes"), (3.5, "=1+1"), (None, "=A1"), ("a comment", None)]
    assert [r[8] for r in table] == ["status", "ok", "error", None]


def test_what_is_no_workbook(tmp_path: Path) -> None:
    text = tmp_path / "in.xlsx"
    text.write_text("model,node\n")
    with pytest.raises(InputError, match="Excel workbook"):
        run(text, tmp_path / "out.xlsx")
    with pytest.raises(InputError, match="that exists"):
        run(tmp_path / "none.xlsx", tmp_path / "out.xlsx")
    with pytest.raises(InputError, match="column model"):
        run(made(tmp_path / "in2.xlsx", (("a", "b"), (1, 2))), tmp_path / "out.xlsx")
    assert not (tmp_path / "out.xlsx").exists()


def test_template_is_a_table(tmp_path: Path) -> None:
    template(tmp_path / "t.xlsx", {n: c.meaning for n, c in COLUMNS.items()}, {"name": "a", "model": "m", "node": "n"})
    _, rows = run(tmp_path / "t.xlsx", tmp_path / "out.xlsx")
    assert rows[0]["status"] == "ok"

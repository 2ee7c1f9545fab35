"""The comparison of options, its example, and the notebook."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from planner.errors import InputError
from planner.export.workbook.comparison import write_comparison
from planner.search.record import blank
from planner.sheet.rows import check_columns

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def row(name: str, usd: float | None) -> dict[str, Any]:
    figures = {
        "gpus": 8,
        "nodes": 2,
        "node_chosen": "dgx-h200",
        "output_tokens_per_s_per_gpu": 100.0,
        "usd_per_hour": None if usd is None else 16 * usd,
        "usd_per_mtok_output": None if usd is None else 16 * usd / 3600 * 1e6 / 800,
    }
    return {"name": name, "usd_per_gpu_hour": usd, **blank("ok", None), **figures}


def test_costs_are_live_and_ranked(tmp_path: Path) -> None:
    rows = [row("dear", 3.0), row("cheap", 2.0), {"name": "=bad", **blank("error", "what is wrong")}]
    write_comparison(rows, tmp_path / "c.xlsx")
    values = openpyxl.load_workbook(tmp_path / "c.xlsx", data_only=True)["Comparison"]
    formulas = openpyxl.load_workbook(tmp_path / "c.xlsx")["Comparison"]
    assert [values.cell(r, 15).value for r in (4, 5)] == [2, 1]
    assert values.cell(4, 14).value == pytest.approx(3.0 * 16 / 3600 * 1e6 / 800)
    assert formulas.cell(4, 12).value == '=IF(ISNUMBER($K$4),$F$4*$G$4*$K$4,"no price")'
    assert (values.cell(6, 1).value, values.cell(6, 16).value) == ("=bad", "what is wrong")
    with pytest.raises(InputError):
        write_comparison([], tmp_path / "d.xlsx")


def test_the_procurement_example_is_what_its_script_makes() -> None:
    options = runpy.run_path(str(EXAMPLES / "procurement.py"))["options"]()
    assert len(options) == 12
    book = openpyxl.load_workbook(EXAMPLES / "procurement.xlsx", data_only=True)
    table = list(book["Scenarios"].iter_rows(values_only=True))
    check_columns([str(name) for name in table[0]])
    at = {name: i for i, name in enumerate(table[0])}
    assert [{k: r[at[k]] for k in options[0]} for r in table[1:]] == options
    assert {r[at["status"]] for r in table[1:]} == {"ok"}
    assert (EXAMPLES / "procurement.xlsx").stat().st_size < 100_000


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    monkeypatch.chdir(EXAMPLES)
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"], "the executed output is kept"
            exec("".join(cell["source"]), names)
    assert {r["status"] for r in names["rows"]} == {"ok"}
    assert (EXAMPLES / "notebook.ipynb").stat().st_size < 100_000


def test_examples_are_refreshed_by_running_them() -> None:
    refresh = runpy.run_path(str(EXAMPLES / "refresh.py"))
    names: dict[str, Any] = {}
    printed, value = refresh["_run"]("print('one')\nx = 2\nx + 1", names, 4)
    assert printed == {"name": "stdout", "output_type": "stream", "text": ["one\n"]}
    assert (value["data"], value["execution_count"]) == ({"text/plain": ["3"]}, 4)
    assert refresh["_run"]("y = x", names, 5) == []
    book = refresh["values"](EXAMPLES / "procurement.xlsx")
    assert "Scenarios" in book
    assert len(book["Scenarios"]) == 13

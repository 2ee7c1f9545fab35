"""The comparison of options, its example, and the notebook."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from planner.catalog import catalog
from planner.errors import InputError
from planner.export.workbook.comparison import FIRST, HEAD, PRICE, write_comparison
from planner.export.workbook.table_book import fill_table
from planner.search.record import RESULT_COLUMNS, blank
from planner.sheet.rows import check_columns

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SPLIT = ("prefill_layout", "prefill_workers", "replicas", "layout")


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
    assert "$F$4*$G$4)*$K$4" in formulas.cell(4, 12).value
    assert all(str(c.value).startswith("=") for row in formulas.iter_rows(min_row=4) for c in row)
    assert (values.cell(6, 1).value, values.cell(6, 16).value) == ("=bad", "what is wrong")
    with pytest.raises(InputError):
        write_comparison([], tmp_path / "d.xlsx")


def recalculated(folder: Path, *sources: Path) -> list[dict[str, Any]]:
    """Rows of the sheet Comparison, by name of the column, as LibreOffice computes them."""
    out = folder / "out"
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    done = subprocess.run(
        ["soffice", profile, "--headless", "--convert-to", "xlsx", "--outdir", str(out), *map(str, sources)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = []
    for path in sources:
        rows = list(openpyxl.load_workbook(out / path.name, data_only=True)["Comparison"].iter_rows(values_only=True))
        found.append({r[0]: dict(zip(HEAD, r, strict=False)) for r in rows[FIRST:] if r[0]})
    return found


def shown(path: Path) -> dict[str, Any]:
    """The same as written."""
    rows = list(openpyxl.load_workbook(path, data_only=True)["Comparison"].iter_rows(values_only=True))
    return {r[0]: dict(zip(HEAD, r, strict=False)) for r in rows[FIRST:] if r[0]}


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice (soffice) is not installed")
def test_the_comparison_follows_a_run_of_the_table(tmp_path: Path) -> None:
    """A changed answer, an option less and one more, and a price typed in, all as LibreOffice computes them."""
    made, ran, typed, labels = (tmp_path / f"{name}.xlsx" for name in ("made", "ran", "typed", "labels"))
    bare = {"model": "qwen3-32b", "node": "dgx-h200"}
    split = row("split", 2.0) | {"prefill_layout": "TP4", "prefill_workers": 3, "replicas": 2, "layout": "TP8"}
    unnamed = [row("", None) | bare | load for load in ({"rate_rps": 2.5}, {"concurrency": 64}, {})]
    write_comparison([row("dear", 3.0), row("cheap", 2.0), row("free", None), split], made)
    write_comparison(unnamed, labels)
    book = openpyxl.load_workbook(made)
    table = book["Scenarios"]
    columns = {c.value: c.column for c in table[1]}
    for name, value in {"name": "moved", "model": "qwen3-32b", "node": "gb200-nvl72"}.items():
        table.cell(2, columns.setdefault(name, table.max_column + 1), value)
        table.cell(1, columns[name], name)
    for name, place in (("input_tokens", 1), ("output_tokens", 2)):
        columns[name] = table.max_column + 1
        table.cell(1, columns[name], name)
        for r in range(2, 7):
            table.cell(r, columns[name], place)
    table.cell(6, columns["name"], "added")
    book.save(ran)

    def answer(given: Mapping[str, Any]) -> Mapping[str, Any]:
        if given["name"] == "cheap":
            return blank("infeasible", "memory")
        usd = {"moved": 5.0, "added": 1.0, "split": 2.0}.get(given["name"])
        node = {"node_chosen": "gb200-nvl72", "nodes": 4, "gpus": 16, "usd_per_hour": 16 * 5.0}
        out = row("", usd) | (node if given["name"] == "moved" else {})
        return {k: out.get(k) for k in RESULT_COLUMNS} | {k: split[k] for k in SPLIT if given["name"] == "split"}

    fill_table(ran, ran, answer, lambda _: [], lambda *_: None)
    book = openpyxl.load_workbook(ran)
    book["Comparison"].cell(FIRST + 1, PRICE + 1, 0.01)
    book.save(typed)
    bare_labels = tmp_path / "bare.xlsx"
    openpyxl.load_workbook(labels).save(bare_labels)
    first, follows, priced, named = recalculated(tmp_path, made, ran, typed, bare_labels)
    of = "qwen3-32b on dgx-h200"
    assert list(named) == list(shown(labels)) == [f"{of}, 2.5 requests/s", f"{of}, 64 in flight", of]
    cost = "USD per million output tokens"
    for name, one in shown(made).items():
        for column, value in one.items():
            is_number = isinstance(value, int | float)
            assert first[name][column] == (pytest.approx(value) if is_number else value), column
    assert first["split"]["layout"] == "prefill 3 × (TP4), decode 2 × (TP8)"
    assert list(follows) == ["moved", "cheap", "free", "split", "added"]
    assert [follows["moved"][k] for k in ("GPUs per node", "USD per GPU-hour")] == [
        catalog().node("gb200-nvl72").gpus,
        pytest.approx(80 / 4 / catalog().node("gb200-nvl72").gpus),
    ]
    assert follows["moved"][cost] == pytest.approx(16 * 5.0 / 3600 * 1e6 / 1600)
    assert (follows["cheap"]["status"], follows["cheap"]["message"]) == ("infeasible", "memory")
    assert not follows["cheap"][cost]
    assert follows["free"][cost] == "no price"
    assert [follows[n]["rank by cost"] for n in ("added", "split", "moved")] == [1, 2, 3]
    assert priced["moved"]["USD per hour"] == pytest.approx(4 * catalog().node("gb200-nvl72").gpus * 0.01)
    assert priced["moved"]["rank by cost"] == 1


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


def test_examples_that_hold_results_are_what_the_code_says_now() -> None:
    """The notebook is run for this; both files are brought in step by python examples/refresh.py, as make docs does."""
    refresh = runpy.run_path(str(EXAMPLES / "refresh.py"))
    found = {path.name for path in refresh["outdated"]()}
    assert not found, f"older than the code: {found}; python examples/refresh.py writes them anew"
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    assert all(cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert (EXAMPLES / "notebook.ipynb").stat().st_size < 100_000


@pytest.mark.parametrize(
    ("new", "same"),
    [("TP8 12.3457 ms", True), ("TP8 12.3459 ms", True), ("TP4 12.3457 ms", False), ("TP8 12.36 ms", False)]
    + [("TP8 12.3457 s", False), ("TP8 12.3457 ms 1", False)],
)
def test_only_last_digits_may_differ(new: str, same: bool) -> None:
    assert runpy.run_path(str(EXAMPLES / "refresh.py"))["alike"]("TP8 12.3457 ms", new) is same


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

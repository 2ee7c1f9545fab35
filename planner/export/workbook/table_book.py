"""A table of scenarios in a workbook, filled in: the file's own sheets, formats and formulas stay as they are."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.errors import InputError, PlannerError
from planner.search.record import RESULT_COLUMNS, Cell, blank, formula_like
from planner.writing import check_target, whole_file

MAX_FILE_BYTES = 32 << 20
MAX_UNPACKED_BYTES = 256 << 20
SHEET = "Scenarios"
"""Sheet that holds the table; the first sheet where there is none of this name."""
HEADER_ROWS = 50
"""Rows searched for the header: the first one with a cell ``model``."""
Answer = Callable[[Mapping[str, Any]], Mapping[str, Cell]]


def fill_table(source: Path, target: Path, answer: Answer, foreign: Foreign, note: Note) -> Counts:
    """Reads the table of ``source``, answers every row and writes ``target``; returns how the rows went.

    ``answer`` gives the result columns of a row; ``foreign`` says which columns, each given with its place, are left as
    they are, and refuses others; ``note`` hears of each row. Result columns stand right of the table, or where columns
    of these names already are. Rows without a single input are passed over. Raises InputError for a file that is no
    workbook, too large, or without a table.
    """
    openpyxl = _openpyxl()
    _check_file(source)
    check_target(target)
    try:
        book = openpyxl.load_workbook(source)
        # Cells that are formulas are read by the value that the spreadsheet program stored beside them.
        values = openpyxl.load_workbook(source, data_only=True)
    except Exception as error:
        raise InputError("file", source.name, f"an Excel workbook ({type(error).__name__})") from None
    name = SHEET if SHEET in book.sheetnames else book.sheetnames[0]
    sheet, read = book[name], values[name]
    top, columns = _header(read, source)
    letter = openpyxl.utils.get_column_letter
    left = set(foreign([(f"column {letter(c)}", n) for c, n in columns.items() if n]))
    inputs = {c: n for c, n in columns.items() if n and n not in RESULT_COLUMNS and n not in left}
    places = {n: c for c, n in columns.items() if n in RESULT_COLUMNS}
    free = max(c for c, n in columns.items() if n) + 1
    for result in RESULT_COLUMNS:
        if result not in places:
            places[result] = free
            sheet.cell(top, free, result)
            free += 1
    counts: dict[str, int] = {}
    rows = [r for r in range(top + 1, read.max_row + 1) if any(read.cell(r, c).value is not None for c in inputs)]
    for done, row in enumerate(rows, start=1):
        given = {n: read.cell(row, c).value for c, n in inputs.items()}
        found = _unread(sheet, row, inputs, given) or answer(given)
        for result, column in places.items():
            _write(sheet.cell(row, column), found[result])
        status = str(found["status"])
        counts[status] = counts.get(status, 0) + 1
        note(done, len(rows), status)
    _save(book, target)
    return counts


Foreign = Callable[[list[tuple[str, str]]], Sequence[str]]
Note = Callable[[int, int, str], None]
Counts = dict[str, int]


def template(target: Path, columns: Mapping[str, str], example: Mapping[str, Any]) -> None:
    """An empty table: every input column with its meaning on a second sheet, and one example row."""
    openpyxl = _openpyxl()
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = SHEET
    for i, name in enumerate(columns, start=1):
        sheet.cell(1, i, name)
        sheet.cell(2, i, example.get(name))
    words = book.create_sheet("Columns")
    words.append(("column", "meaning"))
    for name, meaning in (*columns.items(), *RESULT_COLUMNS.items()):
        words.append((name, meaning))
    _save(book, target)


def _header(sheet: Any, source: Path) -> tuple[int, dict[int, str]]:
    """Row of the header and its column names by place."""
    for row in range(1, min(sheet.max_row, HEADER_ROWS) + 1):
        names = {c: sheet.cell(row, c).value for c in range(1, sheet.max_column + 1)}
        if any(isinstance(v, str) and v.strip() == "model" for v in names.values()):
            return row, {c: "" if v is None else str(v).strip() for c, v in names.items()}
    raise InputError("file", source.name, f"a sheet with a column model in its header (first {HEADER_ROWS} rows)")


def _unread(sheet: Any, row: int, inputs: Mapping[int, str], given: Mapping[str, Any]) -> Mapping[str, Cell] | None:
    """The message for a row whose formulas were never calculated; None where every cell can be read."""
    for column, name in inputs.items():
        cell = sheet.cell(row, column)
        if cell.data_type == "f" and given[name] is None:
            text = f"{name}: the formula has no stored value; open the file in a spreadsheet program and save it once"
            return blank("error", text)
        if cell.data_type == "e":
            return blank("error", f"{name}: the cell holds the error {cell.value}")
    return None


def _write(cell: Any, value: Cell) -> None:
    """Text stays text: a cell that begins like a formula is stored as a string, with the mark of a typed quote."""
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"
        if formula_like(value):
            cell.quotePrefix = True


def _check_file(source: Path) -> None:
    if not source.is_file():
        raise InputError("file", str(source), "an Excel workbook (.xlsx) that exists")
    if source.stat().st_size > MAX_FILE_BYTES:
        raise InputError("file", source.name, f"at most {MAX_FILE_BYTES >> 20} MiB")
    try:
        with zipfile.ZipFile(source) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError):
        raise InputError("file", source.name, "an Excel workbook (.xlsx)") from None
    if unpacked > MAX_UNPACKED_BYTES:
        raise InputError("file", source.name, f"at most {MAX_UNPACKED_BYTES >> 20} MiB unpacked")


def _save(book: Any, target: Path) -> None:
    """Writes the file whole or not at all."""
    with whole_file(target) as part:
        book.save(part)


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise PlannerError("reading workbooks needs openpyxl: install the package with its [sheet] extra") from None
    return openpyxl

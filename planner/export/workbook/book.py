"""The pen: an XlsxWriter workbook in which text stays text, with the formats that every sheet uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from planner.errors import PlannerError
from planner.search.record import formula_like
from planner.writing import whole_file

NUMBER = "#,##0.00"
FORMATS: dict[str, dict[str, Any]] = {
    "title": {"bold": True, "font_size": 14},
    "head": {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"},
    "text": {"valign": "top"},
    "wrap": {"text_wrap": True, "valign": "top"},
    "note": {"italic": True, "font_color": "#57606a"},
    "whole": {"num_format": "#,##0"},
    "number": {"num_format": NUMBER},
    "money": {"num_format": "#,##0.0000"},
    "uptime": {"num_format": "0.00###### %"},
    "input": {"num_format": NUMBER, "bg_color": "#fff8c5", "border": 1},
    "quoted": {"quote_prefix": True, "valign": "top"},
}


@contextlib.contextmanager
def new_book(path: Path) -> Iterator[Book]:
    """A workbook that appears whole or not at all. Raises PlannerError where XlsxWriter is not installed."""
    try:
        import xlsxwriter
    except ImportError:
        raise PlannerError("workbooks need XlsxWriter: install the package with its [sheet] extra") from None
    with whole_file(path) as part:
        # Text is written by name of its kind, never guessed: a string is not a formula, number or link.
        options = {"strings_to_formulas": False, "strings_to_numbers": False, "strings_to_urls": False}
        book = xlsxwriter.Workbook(str(part), options)
        yield Book(book)
        book.close()


class Book:
    """Sheets and formats of one workbook."""

    def __init__(self, book: Any) -> None:
        self.xlsx = book
        self.formats = {name: book.add_format(properties) for name, properties in FORMATS.items()}

    def sheet(self, name: str) -> Sheet:
        """A new sheet."""
        return Sheet(self, self.xlsx.add_worksheet(name), name)


class Sheet:
    """One sheet; rows and columns count from 0."""

    def __init__(self, book: Book, xlsx: Any, name: str) -> None:
        self.book, self.xlsx, self.name = book, xlsx, name

    def put(self, row: int, column: int, value: Any, style: str | None = None) -> None:
        """A value: text as text (marked with a quote where it begins like a formula), numbers as numbers."""
        if value is None:
            return
        if isinstance(value, bool):
            self.xlsx.write_string(row, column, "yes" if value else "no", self._style(style or "text"))
        elif isinstance(value, int | float):
            self.xlsx.write_number(row, column, value, self._style(style or "number"))
        else:
            text = str(value)
            chosen = "quoted" if formula_like(text) else style or "text"
            self.xlsx.write_string(row, column, text, self._style(chosen))

    def enter(self, row: int, column: int, value: float | None) -> None:
        """A yellow cell: a number to change, or nothing yet."""
        if value is None:
            self.xlsx.write_blank(row, column, None, self._style("input"))
        else:
            self.put(row, column, value, "input")

    def formula(self, row: int, column: int, formula: str, value: Any, style: str = "number") -> None:
        """A live formula with the value it has now."""
        self.xlsx.write_formula(row, column, formula, self._style(style), "" if value is None else value)

    def line(self, row: int, values: Sequence[Any], style: str | None = None) -> None:
        """Values side by side from the first column."""
        self.line_from(row, 0, values, style)

    def line_from(self, row: int, first: int, values: Sequence[Any], style: str | None = None) -> None:
        """Values side by side from column ``first``."""
        for column, value in enumerate(values, start=first):
            self.put(row, column, value, style)

    def widths(self, *widths: float) -> None:
        """Column widths from the left."""
        for column, width in enumerate(widths):
            self.xlsx.set_column(column, column, width)

    def _style(self, name: str) -> Any:
        return self.book.formats[name]


def cell(row: int, column: int) -> str:
    """``$B$3`` for row 2, column 1."""
    letters, rest = "", column + 1
    while rest:
        rest, digit = divmod(rest - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return f"${letters}${row + 1}"

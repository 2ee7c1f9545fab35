"""Small tables that wrap to the width of a phone, so that no cell is cut off, and copy into a spreadsheet."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from planner.ui.numbers import NONE, count, sig
from planner.ui.text import plain

_UNIT = re.compile(r"(?<=×) (?=\d)|(?<=\d) (?=(?:%|µs|ms|s|min|h|GiB|MiB|KiB|kW|W|J)(?![^\W\d_]))")
"""The space between a number and a unit of the planner's, or the sign that makes it a factor."""


def table(columns: Mapping[str, Sequence[Any]], *, alt: str | None = None, markdown: Collection[str] = ()) -> None:
    """``columns`` maps headers to cells (text, numbers, None), all of a length. Whole numbers are shown with
    thousands set apart, others to three significant digits, right-aligned; None as a dash. Text is literal but in the
    columns of ``markdown``.
    """
    frame = pd.DataFrame({plain(name): _column(cells, name in markdown) for name, cells in columns.items()})
    numbers: list[Hashable] = list(frame.select_dtypes("number").columns)
    whole: list[Hashable] = [name for name in numbers if isinstance(frame[name].dtype, pd.Int64Dtype)]
    style = frame.style.format(_whole, subset=whole, na_rep=NONE)
    style = style.format(_digits, subset=[name for name in numbers if name not in whole], na_rep=NONE)
    st.table(style, hide_index=True, alt=alt)


def _together(cell: str) -> str:
    """A number and its unit stay on one line."""
    return _UNIT.sub("\N{NO-BREAK SPACE}", cell)


def _whole(value: Any) -> str:
    return count(int(value))


def _digits(value: Any) -> str:
    return sig(float(value))


def _column(cells: Sequence[Any], markdown: bool) -> Any:
    known = [c for c in cells if c is not None]
    if known and all(isinstance(c, int) for c in known):
        return pd.Series(list(cells), dtype="Int64")
    if all(isinstance(c, int | float) for c in known):
        return pd.Series([float("nan") if c is None else float(c) for c in cells], dtype=float)
    return pd.Series([NONE if c is None else str(c) if markdown else _together(plain(c)) for c in cells], dtype=object)

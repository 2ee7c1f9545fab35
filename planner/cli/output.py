"""What commands print: one JSON document, or tables for people."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.units import spaced
from planner.writing import write_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 160
"""Columns of a table that is not shown in a terminal."""


def print_json(document: Any) -> None:
    """One JSON document on standard output; numbers that JSON cannot hold (NaN, infinity) are null."""
    print(json.dumps(_finite(document), ensure_ascii=False, indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def log(text: str) -> None:
    """A line on standard error."""
    print(spaced(text), file=sys.stderr)


def console() -> Console:
    """Where tables and sentences for people go; percentages are written one way."""
    from rich.console import Console
    from rich.text import Text

    class People(Console):
        def render_str(self, text: str, **options: Any) -> Text:  # every string that is printed, cells included
            return super().render_str(spaced(text), **options)

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return People(highlight=False, width=width, soft_wrap=False)


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1) -> Table:
    """A table whose first ``text`` columns are words (left) and the others numbers (right)."""
    from rich import box
    from rich.table import Table

    out = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for i, name in enumerate(columns):
        out.add_column(name, justify="left" if i < text else "right", overflow="fold")
    for row in rows:
        out.add_row(*row)
    return out


def write_text(path: Path, text: str, field: str = "--out") -> None:
    """:func:`planner.writing.write_bytes` of ``text`` in UTF-8."""
    write_bytes(path, text.encode("utf-8"), field)

"""What commands print: one JSON document, or tables for people; files appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import InputError

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
    print(text, file=sys.stderr)


def console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(highlight=False, width=width, soft_wrap=False)


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


def write_text(path: Path, text: str) -> None:
    """:func:`write_bytes` of ``text`` in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all: a temporary file beside it takes its place at the end."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InputError("--out", str(path), "a path in a folder that exists")
    if path.is_dir():
        raise InputError("--out", str(path), "a file, not a folder")
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise InputError("--out", str(path), f"a folder that can be written ({error.strerror})") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

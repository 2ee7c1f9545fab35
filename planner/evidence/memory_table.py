"""Reading memory tables: CSV rows in the columns of ``measured/memory_runs.csv``."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from planner.errors import InputError

COLUMNS = ("model", "gpu", "weights_gib", "available_kv_gib", "kv_cache_tokens")
"""Columns that tell a memory table from other measured tables."""


def is_memory_table(columns: Iterable[str]) -> bool:
    """Whether a table's columns are those of memory runs."""
    return set(COLUMNS) <= set(columns)


def read_rows(path: Path | str) -> list[dict[str, str]]:
    """Rows of a CSV file. Raises InputError where it cannot be read."""
    try:
        with open(path, newline="", encoding="utf-8") as handle:
            return list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("file", str(path), f"a CSV file: {error}") from None


def number(row: Mapping[str, str], key: str) -> float | None:
    """The number in a column; None where it is empty or missing. Raises InputError where it is something else."""
    text = (row.get(key) or "").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(key, text, "a number") from None

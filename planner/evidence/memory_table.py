"""Reading memory tables: CSV rows in the columns of ``measured/memory_runs.csv``."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from planner.errors import InputError
from planner.evidence.runs import MOST_RANKS, once

COLUMNS = ("model", "gpu", "weights_gib", "available_kv_gib", "kv_cache_tokens")
"""Columns that tell a memory table from other measured tables."""
MOST = 1e12
"""Beyond it a number is a slip or another unit."""
SHARES = frozenset({"gpu_memory_utilization"})
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")
WORDS = {
    "failed": (*TRUE, *FALSE),
    "enforce_eager": (*TRUE, *FALSE),
    "dtype": ("auto", "bfloat16", "bf16", "float16", "fp16", "half", "float32", "fp32", "float"),
}
"""Columns of words -> what they may say, beside an empty cell."""
UNSTATED_MEMORY = ("gpu_mem_gib", "inf")
"""Cell of a run whose memory is not stated: only what does not depend on it is compared."""


def is_memory_table(columns: Iterable[str]) -> bool:
    """Whether a table's columns are those of memory runs."""
    return set(COLUMNS) <= set(columns)


def read_rows(path: Path | str) -> list[dict[str, str]]:
    """Rows of a CSV file. Raises InputError where it cannot be read, or a column is there twice."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            once([name.strip() for name in reader.fieldnames or ()], Path(path).name)
            return list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("file", str(path), f"a CSV file: {error}") from None


def check_words(row: Mapping[str, str]) -> None:
    """Raises InputError for a cell of :data:`WORDS` that says something else."""
    for name, allowed in WORDS.items():
        given = (row.get(name) or "").strip()
        if given and given.lower() not in allowed:
            raise InputError(name, given, f"{', '.join(allowed)} or an empty cell")


def number(row: Mapping[str, str], key: str) -> float | None:
    """The number in a column; None where it is empty or missing. Raises InputError for anything else."""
    text = (row.get(key) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= MOST and (key, text) != UNSTATED_MEMORY:
        raise InputError(key, text, f"a number of at most {MOST:,.0f}, or an empty cell")
    return value


def setting(row: Mapping[str, str], key: str) -> float | None:
    """The number above 0 in a column; None where it is empty or missing. Raises InputError for anything else."""
    value, most = number(row, key), 1.0 if key in SHARES else math.inf
    if value is not None and not 0 < value <= most:
        allowed = "a number above 0, at most 1," if key in SHARES else "a number above 0"
        raise InputError(key, row[key], f"{allowed} or an empty cell")
    return value


def ranks(row: Mapping[str, str], key: str) -> int:
    """The whole number of ranks in a column, 1 where it is empty or missing. Raises InputError for anything else."""
    value = number(row, key)
    if value is None:
        return 1
    if not 1 <= value <= MOST_RANKS or not value.is_integer():
        raise InputError(key, row[key], f"a whole number from 1 to {MOST_RANKS:,}")
    return int(value)

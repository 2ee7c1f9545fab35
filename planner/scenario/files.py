"""Files that a scenario names: lengths, traces, model configurations, all beside the scenario and never
outside its folder.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, UnknownNameError
from planner.scenario.base import MAX_RATE_RPS, MIN_RATE_RPS
from planner.units import MICROSECOND, MILLISECOND

MAX_FILE_BYTES = 512 << 20
_SECONDS = {"s": 1.0, "ms": MILLISECOND, "us": MICROSECOND, "ns": 1e-9}


def inside(folder: Path | None, name: str, field: str) -> Path:
    """The existing file ``name`` in ``folder``; raises InputError where it is missing or lies outside the
    folder.
    """
    if folder is None:
        raise InputError(field, name, "a file needs a scenario that is read from a folder")
    root = folder.resolve()
    path = (root / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(root):
        raise InputError(field, name, "a path relative to the scenario's folder that does not leave it")
    if not path.is_file():
        raise InputError(field, name, "a file beside the scenario; there is none of this name")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InputError(field, name, f"a file of at most {MAX_FILE_BYTES >> 20} MiB")
    return path


def read_column(path: Path, column: str, field: str) -> list[Any]:
    """Column ``column`` of a CSV file (with a header) or key ``column`` of a JSONL file, row by row."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".jsonl"):
        raise InputError(f"{field}.file", path.name, "a file that ends in .csv or .jsonl")
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            rows = list(_csv(handle, column, field) if suffix == ".csv" else _jsonl(handle, column, field))
    except UnicodeDecodeError:
        raise InputError(f"{field}.file", path.name, "UTF-8 text") from None
    if not rows:
        raise InputError(f"{field}.file", path.name, "a file with at least one row")
    return rows


def _csv(handle: Any, column: str, field: str) -> Iterator[Any]:
    reader = csv.DictReader(handle)
    names = reader.fieldnames or []
    if column not in names:
        raise UnknownNameError(f"{field}.column", column, names)
    return (row[column] for row in reader)


def _jsonl(handle: Any, column: str, field: str) -> Iterator[Any]:
    for number, line in enumerate(handle, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{field}.file", f"line {number}", "one JSON object a line") from None
        if not isinstance(row, dict):
            raise InputError(f"{field}.file", f"line {number}", "one JSON object a line")
        if column not in row:
            raise UnknownNameError(f"{field}.column", column, [str(k) for k in row])
        yield row[column]


def lengths(path: Path, column: str, field: str) -> NDArray[np.int64]:
    """Lengths in tokens; every row must hold a whole number of at least 1."""
    out = []
    for row, value in enumerate(read_column(path, column, field), start=1):
        number = _number(value)
        if number is None or number != int(number) or not 1 <= number <= 1e8:
            raise InputError(
                f"{field}.column", f"{column} = {value} in row {row}", "whole numbers of tokens from 1 to 100,000,000"
            )
        out.append(int(number))
    return np.asarray(out, dtype=np.int64)


def arrivals(path: Path, column: str, unit: str, field: str) -> tuple[float, float]:
    """(mean rate in requests/s, coefficient of variation of the gaps) of the arrival times in a file.

    Times are sorted first, as logs are often written on completion. The rate is gaps over time span.
    """
    times = []
    for row, value in enumerate(read_column(path, column, field), start=1):
        seconds = _date_seconds(value) if unit == "iso8601" else _scaled(value, _SECONDS[unit])
        if seconds is None:
            wanted = "an ISO 8601 date-time" if unit == "iso8601" else f"a number of {unit}"
            raise InputError(f"{field}.column", f"{column} = {value} in row {row}", wanted)
        times.append(seconds)
    at = np.sort(np.asarray(times, dtype=float))
    if at.size < 3 or not at[-1] > at[0]:
        raise InputError(f"{field}.file", path.name, "at least three arrivals that are not all at one time")
    gaps = np.diff(at)
    rate = float(gaps.size / (at[-1] - at[0]))
    if not MIN_RATE_RPS <= rate <= MAX_RATE_RPS:
        allowed = f"a unit that makes {MIN_RATE_RPS:g} to {MAX_RATE_RPS:,.0f} requests/s of these times, not {rate:.3g}"
        raise InputError(f"{field}.unit", unit, allowed)
    return rate, float(gaps.std() / gaps.mean())


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def _scaled(value: Any, seconds: float) -> float | None:
    number = _number(value)
    return None if number is None else number * seconds


def _date_seconds(value: Any) -> float | None:
    """Seconds of a date-time; digits beyond microseconds are dropped (some traces write seven)."""
    text = str(value).strip()
    head, dot, tail = text.partition(".")
    if dot:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[: min(digits, 6)].ljust(6, '0')}{tail[digits:]}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    return (moment - epoch).total_seconds()

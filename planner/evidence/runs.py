"""End-to-end serving runs as columns: measured/e2e_runs.csv, or a user's own CSV with the same names.

A cell that means nothing (a word for a number, half a GPU, nothing in flight) costs its own row and no other: the row
stays, with the reason.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError

IntArray = NDArray[np.int64]
Array = NDArray[np.float64]

TEXT = (
    "run_id",
    "model",
    "gpu",
    "engine",
    "engine_version",
    "bench",
    "serving",
    "linear_precision",
    "moe_precision",
    "kv_precision",
    "speculative",
)
SERVING = ("agg", "disagg")
LAYOUT = ("tp", "pp", "attention_dp", "moe_tp", "ep")
POOL = tuple(f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("workers", *LAYOUT))
LOAD = ("input_tokens", "output_tokens", "concurrency")
MEASURED = ("ttft_ms", "tpot_ms", "output_tokens_per_s")
NUMBERS = (*LOAD, *LAYOUT, *POOL, *MEASURED)
REQUIRED = ("model", "gpu", "engine", "input_tokens", "output_tokens", "concurrency")
"""Without these columns a table is not one of end-to-end runs; one of MEASURED must be there as well."""
MOST_RANKS = 1_000_000
MOST = {"input_tokens": 1e8, "output_tokens": 1e8, "concurrency": 1e7} | dict.fromkeys(MEASURED, 1e12)
"""Largest values that a row may state; more is another unit, or a slip."""
WIDTH = "width"
"""Stands for a column where a row has more cells than the header."""


@dataclass(frozen=True)
class Runs:
    """Columns of shape (n,): text as lists of strings, numbers as float64 with NaN where missing or meaningless."""

    text: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Array]
    problems: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By row and column, what is wrong with a cell."""
    assumptions: Sequence[str] = ()
    """What stands for cells that the table leaves empty."""

    def __len__(self) -> int:
        return len(self.text["model"])

    def __getitem__(self, name: str) -> Array:
        return self.numbers[name]

    def take(self, rows: Iterable[int]) -> Runs:
        """The runs at positions ``rows``."""
        index = np.asarray(list(rows), dtype=np.int64)
        text = {name: [column[i] for i in index] for name, column in self.text.items()}
        numbers = {name: column[index] for name, column in self.numbers.items()}
        problems = {new: self.problems[int(old)] for new, old in enumerate(index) if int(old) in self.problems}
        return Runs(text, numbers, problems, self.assumptions)

    def problem(self, row: int) -> str:
        """What is wrong with the cells of run ``row`` that its serving mode uses; empty where nothing is."""
        found = self.problems.get(row, {})
        return "; ".join(found[name] for name in used_columns(self.text["serving"][row]) if name in found)

    def identity(self, row: int) -> dict[str, str]:
        """What run ``row`` was a run of, for messages and hover text."""
        return {name: column[row] for name, column in self.text.items()}


def is_end_to_end(columns: Iterable[str]) -> bool:
    """Whether a table with these columns holds end-to-end runs."""
    names = set(columns)
    return names.issuperset(REQUIRED) and not names.isdisjoint(MEASURED)


def read_runs(path: Path) -> Runs:
    """Runs of a CSV file; unknown columns are ignored, missing cells become NaN or ''.

    Raises InputError where the columns are not those of runs, or one of them is there twice.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            once(columns, path.name)
            if not is_end_to_end(columns):
                raise InputError(path.name, sorted(columns), f"needs columns {', '.join(REQUIRED)}")
            return runs_from_rows(list(reader))
    except UnicodeDecodeError as error:
        raise InputError(path.name, str(error), "a CSV file in UTF-8") from None
    except csv.Error as error:
        raise InputError(path.name, str(error), f"cells of at most {csv.field_size_limit():,} characters") from None


def once(columns: Sequence[str], where: str) -> None:
    """Raises InputError where a column that has a name is there twice: which one counts would be a guess."""
    twice = [name for name, count in Counter(columns).items() if name and count > 1]
    if twice:
        raise InputError(f"{where} header", ", ".join(twice), "every column once")


def used_columns(serving: str) -> tuple[str, ...]:
    """Where problems of a run of a serving mode lie: its width, and the numbers it is predicted and compared by."""
    return (WIDTH, *LOAD, *(POOL if serving == "disagg" else LAYOUT), *MEASURED)


def runs_from_rows(rows: Sequence[Mapping[str, str | float | None]]) -> Runs:
    """Runs from mappings of column to cell."""
    text = {name: [_text(row.get(name)) for row in rows] for name in TEXT}
    text["run_id"] = [given or str(i) for i, given in enumerate(text["run_id"], start=1)]
    assumptions: list[str] = []
    for name, usual in (("serving", "agg"), ("speculative", "none")):
        if empty := text[name].count(""):
            assumptions.append(f"{name} taken as {usual} in {empty} of {len(rows)} rows that do not say")
            text[name] = [given or usual for given in text[name]]
    precisions = zip(text["linear_precision"], text["moe_precision"], strict=True)
    if unsaid := sum(not (linear or moe) for linear, moe in precisions):
        assumptions.append(f"precision taken as the checkpoint's in {unsaid} of {len(rows)} rows that do not say")
    text["gpu"] = [name.lower() for name in text["gpu"]]
    problems: dict[int, dict[str, str]] = {}
    numbers = {name: np.full(len(rows), np.nan) for name in NUMBERS}
    for i, row in enumerate(rows):
        if beyond := row.get(None):  # type: ignore[call-overload]  # where csv.DictReader puts them
            problems[i] = {WIDTH: f"cells beyond the last column: {beyond!r}"}
        for name in NUMBERS:
            value, problem = number_cell(name, row.get(name))
            numbers[name][i] = value
            if problem:
                problems.setdefault(i, {})[name] = problem
    for name in MEASURED:
        if words := sum(_text(row.get(name)).lower() == "nan" for row in rows):
            assumptions.append(f"{name}: nan in {words} of {len(rows)} rows, read as not measured")
    alone = (numbers["output_tokens"] <= 1.0) & np.isfinite(numbers["tpot_ms"])
    if alone.any():
        numbers["tpot_ms"][alone] = np.nan
        told = f"tpot_ms left out in {alone.sum()} of {len(rows)} rows"
        assumptions.append(f"{told}: with one output token there is no time per token after the first")
    return Runs(text, numbers, problems, tuple(assumptions))


def _text(cell: str | float | None) -> str:
    return "" if cell is None else str(cell).strip()


def number_cell(name: str, cell: str | float | None) -> tuple[float, str]:
    """The number in a cell of column ``name`` (NaN where there is none), and what is wrong with the cell."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return math.nan, ""
    whole = name in LAYOUT or name in POOL
    most = MOST_RANKS if whole else MOST[name]
    allowed = f"a whole number from 1 to {most:,}" if whole else f"a number above 0, at most {most:,.0f}"
    try:
        value = float(cell)
    except ValueError:
        return math.nan, f"{name}: got {cell!r}; {allowed}"
    if math.isnan(value):
        return math.nan, ""
    if not 0 < value <= most or (whole and value != int(value)):
        return math.nan, f"{name}: got {cell!r}; {allowed}"
    return value, ""

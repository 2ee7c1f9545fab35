"""End-to-end serving runs as columns: measured/e2e_runs.csv, or a user's own CSV with the same names."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    "speculative",
)
LAYOUT = ("tp", "pp", "attention_dp", "moe_tp", "ep")
POOL = tuple(f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("workers", *LAYOUT))
NUMBERS = ("input_tokens", "output_tokens", "concurrency", *LAYOUT, *POOL, "ttft_ms", "tpot_ms")
REQUIRED = ("model", "gpu", "engine", "input_tokens", "output_tokens", "concurrency")
"""Without these columns a table is not one of end-to-end runs; ttft_ms or tpot_ms must be there as well."""


@dataclass(frozen=True)
class Runs:
    """Columns of shape (n,): text as lists of strings, numbers as float64 with NaN where missing."""

    text: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.text["model"])

    def __getitem__(self, name: str) -> Array:
        return self.numbers[name]

    def take(self, rows: Iterable[int]) -> Runs:
        """The runs at positions ``rows``."""
        index = np.asarray(list(rows), dtype=np.int64)
        text = {name: [column[i] for i in index] for name, column in self.text.items()}
        return Runs(text, {name: column[index] for name, column in self.numbers.items()})

    def identity(self, row: int) -> dict[str, str]:
        """What run ``row`` was a run of, for messages and hover text."""
        return {name: column[row] for name, column in self.text.items()}


def is_end_to_end(columns: Iterable[str]) -> bool:
    """Whether a table with these columns holds end-to-end runs."""
    names = set(columns)
    return names.issuperset(REQUIRED) and bool(names & {"ttft_ms", "tpot_ms"})


def read_runs(path: Path) -> Runs:
    """Runs of a CSV file; unknown columns are ignored, missing cells become NaN or ''.

    Raises InputError naming row and column where a cell is not a number.
    """
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not is_end_to_end(reader.fieldnames or ()):
            raise InputError(str(path.name), sorted(reader.fieldnames or ()), f"needs columns {', '.join(REQUIRED)}")
        return runs_from_rows(list(reader), path.name)


def runs_from_rows(rows: Sequence[Mapping[str, str | float | None]], where: str) -> Runs:
    """Runs from mappings of column to cell."""
    text = {name: [_text(row.get(name)) for row in rows] for name in TEXT}
    text["run_id"] = [given or str(i) for i, given in enumerate(text["run_id"], start=1)]
    text["serving"] = [given or "agg" for given in text["serving"]]
    text["speculative"] = [given or "none" for given in text["speculative"]]
    numbers = {
        name: np.array([_number(row.get(name), f"{where} row {i} {name}") for i, row in enumerate(rows, start=1)])
        for name in NUMBERS
    }
    return Runs(text, numbers)


def _text(cell: str | float | None) -> str:
    return "" if cell is None else str(cell).strip()


def _number(cell: str | float | None, where: str) -> float:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        raise InputError(where, cell, "a number or an empty cell") from None

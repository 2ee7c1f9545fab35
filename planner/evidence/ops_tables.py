"""Operator tables under ``measured/ops``: one gzipped CSV a table, read into columns."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError

KEYS = ("gpu", "engine", "engine_version", "kernel_source")


@dataclass(frozen=True)
class Table:
    """Columns of equal length: floats where every cell is a number, else strings."""

    name: str
    columns: Mapping[str, NDArray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> NDArray:
        return self.columns[column]

    def number(self, column: str, default: float | None = None) -> NDArray[np.float64]:
        """A numeric column; ``default`` where the table has no such column."""
        if column not in self.columns and default is not None:
            return np.full(len(self), default)
        return np.asarray(self.columns[column], dtype=np.float64)

    def where(self, mask: NDArray[np.bool_]) -> Table:
        """The rows of ``mask``."""
        return Table(self.name, {k: v[mask] for k, v in self.columns.items()})

    def groups(self, *names: str) -> Iterator[tuple[tuple[str, ...], Table]]:
        """Rows by distinct values of string columns, in sorted order."""
        keys = np.array(["\x1f".join(map(str, row)) for row in zip(*(self.columns[n] for n in names), strict=True)])
        for key in np.unique(keys):
            yield tuple(key.split("\x1f")), self.where(keys == key)


def read_table(directory: Path, name: str) -> Table:
    """``measured/ops/<name>.csv.gz`` under ``directory``; raises :class:`InputError` where it is missing."""
    path = directory / "ops" / f"{name}.csv.gz"
    if not path.exists():
        raise InputError(f"operator table {path.name}", str(path.parent), "a folder that holds it")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as f:
        reader = csv.reader(f)
        header = next(reader)
        return table_of(name, header, list(reader))


def table_of(name: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table from its lines; at least one line."""
    cells = list(zip(*rows, strict=True))
    columns = zip(header, cells, strict=True)
    return Table(name, {h: np.asarray(column) if h in KEYS else _typed(column) for h, column in columns})


def _typed(column: tuple[str, ...]) -> NDArray:
    try:
        return np.asarray(column, dtype=np.float64)
    except ValueError:
        return np.asarray(column)

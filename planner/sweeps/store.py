"""Results on disk as they come: a CSV that is appended to, so that an interrupted sweep goes on where it stopped.

A Parquet file cannot be appended to safely; its rows stream to ``NAME.parquet.partial.csv`` and become the Parquet file
at the end.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from planner.errors import InputError, PlannerError
from planner.search.record import RESULT_COLUMNS, Cell, Record, csv_cell
from planner.writing import plain_file, whole_file

KEYS = ("index", "key", "name", "model")
VERSIONS = ("planner", "catalogue", "coefficients")
COLUMNS: tuple[str, ...] = (*KEYS, *RESULT_COLUMNS, *VERSIONS)
WHOLE = {"index", "gpus", "nodes", "replicas", "prefill_workers"}
TEXT = {
    *("key", "name", "model", "status", "message", "serving_chosen", "node_chosen", "accelerator", "layout"),
    *("prefill_layout", "binding", *VERSIONS),
}
FLAG = {"extrapolated"}
SUFFIXES = (".csv", ".parquet")


class Store:
    """The file of a sweep: what it already holds, appending to it, and its final order."""

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in SUFFIXES:
            raise InputError("out", path.name, "a file that ends in .csv or .parquet")
        self.path = path = plain_file(path, "out")
        self.parquet = path.suffix.lower() == ".parquet"
        if self.parquet:
            _pyarrow()
        self.log = path.with_name(f"{path.name}.partial.csv") if self.parquet else path
        self._handle: IO[str] | None = None

    def held(self) -> dict[str, Record]:
        """Finished rows by key; rows of lost scenarios, and a last line cut short, do not count."""
        rows = _read_parquet(self.path) if self.parquet and self.path.is_file() else []
        if self.log.is_file():
            rows = [*rows, *_read_csv(self.log)]
        return {str(r["key"]): r for r in rows if r["status"] != "lost"}

    def append(self, row: Record) -> None:
        """Writes one row through to the disk."""
        if self._handle is None:
            if self.log.is_file() and self.log.stat().st_size:
                _cut_partial_line(self.log)
            fresh = not self.log.is_file() or not self.log.stat().st_size
            self._handle = self.log.open("a", encoding="utf-8", newline="")
            if fresh:
                self._handle.write(_line(COLUMNS))
        self._handle.write(_line([_plain(row[c]) for c in COLUMNS]))
        self._handle.flush()

    def close(self) -> None:
        """Closes the log; what was appended stays."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def finish(self, rows: Sequence[Record]) -> None:
        """Replaces the log by the whole table in order, whole or not at all."""
        self.close()
        with whole_file(self.path, "out") as part:
            if self.parquet:
                _write_parquet(part, rows)
            else:
                with part.open("w", encoding="utf-8", newline="") as handle:
                    handle.write(_line(COLUMNS))
                    handle.writelines(_line([_plain(r[c]) for c in COLUMNS]) for r in rows)
        if self.parquet:
            self.log.unlink(missing_ok=True)


def _plain(value: Cell) -> Any:
    """A cell of the CSV: floats exactly, no line breaks, text that would run as a formula with an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return csv_cell(" ".join(value.split()) if isinstance(value, str) else value)


def _line(values: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(list(values))
    return out.getvalue()


def _cut_partial_line(path: Path) -> None:
    """Drops a last line without its end, which an interruption left."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


def _read_csv(path: Path) -> list[Record]:
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    reader = csv.DictReader(io.StringIO(complete))
    if reader.fieldnames is None:
        return []
    if tuple(reader.fieldnames) != COLUMNS:
        raise InputError("out", path.name, "a file of this sweep, or a name that is not taken")
    return [{c: _typed(c, row[c]) for c in COLUMNS} for row in reader if None not in row.values()]


def _typed(column: str, text: str) -> Cell:
    if text == "":
        return None
    if column in TEXT:
        return text[1:] if text[:1] == "'" and csv_cell(text[1:]) != text[1:] else text
    if column in FLAG:
        return text == "true"
    return int(text) if column in WHOLE else float(text)


def _write_parquet(path: Path, rows: Sequence[Record]) -> None:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    kinds = {True: pa.int64(), False: pa.float64()}
    fields = [
        pa.field(c, pa.string() if c in TEXT else pa.bool_() if c in FLAG else kinds[c in WHOLE]) for c in COLUMNS
    ]
    pq.write_table(pa.Table.from_pylist([dict(r) for r in rows], schema=pa.schema(fields)), path)


def _read_parquet(path: Path) -> list[Record]:
    _pyarrow()
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if tuple(table.column_names) != COLUMNS:
        raise InputError("out", path.name, "a file of this sweep, or a name that is not taken")
    rows: list[Record] = table.to_pylist()
    return rows


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise PlannerError("Parquet needs pyarrow: install it, or give a file that ends in .csv") from None
    return pyarrow

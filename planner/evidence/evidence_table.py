"""The runs behind the coefficients with their predictions: live from ``measured/`` where it is there, else as shipped.

``planner calibrate evidence`` writes the shipped files (``hardware_db/efficiency/evidence_runs.csv.gz`` and
``evidence_memory.csv.gz``) from ``measured/`` with the coefficients in force. Run it after any other calibration.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.catalog.loader import Catalog, data_root
from planner.errors import InputError
from planner.evidence.e2e_keys import distance_classes, layout_text
from planner.evidence.e2e_validate import METRICS, Report, validate_e2e
from planner.evidence.intervals import Interval, intervals
from planner.evidence.memory_table import read_rows
from planner.evidence.memory_validate import METRICS as MEMORY_METRICS
from planner.evidence.memory_validate import RowPrediction, predict_rows
from planner.evidence.runs import NUMBERS, TEXT, Runs, read_runs, runs_from_rows

Array = NDArray[np.float64]

RUNS_FILE, MEMORY_FILE = "evidence_runs.csv.gz", "evidence_memory.csv.gz"
MEASURED_RUNS, MEASURED_MEMORY = "e2e_runs.csv", "memory_runs.csv"
_DIGITS = 5
"""Significant digits of a stored prediction."""


@dataclass(frozen=True)
class EvidenceTable:
    """Measured end-to-end runs (n,) with predictions by metric (ttft_ms, tpot_ms), NaN where there is none."""

    runs: Runs
    predicted: Mapping[str, Array]
    reasons: Sequence[str]
    """Why a run has no prediction; empty where it has one."""
    live: bool
    """Predicted now from ``measured/``; else read from the shipped file."""

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def distances(self) -> list[str]:
        """Distance class of each run to what the coefficients were fitted on."""
        return distance_classes(self.runs)

    @cached_property
    def bands(self) -> dict[str, Interval]:
        """Intervals of the predictions by metric."""
        gpus = self.runs.text["gpu"]
        return {
            m: intervals(self.distances, m.removesuffix("_ms"), self.predicted[m], accelerators=gpus) for m in METRICS
        }

    @cached_property
    def report(self) -> Report:
        """Errors of selections of the runs."""
        return Report(self.runs, self.predicted, self.bands)

    @cached_property
    def comparable(self) -> NDArray[np.bool_]:
        """Runs whose speculative decoding is known to be off: those that errors are stated over."""
        return np.array([s == "none" for s in self.runs.text["speculative"]], dtype=bool)

    @cached_property
    def layouts(self) -> list[str]:
        """Layout of each run as the evidence spells it."""
        return [layout_text(self.runs, i) for i in range(len(self))]


def evidence_table(catalog: Catalog, measured: Path | None = None) -> EvidenceTable:
    """The runs in ``measured`` (default: beside the data of this installation) predicted now, else the shipped table.

    Raises InputError where neither is there.
    """
    folder = measured or data_root() / "measured"
    if (folder / MEASURED_RUNS).is_file():
        return _predicted(read_runs(folder / MEASURED_RUNS), catalog)
    return read_evidence(data_root() / "hardware_db" / "efficiency" / RUNS_FILE)


def _predicted(runs: Runs, catalog: Catalog) -> EvidenceTable:
    rows = validate_e2e(runs, catalog)["predictions"]
    predicted = {m: np.array([_number(row[f"predicted_{m}"]) for row in rows]) for m in METRICS}
    return EvidenceTable(runs, predicted, [row["reason"] for row in rows], True)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def read_evidence(path: Path) -> EvidenceTable:
    """A table as :func:`write_evidence` stores it."""
    rows = _read(path)
    runs = runs_from_rows(rows)
    predicted = {m: np.array([float(row[f"predicted_{m}"] or "nan") for row in rows]) for m in METRICS}
    return EvidenceTable(runs, predicted, [row["reason"] for row in rows], False)


def memory_evidence(catalog: Catalog, measured: Path | None = None) -> list[RowPrediction]:
    """Measured start-up memory with its predictions, live or as shipped; raises InputError where neither is there."""
    folder = measured or data_root() / "measured"
    if (folder / MEASURED_MEMORY).is_file():
        return predict_rows(read_rows(folder / MEASURED_MEMORY), catalog)
    path = data_root() / "hardware_db" / "efficiency" / MEMORY_FILE
    return [_memory_row(row) for row in _read(path)]


def write_evidence(measured: Path, out: Path, catalog: Catalog) -> list[Path]:
    """Both shipped files from the profiles in ``measured``, written into ``out``; equal input gives equal bytes."""
    table = evidence_table(catalog, measured)
    names = [*TEXT, *(n for n in NUMBERS if np.isfinite(table.runs[n]).any())]
    header = [*names, *(f"predicted_{m}" for m in METRICS), "reason"]
    lines = [
        [
            *(table.runs.text[n][i] if n in TEXT else _cell(table.runs[n][i]) for n in names),
            *(_cell(table.predicted[m][i], _DIGITS) for m in METRICS),
            table.reasons[i],
        ]
        for i in range(len(table))
    ]
    memory = [_memory_cells(row) for row in memory_evidence(catalog, measured)]
    return [
        _write(out / RUNS_FILE, header, lines),
        _write(out / MEMORY_FILE, list(memory[0]), [list(row.values()) for row in memory]),
    ]


_PLAIN = tuple(f.name for f in fields(RowPrediction) if f.name not in ("measured", "predicted", "fits", "detail"))


def _memory_cells(row: RowPrediction) -> dict[str, str]:
    plain = {name: _plain(getattr(row, name)) for name in _PLAIN}
    numbers = {
        f"{side}_{metric}": _cell(getattr(row, side).get(metric, float("nan")), _DIGITS)
        for metric in MEMORY_METRICS
        for side in ("measured", "predicted")
    }
    return plain | {"fits": "" if row.fits is None else _plain(row.fits)} | numbers


def _memory_row(row: Mapping[str, str]) -> RowPrediction:
    out = RowPrediction(row["run_id"], row["model"], row["engine_version"] or None, row["layout"], row["kind"])
    for side in ("measured", "predicted"):
        found = {m: row.get(f"{side}_{m}", "") for m in MEMORY_METRICS}
        getattr(out, side).update({m: float(v) for m, v in found.items() if v})
    out.fits = None if not row["fits"] else row["fits"] == "true"
    out.failed, out.memory_failure = row["failed"] == "true", row["memory_failure"] == "true"
    out.failure_reason, out.reason = row["failure_reason"], row["reason"]
    out.gpu, out.note = row["gpu"], row["note"]
    return out


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _cell(value: float, digits: int = 12) -> str:
    return f"{value:.{digits}g}" if np.isfinite(value) else ""


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    # No name and no time inside: equal tables are equal files.
    path.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0))
    return path


def _read(path: Path) -> list[dict[str, str]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise InputError(path.name, "missing", "run `planner calibrate evidence` where measured/ is") from None

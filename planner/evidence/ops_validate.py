"""Operator profiles against the curves: every measured latency beside the time that a plan would take for it.

A table is told by its columns; which of two it is (context or generation, experts behind a dispatch or not) by the name
of its file, else by its values. Formats: ``OP.GPU.ENGINE.csv`` as their source writes them, and ``measured/ops``.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Catalog
from planner.errors import LISTED_BY, InputError, PlannerError, UnknownNameError
from planner.evidence.ops_samples import CACHE_TYPES, GEMM_TYPES, MOE_TYPES, SOURCES, Sample, samples_of
from planner.evidence.ops_tables import KEYS, Table, table_of
from planner.evidence.ops_thin import COLUMNS, cell, name_operations, usable
from planner.evidence.runs import once
from planner.hardware.curves import CurveSet, curves
from planner.hardware.device import device
from planner.roofline import operators
from planner.units import MIB, MICROSECOND

Array = NDArray[np.float64]

SIGNATURES: Mapping[str, frozenset[str]] = {
    "gemm": frozenset({"gemm_dtype", "m", "n", "k"}),
    "mla_bmm": frozenset({"bmm_dtype", "num_tokens", "num_heads"}),
    "moe": frozenset({"moe_dtype", "num_tokens", "num_experts"}),
    "wideep_deepep_ll": frozenset({"dispatch_avg_t_us"}),
    "wideep_deepep_normal": frozenset({"dispatch_transmit_us"}),
    "context_attention": frozenset({"num_key_value_heads", "kv_cache_dtype", "batch_size"}),
    "context_mla": frozenset({"num_heads", "kv_cache_dtype", "batch_size"}),
    "nccl": frozenset({"message_size", "num_gpus", "nccl_dtype"}),
    "custom_allreduce": frozenset({"message_size", "num_gpus"}),
}
"""Columns that tell a table beside gpu and engine, the first that fits counts."""
DATA_TYPES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gemm": ("gemm_dtype", GEMM_TYPES),
    "mla_bmm": ("bmm_dtype", CACHE_TYPES),
    "context_attention": ("kv_cache_dtype", CACHE_TYPES),
    "generation_attention": ("kv_cache_dtype", CACHE_TYPES),
    "context_mla": ("kv_cache_dtype", CACHE_TYPES),
    "generation_mla": ("kv_cache_dtype", CACHE_TYPES),
    **dict.fromkeys(("moe", "wideep_moe", "wideep_context_moe", "wideep_generation_moe"), ("moe_dtype", MOE_TYPES)),
}
WORDS = frozenset({*KEYS, "operation", "distribution", "attn_dtype", *(column for column, _ in DATA_TYPES.values())})
"""Columns of words; all others are numbers."""
MAX_TABLE_BYTES = 256 * MIB
LIBRARIES = ("nccl", "deepep")
LEFT_OUT = "left out as from fits"
WORST_ROWS = 10


@dataclass(frozen=True)
class OperatorFile:
    """An operator table as read: its name in the source's terms and its rows as text."""

    name: str
    rows: Sequence[Mapping[str, str]]
    problems: Mapping[int, str]
    """By row, why it cannot be compared."""


def is_operator_table(columns: Iterable[str]) -> bool:
    """Whether a table with these columns holds operator latencies."""
    names = set(columns)
    return {"gpu", "engine"} <= names and any(s <= names for s in SIGNATURES.values())


def operator_columns(path: Path) -> list[str]:
    """The header of a CSV file, gzipped or not; empty where it is no text."""
    try:
        with _open(path) as file:
            return [name.strip() for name in next(csv.reader(file), [])]
    except (OSError, UnicodeDecodeError, EOFError, csv.Error):
        return []


def read_operators(path: Path) -> OperatorFile:
    """An operator table; raises InputError where it is none, or a column is there twice."""
    with _open(path) as file:
        text = file.read(MAX_TABLE_BYTES + 1)
    if len(text) > MAX_TABLE_BYTES:
        raise InputError("file", path.name, f"a table of at most {MAX_TABLE_BYTES // MIB} MiB")
    reader = csv.DictReader(io.StringIO(text))
    columns = [name.strip() for name in reader.fieldnames or ()]
    once(columns, path.name)
    if not is_operator_table(columns):
        raise InputError(path.name, ", ".join(columns[:12]), "an operator table: gpu, engine and its own columns")
    reader.fieldnames = columns
    try:
        rows = [{key: (value or "").strip() for key, value in row.items() if key} for row in reader]
    except csv.Error as error:
        raise InputError(path.name, str(error), f"cells of at most {csv.field_size_limit():,} characters") from None
    if {"mla_dtype", "gemm_type"} <= set(columns):
        raise InputError(path.name, "gemm_type", "times of one operator; these are of a whole attention block")
    name = _name(path.name, set(columns), rows)
    missing = [c for c in COLUMNS[name] if c not in columns and c not in ("operation", "window_size")]
    if missing:
        raise InputError(path.name, ", ".join(missing), f"columns of a table {name}")
    if name == "nccl" and "operation" not in columns:
        halves = [row for row in rows if usable(name, row | {"nccl_dtype": row.get("nccl_dtype", "half")})]
        for group in _series(halves):
            name_operations(group)
    return OperatorFile(name, rows, {i: p for i, row in enumerate(rows) if (p := _problem(name, row))})


def validate_operators(file: OperatorFile, catalog: Catalog) -> dict[str, Any]:
    """The report of an operator table: kind, table, rows, predicted, failed, metrics, groups, worst, predictions.

    A dispatch table holds two times a row, and its predictions two lines. ``metrics`` has latency_us with median_ape,
    mean_ape, p90_ape, bias (median), interval80_coverage and points.
    """
    left = dict(file.problems)
    lines: list[dict[str, Any]] = []
    found = _samples(file)
    for sample in found:
        lines += _lines(sample, file, catalog, left)
    done = {line["row"] for line in lines}
    for i, row in enumerate(file.rows):
        if i not in done:
            lines.append(_identity(i, row, file.name) | {"reason": left.get(i) or _left_out(row, found)})
    lines.sort(key=lambda line: line["row"])
    predicted = [line for line in lines if not line["reason"]]
    failed = Counter(line["reason"] for line in lines if line["reason"])
    worst = sorted(
        predicted, key=lambda line: -abs(math.log(line["predicted_latency_us"] / line["measured_latency_us"]))
    )
    return {
        "kind": "operators",
        "table": file.name,
        "rows": len(lines),
        "predicted": len(predicted),
        "failed": dict(failed.most_common()),
        "metrics": _metrics(predicted),
        "groups": [
            {"group": key, "value": value, "rows": len(mine), "metrics": _metrics(mine)}
            for key in ("operator", "gpu", "engine", "curve_of")
            for value in dict.fromkeys(line[key] for line in predicted)
            for mine in ([line for line in predicted if line[key] == value],)
        ],
        "worst": worst[:WORST_ROWS],
        "predictions": lines,
    }


def _open(path: Path) -> io.TextIOWrapper:
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _name(file: str, columns: set[str], rows: Sequence[Mapping[str, str]]) -> str:
    """Which table: by the file's name where its columns are there, else by columns and values."""
    told = file.split(".")[0]
    if told in COLUMNS and set(COLUMNS[told]) - {"operation", "window_size"} <= columns:
        return told
    if "operation" in columns:
        return "nccl"
    name = next(n for n, signature in SIGNATURES.items() if signature <= columns)
    if name in ("context_attention", "context_mla"):
        steps = [row.get("step", "") for row in rows]
        if "isl" not in columns or any(s not in ("", "0") for s in steps):
            return name.replace("context", "generation")
    return name


def _series(rows: Sequence[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Rows by accelerator, as a raw file holds one."""
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(row["gpu"], []).append(row)
    return list(groups.values())


def _problem(name: str, row: Mapping[str, str]) -> str:
    """What is wrong with a row; empty where nothing is."""
    if name in DATA_TYPES:
        column, known = DATA_TYPES[name]
        if row.get(column) not in known:
            return f"{column}: got {row.get(column)!r}; {', '.join(known)}"
    for column in COLUMNS[name]:
        if column in WORDS:
            continue
        text = row.get(column) or "0"
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        timed = column == "latency" or column.endswith("avg_t_us")
        if not (0 < value < math.inf if timed else 0 <= value < math.inf):
            return f"{column}: got {text!r}; a number{' above 0' if timed else ', 0 or more'}"
    if name == "nccl" and "operation" not in row:
        return "nccl_dtype: only half is compared"
    return (
        "" if usable(name, {"nccl_dtype": "half"} | dict(row)) else f"{LEFT_OUT}: not what the engine runs by default"
    )


def _left_out(row: Mapping[str, str], found: Sequence[Sample]) -> str:
    """Why a sound row belongs to no sample of its accelerator and engine."""
    mine = [s for s in found if s.gpu == row["gpu"] and s.engine in (row["engine"], *LIBRARIES)]
    kernel = row.get("kernel_source") or "-"
    if kernel not in {name for s in mine for name in s.kernel.split(", ")}:
        return f"{LEFT_OUT}: kernel {kernel}"
    causes = dict.fromkeys(cause for s in mine for cause in s.excluded if cause != "other kernels")
    return f"{LEFT_OUT}: {', '.join(causes) or 'other kernels'}"


def _samples(file: OperatorFile) -> list[Sample]:
    """Samples of every operator that the table measures."""
    good = [i for i in range(len(file.rows)) if i not in file.problems]
    header = (*KEYS, *COLUMNS[file.name], "row")
    words = [
        (*(file.rows[i].get(k) or "-" for k in KEYS), *(cell(file.rows[i], c) for c in COLUMNS[file.name]), str(i))
        for i in good
    ]

    def read(name: str) -> Table:
        if name != file.name or not words:
            return Table(name, {column: np.zeros(0) for column in (*KEYS, *COLUMNS[name], "row")})
        return table_of(name, header, words)

    found: list[Sample] = []
    for op in SOURCES:
        if op != "send":  # all-to-all of two ranks, which is there as such
            found += [s for s in samples_of(read, op, 1) if s.seconds.size] if _measures(op, file.name) else []
    return found


def _measures(op: str, table: str) -> bool:
    """Whether an operator's times come from a table; experts behind a dispatch without a phase count as decode."""
    by_table = {
        "gemm": ("gemm",),
        "mla_bmm": ("mla_bmm",),
        "moe": ("moe",),
        "context_attention": ("prefill_attention",),
        "generation_attention": ("decode_attention",),
        "context_mla": ("prefill_mla",),
        "generation_mla": ("decode_mla",),
        "wideep_context_moe": ("moe_deepep_prefill",),
        "wideep_generation_moe": ("moe_deepep_decode",),
        "wideep_moe": ("moe_deepep_decode",),
        "custom_allreduce": ("all_reduce",),
        "nccl": ("all_reduce_nccl", "all_gather", "reduce_scatter", "all_to_all"),
        "wideep_deepep_ll": ("deepep_ll_dispatch", "deepep_ll_combine"),
        "wideep_deepep_normal": ("deepep_normal_dispatch", "deepep_normal_combine"),
    }
    return op in by_table[table]


def _lines(s: Sample, file: OperatorFile, catalog: Catalog, left: dict[int, str]) -> list[dict[str, Any]]:
    """The rows of a sample with their predictions; where the curve is not known they go to ``left``."""
    rows = s.rows.astype(np.int64)
    try:
        curve = _curves(s, catalog).get(s.op, s.dtype)
    except PlannerError as error:
        left.update(dict.fromkeys((int(i) for i in rows), str(error)))
        return []
    predicted = np.asarray(getattr(operators, curve.form)(curve, **s.inputs), dtype=float)
    out = []
    for i, seconds, time in zip(rows, s.seconds, predicted, strict=True):
        out.append(
            _identity(int(i), file.rows[int(i)], file.name)
            | {
                "operator": f"{s.op} {s.dtype}",
                "curve_of": f"{curve.engine} on {curve.from_accelerator}",
                "measured_latency_us": float(seconds / MICROSECOND),
                "predicted_latency_us": float(time / MICROSECOND),
                "low80_latency_us": float(time / (1.0 + curve.spread) / MICROSECOND),
                "high80_latency_us": float(time * (1.0 + curve.spread) / MICROSECOND),
                "reason": "",
            }
        )
    return out


def _curves(s: Sample, catalog: Catalog) -> CurveSet:
    if s.gpu not in catalog.accelerator_ids():
        raise UnknownNameError("gpu", s.gpu, catalog.accelerator_ids(), LISTED_BY["accelerator"])
    # Libraries serve every engine: any engine's set has their curves.
    engine = "sglang" if s.engine in LIBRARIES else s.engine
    return curves(device(catalog.accelerator(s.gpu)), engine)


def _identity(i: int, row: Mapping[str, str], table: str) -> dict[str, Any]:
    return {
        "run_id": f"row {i + 1}",
        "row": i,
        "table": table,
        "gpu": row.get("gpu", ""),
        "engine": row.get("engine", ""),
        "kernel_source": row.get("kernel_source", ""),
    }


def _metrics(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    if not lines:
        return {}
    measured, predicted, low, high = (
        np.array([line[f"{k}_latency_us"] for line in lines]) for k in ("measured", "predicted", "low80", "high80")
    )
    error = predicted / measured - 1.0
    return {
        "latency_us": {
            "median_ape": float(np.median(np.abs(error))),
            "mean_ape": float(np.mean(np.abs(error))),
            "p90_ape": float(np.quantile(np.abs(error), 0.9)),
            "bias": float(np.median(error)),
            "interval80_coverage": float(np.mean((measured >= low) & (measured <= high))),
            "points": len(lines),
        }
    }

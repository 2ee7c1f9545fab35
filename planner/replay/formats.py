"""Trace files of other projects, recognised by their columns, each with its own units.

=============  ==========================================  ====================  ============================
format         arrival                                     lengths               prefix blocks
=============  ==========================================  ====================  ============================
mooncake       ``timestamp`` ms                            ``input_length`` …    ``hash_ids``, 512 tokens
bailian        ``timestamp`` s (has ``chat_id``, ``turn``)  the same             ``hash_ids``, 16 tokens
azure          ``TIMESTAMP`` date-time, up to 7 digits     ``ContextTokens`` …   none
burstgpt       ``Timestamp`` s, v1 and v3                  ``Request tokens`` …  none
vidur          ``arrived_at`` s (Splitwise as CSV)         ``num_prefill_tokens`` none
frontier       ``arrived_at`` s                            the same              ``block_hash_ids`` joined by |
llmservingsim  ``arrival_time_ns``                         ``input_toks`` …      none
=============  ==========================================  ====================  ============================

Sources: kvcache-ai/Mooncake FAST25-release/traces; alibaba-edu/qwen-bailian-usagetraces-anon; Azure/AzurePublicDataset
(2023, 2024); HPMLL/BurstGPT; microsoft/vidur data/processed_traces; casys-kaist/LLMServingSim.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.replay.trace import MOONCAKE_BLOCK_TOKENS, Trace, ragged
from planner.units import MILLISECOND

MAX_FILE_BYTES = 2 << 30
BAILIAN_BLOCK_TOKENS = 16
NANOSECOND = 1e-9


@dataclass(frozen=True)
class TraceFormat:
    """Column names and units of one kind of file."""

    name: str
    needs: tuple[str, ...]
    """Columns that tell the format apart; the first format of FORMATS that has all of them is taken."""
    arrival: str
    input: str
    output: str
    seconds: float | None = 1.0
    """Seconds of one unit of the arrival column; None is a date-time."""
    blocks: str | None = None
    block_tokens: int | None = None
    """Tokens of a prefix block; None where the file does not say."""


FORMATS = (
    TraceFormat(
        "bailian",
        ("chat_id", "turn", "timestamp", "input_length", "output_length"),
        "timestamp",
        "input_length",
        "output_length",
        blocks="hash_ids",
        block_tokens=BAILIAN_BLOCK_TOKENS,
    ),
    TraceFormat(
        "mooncake",
        ("timestamp", "input_length", "output_length"),
        "timestamp",
        "input_length",
        "output_length",
        seconds=MILLISECOND,
        blocks="hash_ids",
        block_tokens=MOONCAKE_BLOCK_TOKENS,
    ),
    TraceFormat(
        "llmservingsim",
        ("arrival_time_ns", "input_toks", "output_toks"),
        "arrival_time_ns",
        "input_toks",
        "output_toks",
        seconds=NANOSECOND,
    ),
    TraceFormat(
        "azure",
        ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        "TIMESTAMP",
        "ContextTokens",
        "GeneratedTokens",
        seconds=None,
    ),
    TraceFormat(
        "burstgpt",
        ("Timestamp", "Request tokens", "Response tokens"),
        "Timestamp",
        "Request tokens",
        "Response tokens",
    ),
    TraceFormat(
        "frontier",
        ("arrived_at", "num_prefill_tokens", "num_decode_tokens", "block_hash_ids"),
        "arrived_at",
        "num_prefill_tokens",
        "num_decode_tokens",
        blocks="block_hash_ids",
    ),
    TraceFormat(
        "vidur",
        ("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
        "arrived_at",
        "num_prefill_tokens",
        "num_decode_tokens",
    ),
)


def load_trace(path: Path, limit: int | None = None, block_tokens: int | None = None) -> Trace:
    """The trace in a CSV or JSONL file; its first ``limit`` rows where given.

    ``block_tokens`` states or replaces the size of a prefix block. Rows without an output (failed requests of BurstGPT
    and Azure) are dropped and counted. Raises InputError for a file of no known format, a cell that is no number, or
    prefix blocks of unknown size.
    """
    if not path.is_file():
        raise InputError("--trace", str(path), "an existing file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InputError("--trace", str(path), f"a file of at most {MAX_FILE_BYTES >> 30} GiB")
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            rows = csv.DictReader(handle) if path.suffix.lower() == ".csv" else _jsonl(handle, path)
            found = list(itertools.islice(rows, limit))
    except UnicodeDecodeError:
        raise InputError("--trace", str(path), "UTF-8 text") from None
    if not found:
        raise InputError("--trace", str(path), "a file with at least one request")
    return _trace(path, recognise(found[0], path), found, block_tokens)


def recognise(row: Mapping[str, Any], path: Path) -> TraceFormat:
    """The format of a file by the columns of its first row."""
    for form in FORMATS:
        if all(column in row for column in form.needs):
            return form
    if "num_prefill_tokens" in row or "input_length" in row:
        raise InputError("--trace", str(path), "a trace with arrival times; this file holds lengths only")
    known = "; ".join(f"{f.name}: {', '.join(f.needs)}" for f in FORMATS)
    raise InputError("--trace", ", ".join(str(c) for c in row), f"the columns of a known trace format ({known})")


def _jsonl(handle: Any, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(handle, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError(
                "--trace", f"{path.name} line {number}", "one JSON object a line, or a file ending in .csv"
            )
        yield row


def _trace(path: Path, form: TraceFormat, rows: list[dict[str, Any]], block_tokens: int | None) -> Trace:
    inputs, outputs = _whole(rows, form.input, path), _whole(rows, form.output, path)
    served = (inputs >= 1) & (outputs >= 1)
    if not served.any():
        raise InputError("--trace", str(path), "at least one request with a prompt and an output")
    kept = [rows[i] for i in np.flatnonzero(served)]
    times = _dates(kept, form.arrival, path) if form.seconds is None else _numbers(kept, form.arrival, path)
    blocks = _blocks(kept, form, path)
    size = block_tokens or _stated(kept[0], path) or form.block_tokens
    if blocks is not None and size is None:
        raise InputError("--block-tokens", None, f"the tokens of one block of {form.blocks}; the file does not say")
    return Trace.of(
        path.name,
        times if form.seconds is None else times * form.seconds,
        inputs[served],
        outputs[served],
        priority=_whole(kept, "priority", path) if "priority" in kept[0] else None,
        blocks=blocks,
        block_tokens=size or 0,
        dropped=int((~served).sum()),
    )


def _stated(row: Mapping[str, Any], path: Path) -> int | None:
    return int(_whole([dict(row)], "block_tokens", path)[0]) if "block_tokens" in row else None


def _numbers(rows: list[dict[str, Any]], column: str, path: Path) -> NDArray[np.float64]:
    try:
        values = np.array([row[column] for row in rows], dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise InputError("--trace", f"{path.name} column {column}", "a number in every row")
    return values


def _whole(rows: list[dict[str, Any]], column: str, path: Path) -> NDArray[np.int64]:
    values = _numbers(rows, column, path)
    if np.any(values != np.floor(values)) or np.any(np.abs(values) > 1e9):
        raise InputError("--trace", f"{path.name} column {column}", "a whole number in every row")
    return values.astype(np.int64)


def _dates(rows: list[dict[str, Any]], column: str, path: Path) -> NDArray[np.float64]:
    """Seconds of date-times in UTC with any number of fractional digits up to nine."""
    text = [str(row[column]).strip().removesuffix("Z").removesuffix("+00:00") for row in rows]
    try:
        moments = np.array(text, dtype="datetime64[ns]")
    except ValueError:
        raise InputError("--trace", f"{path.name} column {column}", "an ISO date-time in UTC in every row") from None
    return np.asarray((moments - moments.min()).astype(np.int64) * NANOSECOND)


def _blocks(
    rows: list[dict[str, Any]], form: TraceFormat, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    if form.blocks is None or form.blocks not in rows[0]:
        return None
    names: dict[object, int] = {}
    out = []
    for row in rows:
        value = row.get(form.blocks) or []
        ids = value.split("|") if isinstance(value, str) else value
        if not isinstance(ids, list):
            raise InputError("--trace", f"{path.name} column {form.blocks}", "a list of block ids in every row")
        out.append([names.setdefault(v, len(names)) for v in ids])
    return ragged(out)

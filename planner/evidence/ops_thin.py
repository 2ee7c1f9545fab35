"""Thin the raw operator tables into ``measured/ops``: ``python -m planner.evidence.ops_thin RAW_DIR OUT_DIR``.

Every row that a fit may use is kept; what goes is whole tables that measure something else than one operator, the
eager variants of custom all-reduce, columns that are constant or repeat another one, and digits beyond four. Rows
are sorted, so the files are the same bytes for the same input.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Mapping
from pathlib import Path

from planner.evidence.ops_tables import KEYS

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("gemm_dtype", "m", "n", "k", "latency"),
    "context_attention": (
        "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim",
        "window_size", "latency",
    ),
    "generation_attention": (
        "kv_cache_dtype", "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size",
        "latency",
    ),
    "context_mla": ("kv_cache_dtype", "num_heads", "batch_size", "isl", "latency"),
    "generation_mla": ("kv_cache_dtype", "num_heads", "batch_size", "step", "latency"),
    "mla_bmm": ("bmm_dtype", "num_tokens", "num_heads", "latency"),
    "moe": (
        "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "distribution", "latency",
    ),
    "wideep_moe": (
        "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "distribution", "latency",
    ),
    "wideep_context_moe": (
        "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "distribution", "latency",
    ),
    "wideep_generation_moe": (
        "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "distribution", "latency",
    ),
    "custom_allreduce": ("num_gpus", "message_size", "latency"),
    "nccl": ("operation", "num_gpus", "message_size", "latency"),
    "wideep_deepep_ll": (
        "node_num", "hidden_size", "num_token", "num_topk", "num_experts", "dispatch_avg_t_us", "combine_avg_t_us",
    ),
    "wideep_deepep_normal": (
        "node_num", "hidden_size", "num_token", "num_topk", "num_experts", "dispatch_sms", "dispatch_transmit_us",
        "dispatch_notify_us", "combine_transmit_us", "combine_notify_us",
    ),
}  # fmt: skip

NCCL_OPERATIONS = ("all_gather", "all_to_all", "reduce_scatter", "all_reduce")
"""The source lost the column that names the operation. Each (GPU, type, ranks) has four series in file order; the last
moves twice the bytes and equals what custom all-reduce falls back to above 8 MiB, the second has the flat small-message
time of point-to-point kernels, and the first and third agree with all-gather's and reduce-scatter's bus bandwidth."""

DIGITS = 4


def thin(raw: Path, out: Path) -> dict[str, int]:
    """Write ``out/<table>.csv.gz`` from ``raw/<table>.*.csv``; returns rows kept by table."""
    out.mkdir(parents=True, exist_ok=True)
    kept = {}
    for name, columns in COLUMNS.items():
        rows: list[tuple[str, ...]] = []
        for path in sorted(raw.glob(f"{name}.*.csv")):
            with path.open(encoding="utf-8", newline="") as f:
                source = [row for row in csv.DictReader(f) if usable(name, row)]
            if name == "nccl":
                name_operations(source)
            rows.extend(tuple(cell(row, c) for c in (*KEYS, *columns)) for row in source)
        rows.sort(key=lambda row: tuple((0, float(c), "") if _numeric(c) else (1, 0.0, c) for c in row))
        _write(out / f"{name}.csv.gz", (*KEYS, *columns), rows)
        kept[name] = len(rows)
    return kept


def usable(name: str, row: Mapping[str, str]) -> bool:
    """Whether a row of a raw table measures the operator that the table is named after."""
    if name == "custom_allreduce":
        return "eager" not in row["kernel_source"]
    if name == "nccl":
        return row["nccl_dtype"] == "half"
    if name == "wideep_moe":
        return "eplb" not in row["distribution"]
    return True


def name_operations(rows: list[dict[str, str]]) -> None:
    """Puts NCCL_OPERATIONS back into the rows of a raw NCCL table, in file order."""
    seen: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["num_gpus"], row["message_size"])
        row["operation"] = NCCL_OPERATIONS[seen.get(key, 0)]
        seen[key] = seen.get(key, 0) + 1


def cell(row: Mapping[str, str], column: str) -> str:
    """A cell as thinned tables hold it: numbers with four digits, what is missing as 0."""
    text = row.get(column) or "0"
    if not _numeric(text) or column in KEYS:
        return text
    number = float(text)
    return str(int(number)) if number == int(number) else f"{number:.{DIGITS}g}"


def _numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    body = "\n".join([",".join(header), *(",".join(row) for row in rows)]) + "\n"
    with path.open("wb") as f, gzip.GzipFile(filename="", fileobj=f, mode="wb", compresslevel=9, mtime=0) as z:
        z.write(body.encode())


if __name__ == "__main__":
    for table, count in thin(Path(sys.argv[1]), Path(sys.argv[2])).items():
        print(f"{table}: {count} rows")

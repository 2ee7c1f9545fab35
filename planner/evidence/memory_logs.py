"""Memory figures read from start-up logs (``measured/memory_logs.yaml``) as rows of a memory table.

Logs are a check, never a fit: they come from many accelerators, engines and versions, and often leave out what
sizes a cache (the share, sequences, tokens of a step). What an entry does not state is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.catalog import Catalog
from planner.errors import InputError
from planner.evidence.memory_table import UNSTATED_MEMORY
from planner.evidence.memory_validate import RowPrediction, memory_metrics, validate_memory
from planner.evidence.memory_worst import worst_rows

ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm", "trtllm": "trtllm"}
"""Engine names of the logs that have memory rules; forks and other engines are reported as such."""

_GPU_WORDS = re.compile(r"^(h100|h200|b200|b300|h20|l40s|mi300x|mi355x|gh200)\b", re.IGNORECASE)
_QUANTISATION = {
    "fp8": "fp8",
    "int4 awq": "awq",
    "gptq int4": "gptq",
    "nvfp4": "nvfp4",
    "bf16": "",
    "fp16": "",
    "mxfp4": "",
    "int4 (native)": "",
}


def read_logs(path: Path | str) -> list[dict[str, Any]]:
    """Entries of a log collection. Raises InputError where it is not a list of mappings."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=loader)
    except (OSError, yaml.YAMLError) as error:
        raise InputError("file", str(path), f"a YAML file: {error}") from None
    if not isinstance(data, list) or not all(isinstance(e, dict) for e in data):
        raise InputError("file", str(path), "a list of log entries")
    return data


def validate_logs(entries: Sequence[Mapping[str, Any]], catalog: Catalog) -> dict[str, Any]:
    """Report of log entries: the keys of :func:`planner.evidence.memory_validate.validate_memory` over all of them, and
    under ``engines`` one such report for each engine.

    ``skipped`` counts entries of engines without memory rules, and those that do not state their layout; both it and
    the reasons of entries without a prediction are in ``failed``.
    """
    rows: dict[str, list[dict[str, str]]] = {}
    skipped: dict[str, int] = {}
    left: list[RowPrediction] = []
    for entry in entries:
        name = str(entry.get("engine", "")).lower()
        engine = ENGINES.get(name.split(" ")[0]) if "+" not in name else None
        why = _unstated(entry, name, engine)
        if engine is None or why:
            skipped[why] = skipped.get(why, 0) + 1
            version = _version(entry.get("engine_version"))
            left.append(RowPrediction(str(entry.get("id")), str(entry.get("model")), version, "", "", reason=why))
        else:
            rows.setdefault(engine, []).append(log_row(entry))
    with np.errstate(invalid="ignore"):  # memory not stated is infinite here, and its terms are not compared
        reports = {e: validate_memory(r, catalog, engine=e) for e, r in rows.items()}
    made = [p for r in reports.values() for p in r["predictions"]]
    read = [RowPrediction(**p) for p in made]
    failed: dict[str, int] = dict(skipped)
    for report in reports.values():
        for reason, count in report["failed"].items():
            failed[reason] = failed.get(reason, 0) + count
    return {
        "kind": "memory_logs",
        "rows": len(entries),
        "predicted": sum(r["predicted"] for r in reports.values()),
        "failed": dict(sorted(failed.items(), key=lambda pair: -pair[1])),
        "metrics": memory_metrics(read),
        "groups": [
            {"group": "engine", "value": e, "rows": r["rows"], "metrics": r["metrics"]} for e, r in reports.items()
        ],
        "worst": worst_rows(read),
        "predictions": [*made, *(vars(p) for p in left)],
        "skipped": skipped,
        "engines": {e: {k: v for k, v in r.items() if k != "predictions"} for e, r in reports.items()},
    }


def _unstated(entry: Mapping[str, Any], name: str, engine: str | None) -> str:
    """Why an entry has no prediction whatever its numbers are; empty where that is not so."""
    if engine is None:
        return f"engine: got {name!r}; {', '.join(dict.fromkeys(ENGINES.values()))}"
    layout, metrics = entry.get("layout"), entry.get("metrics")
    if layout is not None and not isinstance(layout, Mapping):
        return f"layout: got {layout!r}; a mapping such as {{tp: 8}}"
    if not (layout or {}).get("tp"):
        return f"{name}: layout not stated"
    if not metrics or not isinstance(metrics, Mapping):
        return f"metrics: got {metrics!r}; a mapping of figures such as {{model_load_GiB_per_gpu: 13.5}}"
    words = [f"{key}: got {metrics[key]!r}; a number" for key in READ_METRICS if _is_word(metrics.get(key))]
    return "; ".join(f"metrics.{word}" for word in words)


def _is_word(value: Any) -> bool:
    return value is not None and (isinstance(value, bool) or not isinstance(value, int | float))


READ_METRICS = (
    "gpu_total_GiB",
    "gpu_total_GB",
    "available_kv_GiB_per_gpu",
    "available_kv_GB_per_gpu",
    "model_load_GiB_per_gpu",
    "model_load_GB_per_gpu",
    "peak_activation_GiB",
    "non_torch_GiB",
    "cuda_graph_GiB",
    "kv_bytes_per_token_per_gpu_derived",
    "kv_tokens",
    "kv_tokens_derived",
)
"""Figures of an entry that its row holds."""


def is_log_collection(text: str) -> bool:
    """Whether a text is a YAML list of start-up memory figures, by the keys of its first entry in any order."""
    return first_keys(text) >= {"id", "model", "engine", "layout", "metrics"}


HEAD_CHARS = 4000


def first_keys(text: str) -> frozenset[str]:
    """The keys of the first entry of a YAML list of mappings, read from the start of its text; empty for other text."""
    head = re.sub(r"\A(\s*(#[^\n]*)?\n|---[^\n]*\n)*", "", text[:HEAD_CHARS].lstrip("\ufeff"))
    if not head.startswith("- "):
        return frozenset()
    first = re.split(r"\n- ", head, maxsplit=1)[0]
    return frozenset(re.findall(r"^(?:- |  )([A-Za-z_]\w*):(?:\s|$)", first, re.MULTILINE))


def log_row(entry: Mapping[str, Any]) -> dict[str, str]:
    """A log entry in the columns of ``measured/memory_runs.csv``.

    GB of SGLang's logs are 2^30 bytes. Terms that depend on the cache's size are left out where the log does not
    state the share and the accelerator's memory.
    """
    layout, metrics = entry.get("layout") or {}, entry.get("metrics") or {}
    total = metrics.get("gpu_total_GiB", metrics.get("gpu_total_GB"))
    share = entry.get("gpu_memory_utilization", entry.get("mem_fraction_static"))
    match = _GPU_WORDS.match(str(entry.get("gpu", "")))
    available = metrics.get("available_kv_GiB_per_gpu", metrics.get("available_kv_GB_per_gpu"))
    row: dict[str, Any] = {
        "run_id": entry.get("id"),
        "model": _model(str(entry.get("model", ""))),
        "gpu": match.group(1) if match else "",
        "gpu_mem_gib": total if total is not None or match else UNSTATED_MEMORY[1],
        "engine_version": _version(entry.get("engine_version")),
        "tp": layout.get("tp"),
        "pp": layout.get("pp"),
        "max_model_len": entry.get("max_model_len"),
        "quantization": _quantisation(entry.get("weights_dtype")),
        "kv_cache_dtype": "fp8" if str(entry.get("kv_dtype", "")).startswith("fp8") else "auto",
        "gpu_memory_utilization": share,
        "weights_gib": metrics.get("model_load_GiB_per_gpu", metrics.get("model_load_GB_per_gpu")),
        "peak_activation_gib": metrics.get("peak_activation_GiB"),
        "non_torch_gib": metrics.get("non_torch_GiB"),
        "cuda_graph_gib": metrics.get("cuda_graph_GiB"),
        "kv_bytes_per_token": metrics.get("kv_bytes_per_token_per_gpu_derived"),
    }
    if share is not None and total is not None:
        row["available_kv_gib"] = available
        row["kv_cache_tokens"] = metrics.get("kv_tokens", metrics.get("kv_tokens_derived"))
    return {key: "" if value is None else str(value) for key, value in row.items()}


def _model(text: str) -> str:
    """A model's name without remarks: what stands before a bracket, 'class', 'family' or 'merged'."""
    return re.split(r" \(| class| family| merged| \+", text)[0].strip()


def _version(text: Any) -> str | None:
    match = re.match(r"\d+\.\d+(\.\d+)?", str(text or ""))
    return match.group(0) if match else None


def _quantisation(text: Any) -> str:
    low = str(text or "").lower()
    return _QUANTISATION.get(low, low)

"""A start-up log against the memory budget of the same launch, term by term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.catalog import Catalog
from planner.evidence.importers.names import gpu_id
from planner.evidence.importers.to_runs import Given
from planner.evidence.logs import StartupLog
from planner.evidence.memory_table import UNSTATED_MEMORY
from planner.evidence.memory_validate import validate_memory

COMPARED = (
    ("weights", "weights", "weights_gib"),
    ("activation peak", "activation", "peak_activation_gib"),
    ("non-torch", "non_torch", "non_torch_gib"),
    ("CUDA graphs", "graphs", "cuda_graph_gib"),
    ("KV cache", "kv", "available_kv_gib"),
)
"""Term for people, name in the log's terms, name in the prediction."""


def validate_log(log: StartupLog, given: Given, catalog: Catalog) -> dict[str, Any]:
    """The report of one log: terms (measured, predicted GiB), metrics, notes, refusal; keys of a memory report.

    Without an accelerator (logs do not name it; ``given.gpu`` does) or its memory only what does not depend on them is
    compared. Raises InputError (UnknownNameError) for an accelerator that the catalogue lacks.
    """
    row = dict(log.row)
    notes = list(log.notes)
    for name, value in (("model", given.model), ("engine_version", given.engine_version)):
        if value is not None:
            row[name] = value
    for name in ("tp", "pp"):
        if getattr(given, name) is not None:
            row[name] = str(getattr(given, name))
    if given.gpu is not None:
        row["gpu"] = gpu_id(given.gpu, catalog.accelerator_ids())
    elif "gpu_mem_gib" not in row:
        notes.append("the log does not name the accelerator: give --gpu to compare the cache")
        row["gpu_mem_gib"] = UNSTATED_MEMORY[1]
        for name in ("available_kv_gib", "kv_cache_tokens", "max_concurrency", "non_torch_gib"):
            row.pop(name, None)
    if "model" not in row:
        notes.append("the log does not name the model: give --model")
    with np.errstate(invalid="ignore"):  # memory not stated is infinite here, and its terms are not compared
        report = validate_memory([row], catalog, engine=log.engine)
    prediction = report["predictions"][0]
    predicted = dict(prediction["predicted"])
    if row.get("graphs_outside") == "true" and "available_kv_gib" in predicted:
        # The budget takes graphs out where the version does; this launch had switched that off.
        before = predicted["available_kv_gib"]
        predicted["available_kv_gib"] += predicted["cuda_graph_gib"]
        predicted["kv_cache_tokens"] *= predicted["available_kv_gib"] / before
    stated = dict(log.terms_gib)
    if "available_kv_gib" not in row:
        stated.pop("kv", None)
    terms = [_term(label, stated.get(key), predicted.get(name)) for label, key, name in COMPARED]
    return {
        **report,
        "kind": "memory_log",
        "engine": log.engine,
        "engine_version": row.get("engine_version"),
        "model": row.get("model"),
        "terms": [t for t in terms if t is not None],
        "tokens": _term("KV tokens", _number(row.get("kv_cache_tokens")), predicted.get("kv_cache_tokens")),
        "stated_gib": dict(log.terms_gib),
        "notes": notes,
        "refusal": log.refusal,
        "predicted_fits": prediction["fits"],
    }


def _term(label: str, measured: float | None, predicted: float | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    known = predicted is not None and abs(predicted) < float("inf")
    return {
        "term": label,
        "measured": measured,
        "predicted": predicted if known else None,
        "difference": predicted - measured if known and predicted is not None else None,
    }


def _number(text: Any) -> float | None:
    return None if text in (None, "") else float(text)


def lines(report: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The report's terms as rows of a table: term, log, budget, difference."""
    rows = [(t["term"] + ", GiB", "{:.2f}", t) for t in report["terms"]]
    if report["tokens"] is not None:
        rows.append(("KV tokens", "{:,.0f}", report["tokens"]))
    return [
        (
            label,
            form.format(t["measured"]),
            *("–" if t[k] is None else form.format(t[k]) for k in ("predicted", "difference")),
        )
        for label, form, t in rows
    ]

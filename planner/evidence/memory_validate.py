"""Predicted against measured start-up memory, in the columns of ``measured/memory_runs.csv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.catalog import Catalog
from planner.catalog.model_spec import LinearAttention, MlaAttention, MoeFeedForward
from planner.catalog.scheduler_spec import SchedulerSpec
from planner.catalog.validation import validate
from planner.errors import InputError, PlannerError
from planner.evidence.memory_models import Resolved, resolve_model, run_precision
from planner.evidence.memory_table import TRUE, check_words, number, ranks, setting
from planner.evidence.memory_worst import worst_rows
from planner.evidence.run_reading import MODELS_HINT
from planner.hardware.device import Device, device
from planner.layout.layouts import Layouts
from planner.layout.legality import require_possible
from planner.memory.budget import MemoryBudget, StageRole, memory_budget
from planner.memory.coefficients import EngineMemory, engine_memory
from planner.units import GIB

METRICS = (
    "weights_gib",
    "peak_activation_gib",
    "non_torch_gib",
    "cuda_graph_gib",
    "available_kv_gib",
    "kv_cache_tokens",
    "max_concurrency",
    "kv_bytes_per_token",
)

MEMORY_WORDS = ("oom", "no kv room", "exceeds", "out of memory")
"""Words of a failure reason that blame memory."""

FOREIGN_WORDS = ("another process",)
"""Failures of memory that another process held: not the budget's to predict."""

UNKNOWN_MODEL = f"model not in the catalogue; {MODELS_HINT}"


@dataclass
class RowPrediction:
    """One run: measured and predicted values by metric, or why there is none."""

    run_id: str
    model: str
    engine_version: str | None
    layout: str
    kind: str
    """dense, moe, mla, hybrid: what the cache and the weights are made of."""
    measured: dict[str, float] = field(default_factory=dict)
    predicted: dict[str, float] = field(default_factory=dict)
    fits: bool | None = None
    failed: bool = False
    failure_reason: str = ""
    memory_failure: bool = False
    reason: str = ""
    """Why the row has no prediction; empty where it has one."""
    detail: str = ""
    """The same with names and numbers."""
    resolved: str = ""
    gpu: str = ""
    note: str = ""
    """What was read otherwise than stated, and why; empty where nothing was."""


def predict_rows(rows: Sequence[Mapping[str, str]], catalog: Catalog, *, engine: str = "vllm") -> list[RowPrediction]:
    """One prediction a row, in order; a row that cannot be predicted says why and is kept."""
    return [_predict(dict(row), catalog, engine, f"row {i + 1}") for i, row in enumerate(rows)]


def validate_memory(rows: Sequence[Mapping[str, str]], catalog: Catalog, *, engine: str = "vllm") -> dict[str, Any]:
    """The validation report of memory runs: kind, rows, predicted, failed, warnings, metrics, groups, failures, worst,
    predictions.

    ``metrics`` has median_ape, mean_ape, p90_ape (of |predicted - measured| / |measured|), bias (mean signed
    relative error) and points for each of METRICS, over every row that ran and measured it. ``failures`` says
    of runs that died for lack of memory whether the budget predicts it. ``predictions`` are the rows in order
    (:class:`RowPrediction` as dicts).
    """
    predictions = predict_rows(rows, catalog, engine=engine)
    failed = Counter(p.reason for p in predictions if p.reason)
    return {
        "kind": "memory",
        "rows": len(predictions),
        "predicted": sum(1 for p in predictions if not p.reason),
        "failed": dict(failed),
        "warnings": dict(Counter(f"{p.model}: {p.note}" for p in predictions if p.note)),
        "metrics": memory_metrics(predictions),
        "groups": [
            {"group": name, "value": value, "rows": len(members), "metrics": memory_metrics(members)}
            for name, key in _GROUPS.items()
            for value, members in _by(predictions, key).items()
        ],
        "failures": _failures(predictions),
        "worst": worst_rows(predictions),
        "predictions": [vars(p) for p in predictions],
    }


_GROUPS: dict[str, Callable[[RowPrediction], str]] = {
    "engine_version": lambda p: p.engine_version or "not stated",
    "kind": lambda p: p.kind,
    "gpu": lambda p: p.gpu or "not stated",
    "layout": lambda p: p.layout,
    "model": lambda p: p.model,
}


def _by(predictions: list[RowPrediction], key: Callable[[RowPrediction], str]) -> dict[str, list[RowPrediction]]:
    found: dict[str, list[RowPrediction]] = {}
    for p in predictions:
        if not p.reason and not p.failed:
            found.setdefault(key(p), []).append(p)
    return found


def _predict(row: dict[str, str], catalog: Catalog, engine: str, run_id: str) -> RowPrediction:
    text = (row.get("failure_reason") or "").strip()
    version = (row.get("vllm_version") or row.get("engine_version") or "").strip() or None
    out = RowPrediction(
        run_id=row.get("run_id") or run_id,
        model=row.get("model", ""),
        engine_version=version.split()[0] if version else None,
        layout=f"TP{row.get('tp') or 1} PP{row.get('pp') or 1}",
        kind="",
        failed=(row.get("failed") or "").strip().lower() in TRUE,
        failure_reason=text,
        memory_failure=_blames_memory(text),
        gpu=row.get("gpu", ""),
    )
    try:
        check_words(row)
        row, out.note = _with_its_share(row, engine)
        resolved = resolve_model(out.model, catalog)
        out.resolved = resolved.how
        spec = resolved.spec
        out.kind = _kind(spec)
        budget, tokens = _budget(row, resolved, catalog, engine, out.engine_version, None)
        # A pipeline's log prints the terms of its first rank, its cache those of the smallest.
        piped = ranks(row, "pp") > 1
        printed = _budget(row, resolved, catalog, engine, out.engine_version, "first")[0] if piped else budget
        length = setting(row, "max_model_len") or float(spec.max_context_tokens)
        _measured(row, out, budget)
        _leave_net_graphs(out, engine_memory(engine, catalog))
    except PlannerError as error:
        out.reason, out.detail = _reason(error), str(error)
        out.measured, out.predicted = {}, {}
        return out
    if out.gpu and not _meant(out.gpu, catalog):
        told = f"gpu {out.gpu!r} is not in the catalogue: read by its stated memory alone, without a scale-up link"
        out.note = "; ".join(filter(None, (out.note, told)))
    out.fits = bool(budget.fits[0])
    engine_context = engine_memory(engine, catalog).context_gib
    out.predicted |= {
        "weights_gib": float(printed.weights[0] / GIB),
        "peak_activation_gib": float(printed.workspace[0] / GIB),
        "non_torch_gib": float((budget.runtime[0] + budget.collectives[0]) / GIB) - engine_context,
        "cuda_graph_gib": float(budget.graphs[0] / GIB),
        "available_kv_gib": float(budget.kv[0] / GIB),
        "kv_cache_tokens": float(budget.kv_tokens[0]),
        "max_concurrency": float(budget.sequences(length, tokens)[0]),
        "margin_gib": float(budget.margin[0] / GIB),
    }
    return out


def _budget(
    row: dict[str, str], resolved: Resolved, catalog: Catalog, engine: str, version: str | None, stage: StageRole | None
) -> tuple[MemoryBudget, float]:
    memory = engine_memory(engine, catalog)
    stated = setting(row, "gpu_mem_gib")
    where = _device(row.get("gpu", ""), None if stated is None else stated * GIB, catalog)
    capacity = where.mem_bytes if stated is None else stated * GIB
    tp, pp, dp = (ranks(row, k) for k in ("tp", "pp", "dp"))
    tokens = setting(row, "max_num_batched_tokens") or float(_scheduler(engine, catalog).default_token_budget(capacity))
    layout = Layouts.of(tp=tp, pp=pp, attention_dp=dp if _is_moe(resolved.spec) else 1)
    require_possible(resolved.spec, layout, engine)
    budget = memory_budget(
        resolved.spec,
        run_precision(resolved, row),
        layout,
        where,
        memory,
        max_num_seqs=setting(row, "max_num_seqs") or memory.max_num_seqs(capacity),
        max_num_batched_tokens=tokens,
        engine_version=version,
        gpu_memory_utilization=setting(row, "gpu_memory_utilization"),
        needed_tokens=setting(row, "max_model_len") or 0,
        cuda_graphs=(row.get("enforce_eager") or "").strip().lower() not in TRUE,
        capacity_bytes=capacity,
        stage=stage,
    )
    return budget, tokens


def _with_its_share(row: dict[str, str], engine: str) -> tuple[dict[str, str], str]:
    """A row with the share of memory that its own figures show, and a sentence where that is not the stated one.

    vLLM gives the cache what its share leaves beside weights, activations and the rest, so the four terms add to the
    share of the memory. A label that contradicts them is another run's.
    """
    memory, stated = setting(row, "gpu_mem_gib"), setting(row, "gpu_memory_utilization")
    terms = [number(row, k) for k in ("weights_gib", "peak_activation_gib", "non_torch_gib", "available_kv_gib")]
    known = [term for term in terms if term is not None]
    if engine != "vllm" or memory is None or stated is None or len(known) < len(terms):
        return row, ""
    shown = sum(known) / memory
    share = round(shown, 2)
    if not 0 < share <= 1 or share == stated or abs(shown - share) > SHARE_SLACK or abs(shown - stated) < SHARE_OFF:
        return row, ""
    told = f"gpu_memory_utilization: {stated:g} stated, {share:g} taken: its terms and cache add to {sum(known):.2f} of"
    return row | {"gpu_memory_utilization": f"{share:g}"}, f"{told} {memory:g} GiB"


SHARE_SLACK = 0.0005
"""Terms in GiB with two digits add up this exactly."""
SHARE_OFF = 0.01
"""A smaller difference is not another setting."""


READ_AS_STATED = (
    "weights_gib",
    "peak_activation_gib",
    "non_torch_gib",
    "cuda_graph_gib",
    "kv_cache_tokens",
    "max_concurrency",
)


def _measured(row: dict[str, str], out: RowPrediction, budget: MemoryBudget) -> None:
    """Measured values of the smallest rank, and the KV bytes per token that they imply."""
    for name in READ_AS_STATED:
        value = number(row, name)
        if value is not None:
            out.measured[name] = value
    smallest = number(row, "available_kv_min_gib")
    available = smallest if smallest is not None else number(row, "available_kv_gib")
    if available is not None:
        out.measured["available_kv_gib"] = available
    tokens, stated = out.measured.get("kv_cache_tokens"), number(row, "kv_bytes_per_token")
    if stated is None and available is not None and tokens:
        # The pool is rounded to whole blocks, the measured GiB to two digits.
        stated = available * GIB / tokens
    if stated is not None:
        out.measured["kv_bytes_per_token"] = stated
        out.predicted["kv_bytes_per_token"] = float(budget.printed_token_bytes[0])


def _leave_net_graphs(out: RowPrediction, memory: EngineMemory) -> None:
    """Graph memory of a version that logs it net of what was freed meanwhile is no pool, and not compared."""
    if "cuda_graph_gib" in out.measured and not memory.graphs_logged(out.engine_version):
        value = out.measured.pop("cuda_graph_gib")
        told = (
            f"cuda_graph_gib {value:g} not compared: {memory.name} {out.engine_version} logs the change of free memory"
        )
        out.note = "; ".join(filter(None, (out.note, told)))


def memory_metrics(predictions: list[RowPrediction]) -> dict[str, dict[str, float]]:
    """Errors by metric over the runs that started and have a prediction."""
    metrics: dict[str, dict[str, float]] = {}
    for name in METRICS:
        pairs = [
            (p.predicted[name], p.measured[name])
            for p in predictions
            if not p.failed
            and not p.reason
            and name in p.measured
            and np.isfinite(p.predicted.get(name, np.nan))
            and p.measured[name] != 0
        ]
        if not pairs:
            continue
        predicted, measured = np.asarray(pairs).T
        error = (predicted - measured) / np.abs(measured)
        metrics[name] = {
            "median_ape": float(np.median(np.abs(error))),
            "mean_ape": float(np.mean(np.abs(error))),
            "p90_ape": float(np.quantile(np.abs(error), 0.9)),
            "within_10pct": float(np.mean(np.abs(error) <= 0.1)),
            "bias": float(np.mean(error)),
            "points": len(pairs),
        }
    return metrics


def _failures(predictions: list[RowPrediction]) -> dict[str, Any]:
    """Runs that died for lack of memory: how many the budget predicts; and starts that it wrongly refuses."""
    died = [p for p in predictions if p.memory_failure and p.fits is not None]
    ran = [p for p in predictions if not p.failed and p.fits is not None]
    return {
        "memory_failures": len(died),
        "predicted": sum(1 for p in died if not p.fits),
        "missed": [f"{p.model} {p.layout}: {p.failure_reason}" for p in died if p.fits],
        "starts": len(ran),
        "wrongly_refused": [f"{p.model} {p.layout} ({p.run_id})" for p in ran if not p.fits],
        "other_failures": sum(1 for p in predictions if p.failed and not p.memory_failure),
    }


def _reason(error: PlannerError) -> str:
    """A short reason to count rows by."""
    if isinstance(error, InputError):
        if error.field == "model":
            several = "several" in error.allowed
            return "model name fits several specifications" if several else UNKNOWN_MODEL
        return str(error)
    return type(error).__name__


def _blames_memory(reason: str) -> bool:
    low = reason.lower()
    return any(w in low for w in MEMORY_WORDS) and not any(w in low for w in FOREIGN_WORDS)


def _kind(spec: Any) -> str:
    attentions = [spec.attentions[g.attention] for g in spec.layers]
    if len({a.model_dump_json() for a in attentions}) > 1 or any(isinstance(a, LinearAttention) for a in attentions):
        return "hybrid"
    if any(isinstance(a, MlaAttention) for a in attentions):
        return "mla"
    return "moe" if _is_moe(spec) else "dense"


def _is_moe(spec: Any) -> bool:
    return any(isinstance(f, MoeFeedForward) for f in spec.feed_forwards.values())


def _device(gpu: str, capacity: float | None, catalog: Catalog) -> Device:
    """The accelerator a run names: its id, or the only SXM part (else the only part) whose id begins with its chip.

    One that the catalogue lacks counts by its stated memory alone, without a scale-up link.
    """
    found = _meant(gpu, catalog)
    if len(found) == 1:
        return device(catalog.accelerator(found[0]))
    if capacity is None or found:
        options = f": {', '.join(found)}" if found else ""
        raise InputError("gpu", gpu, f"one of the catalogue's accelerators, or its memory in gpu_mem_gib{options}")
    return Device(
        id=gpu or "not stated",
        name=gpu or "not stated",
        vendor="not stated",
        generation="not stated",
        peak_flops={},
        mem_bytes=capacity,
        mem_bw=0.0,
        link_bw=None,
        nic_bw=None,
        pcie_bw=None,
        tdp_w=None,
        missing=("everything but memory",),
    )


def _meant(gpu: str, catalog: Catalog) -> list[str]:
    """Ids that a name may mean: itself, or the parts of the chip that it begins with (the only SXM part of them)."""
    ids = catalog.accelerator_ids()
    low = gpu.lower().replace(" ", "-")
    chip = low.split("-")[0]
    found = [low] if low in ids else [i for i in ids if chip and i.split("-")[0] == chip]
    sxm = [i for i in found if i.endswith("-sxm")]
    return sxm if len(sxm) == 1 else found


def _scheduler(engine: str, catalog: Catalog) -> SchedulerSpec:
    parts = catalog.engine(engine)
    if "scheduler" not in parts:
        raise InputError("engine.name", engine, "an engine with a scheduler file")
    return validate(SchedulerSpec, parts["scheduler"], f"scheduler/{engine}.yaml")

"""Fits the memory coefficients of vLLM from measured start-ups and writes them with their provenance.

Few physical coefficients: the sampler's bytes per logit and the activations beside it, the layer peak, buffers
between pipeline stages, the vision encoder, non-torch memory by TP, the graph pool by graphs and layers.
Weights and KV bytes per token need no fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Catalog, catalog
from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError, PlannerError
from planner.evidence.memory_models import resolve_model, run_precision
from planner.evidence.memory_table import number, read_rows
from planner.memory.coefficients import EngineMemory, Fitted, engine_memory, is_before, version_key
from planner.memory.sharding import padded
from planner.memory.workspace import (
    GRAPH_TERMS,
    LayerWidths,
    expert_workspace,
    forward_peak,
    graph_terms,
    layer_widths,
    sampler_peak,
)
from planner.model.precision import FORMATS
from planner.units import GIB

Array = NDArray[np.float64]

ERAS = ("0.17", "0.0")
"""From these versions on the sampler differs: fused (0.17 and later), native sort before."""

SOFT_GIB = 0.03
"""Residuals beyond this count linearly, not squared: one odd run must not move a coefficient (soft L1)."""

START: dict[str, float] = {
    "sampler_bytes_per_logit": 12.0,
    "sampler_hidden_values": 1.5,
    "forward_hidden_values": 4.0,
    "pipeline_hidden_values": 2.0,
    "encoder_gib": 0.1,
}


@dataclass(frozen=True)
class _Run:
    version: str
    spec: ModelSpec
    widths: LayerWidths
    tp: int
    pp: int
    layers: int
    seqs: float
    tokens: float
    vocab: int
    value_bytes: float
    kept: float
    """Expert workspace in bytes."""
    activation: float | None
    non_torch: float | None
    graphs: float | None


def calibrate_memory(measured_dir: Path | str, out_dir: Path | str, *, engine: str = "vllm") -> dict[str, Any]:
    """Refits ``engine`` from ``measured_dir``/memory_runs.csv and writes ``out_dir``/<engine>.yaml; returns its
    content.

    ``measured_dir``/models adds model specifications. The hand-written part of the engine's file is kept,
    ``fitted`` replaced. Raises InputError where the table is missing or holds no run of the engine that states
    its terms.
    """
    import yaml

    measured = Path(measured_dir)
    known = catalog(measured)
    memory = engine_memory(engine, known)
    runs = _runs(read_rows(measured / "memory_runs.csv"), known, memory)
    newest = [r for r in runs if not is_before(r.version, ERAS[0])]
    if not newest:
        raise InputError("memory_runs.csv", len(runs), f"runs of {engine} {ERAS[0]} or newer that state their terms")
    base = _fit(newest, memory, ERAS[0], None)
    older = [r for r in runs if is_before(r.version, ERAS[0])]
    fitted = [base, *([_fit(older, memory, ERAS[1], base)] if older else [])]
    content = memory.model_dump(mode="json", exclude={"fitted"})
    content["fitted"] = fitted
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True)
    (out / f"{engine}.yaml").write_text(text, encoding="utf-8")
    return content


def _runs(rows: Sequence[dict[str, str]], known: Catalog, memory: EngineMemory) -> list[_Run]:
    """Runs whose model is known and that state at least one term."""
    runs = []
    for row in rows:
        activation, non_torch = number(row, "peak_activation_gib"), number(row, "non_torch_gib")
        if activation is None or (row.get("failed", "").lower() == "true" and number(row, "available_kv_gib") is None):
            continue
        try:
            resolved = resolve_model(row["model"], known)
        except PlannerError:
            continue
        spec, plan = resolved.spec, run_precision(resolved, row)
        widths = layer_widths(spec, plan)
        capacity = (number(row, "gpu_mem_gib") or 0.0) * GIB
        tp, pp = int(number(row, "tp") or 1), int(number(row, "pp") or 1)
        tokens = number(row, "max_num_batched_tokens") or _TOKENS
        value_bytes = FORMATS[plan.activations].bytes_per_value
        kept = 0.0
        if widths.expert_layers and plan.routed_experts not in memory.transient_expert_formats:
            kept = float(
                expert_workspace(widths, tokens=tokens, moe_tp=tp, ep=1, attention_dp=1, value_bytes=value_bytes)
            )
        runs.append(
            _Run(
                version=row["vllm_version"].split()[0],
                spec=spec,
                widths=widths,
                tp=tp,
                pp=pp,
                layers=-(-spec.num_layers // pp),
                seqs=number(row, "max_num_seqs") or memory.max_num_seqs(capacity),
                tokens=tokens,
                vocab=padded(spec.vocab_size, memory.vocab_padding_rows),
                value_bytes=value_bytes,
                kept=kept,
                activation=activation,
                non_torch=non_torch,
                graphs=number(row, "cuda_graph_gib"),
            )
        )
    return runs


_TOKENS = 8192.0
"""Tokens per step of the H100 runs that do not state theirs (the API server's default, and what the others logged)."""


def _fit(runs: list[_Run], memory: EngineMemory, from_version: str, base: dict[str, Any] | None) -> dict[str, Any]:
    """Coefficients of one era; an older era with few runs takes what it cannot tell from ``base``."""
    free = list(START) if base is None else ["sampler_bytes_per_logit"]
    values = dict(START) if base is None else {k: float(base[k]) for k in START}
    values |= _least_squares(runs, memory, values, free)
    values |= _non_torch(runs, base)
    graphs = [r for r in runs if r.graphs is not None and r.graphs > 0]
    values |= _graphs(graphs, memory) if base is None else {k: float(base[k]) for k in GRAPH_TERMS}
    values = {k: round(v, 3) for k, v in values.items()}
    residuals = _residuals(runs, memory, values, with_graphs=base is None)
    count = {k: len(v) for k, v in residuals.items()}
    note = (
        ""
        if base is None
        else "only the sampler and non-torch memory are fitted here; the rest is that of the newer era"
    )
    return {
        "from_version": from_version,
        **values,
        "points": len(runs),
        "median_abs_residual_gib": {k: round(float(np.median(np.abs(v))), 4) for k, v in residuals.items()},
        "p90_abs_residual_gib": {k: round(float(np.quantile(np.abs(v), 0.9)), 4) for k, v in residuals.items()},
        "status": "measured",
        "source": "measured/memory_runs.csv, vLLM "
        + ", ".join(sorted({r.version for r in runs}, key=version_key))
        + " on H100-80GB; points by term: "
        + ", ".join(f"{k} {n}" for k, n in count.items()),
        "note": note,
    }


def _coefficients(values: dict[str, float], from_version: str = "0.0") -> Fitted:
    rest = {k: 0.0 for k in Fitted.model_fields if k.endswith(("_gib", "_kib", "_bytes")) and "residual" not in k}
    given = {**rest, **values}
    return Fitted(from_version=from_version, points=0, status="measured", source="fit", **given)


def _activation(run: _Run, fitted: Fitted) -> float:
    """Torch peak in GiB of the rank a run prints: the first stage of a pipeline."""
    forward = forward_peak(run.widths, fitted, tokens=run.tokens, tp=run.tp, value_bytes=run.value_bytes)
    sampler = sampler_peak(
        fitted,
        max_num_seqs=run.seqs,
        vocab=run.vocab,
        tokens=run.tokens,
        hidden=run.widths.hidden,
        value_bytes=run.value_bytes,
    )
    peak = float(forward) if run.pp > 1 else max(float(forward), float(sampler))
    step = run.tokens * run.widths.hidden * run.value_bytes
    passed = fitted.pipeline_hidden_values * step if run.pp > 1 else 0.0
    encoder = step + fitted.encoder_gib * GIB if run.widths.vision else 0.0
    return (peak + run.kept + passed + encoder) / GIB


def _least_squares(
    runs: list[_Run], memory: EngineMemory, values: dict[str, float], free: list[str]
) -> dict[str, float]:
    from scipy.optimize import least_squares

    def errors(x: Array) -> Array:
        fitted = _coefficients(values | dict(zip(free, x, strict=True)))
        return np.asarray([_activation(r, fitted) - (r.activation or 0.0) for r in runs])

    start = np.asarray([values[k] for k in free])
    found = least_squares(
        errors, start, bounds=(0.0, np.inf), loss="soft_l1", f_scale=SOFT_GIB, x_scale=np.maximum(start, 0.1)
    )
    return dict(zip(free, (float(v) for v in found.x), strict=True))


def _non_torch(runs: list[_Run], base: dict[str, Any] | None) -> dict[str, float]:
    """Medians of single ranks, of pipelines and of TP groups; the slope over ranks where two group sizes were run."""
    known = [r for r in runs if r.non_torch is not None]

    def median(chosen: list[_Run], fallback: float) -> float:
        return float(np.median([r.non_torch for r in chosen])) if chosen else fallback

    single = median([r for r in known if r.tp == 1 and r.pp == 1], 0.0)
    by_ranks = {n: median([r for r in known if r.tp == n], 0.0) for n in sorted({r.tp for r in known}) if n > 1}
    slope = float(base["collectives_per_rank_gib"]) if base else 0.0
    if len(by_ranks) > 1:
        slope = max(0.0, float(np.polyfit(list(by_ranks), list(by_ranks.values()), 1)[0]))
    first = min(by_ranks, default=2)
    return {
        "runtime_gib": single,
        "pipeline_runtime_gib": median(
            [r for r in known if r.pp > 1 and r.tp == 1], float(base["pipeline_runtime_gib"]) if base else single
        ),
        "collectives_gib": max(0.0, by_ranks.get(first, single) - slope * (first - 2) - single),
        "collectives_per_rank_gib": slope,
    }


def _graph_rows(runs: list[_Run], memory: EngineMemory) -> Array:
    """GiB of each run's graph pool per unit of GRAPH_TERMS, (runs, terms)."""
    return np.asarray(
        [
            graph_terms(
                r.widths, memory, max_num_seqs=r.seqs, layers=r.layers, tp=r.tp, moe_tp=r.tp, ep=1, attention_dp=1
            )
            for r in runs
        ]
    ) / float(GIB)


def _graphs(runs: list[_Run], memory: EngineMemory) -> dict[str, float]:
    from scipy.optimize import least_squares

    table, measured = _graph_rows(runs, memory), np.asarray([r.graphs for r in runs], dtype=float)

    def errors(x: Array) -> Array:
        return np.asarray(table @ x - measured)

    found = least_squares(
        errors,
        np.asarray([0.3, 150.0, 7.0, 70.0]),
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=0.1,
        x_scale=[0.1, 100.0, 5.0, 50.0],
    )
    return dict(zip(GRAPH_TERMS, (float(v) for v in found.x), strict=True))


def _residuals(
    runs: list[_Run], memory: EngineMemory, values: dict[str, float], *, with_graphs: bool
) -> dict[str, Array]:
    fitted = _coefficients(values)
    out: dict[str, list[float]] = {"activation": [], "non_torch": []}
    for r in runs:
        if r.activation is not None:
            out["activation"].append(_activation(r, fitted) - r.activation)
        if r.non_torch is not None:
            group = fitted.collectives_gib + fitted.collectives_per_rank_gib * (r.tp - 2) if r.tp > 1 else 0.0
            alone = fitted.pipeline_runtime_gib if r.pp > 1 and r.tp == 1 else fitted.runtime_gib
            out["non_torch"].append(alone + group - r.non_torch)
    graphs = [r for r in runs if r.graphs is not None and r.graphs > 0]
    if with_graphs and graphs:
        coefficients = [values[k] for k in GRAPH_TERMS]
        out["graphs"] = list(_graph_rows(graphs, memory) @ coefficients - [r.graphs for r in graphs])
    return {k: np.asarray(v) for k, v in out.items()}

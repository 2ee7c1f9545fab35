"""Questions people asked in public: the predicted outcome beside the measured one.

A collection is a folder with ``outcomes.yaml`` (question, source, measured values, layout, the named cause of a known
miss) and scenario files. Memory questions go through the memory budget; the others through an estimate that the caller
passes in (planner.estimate), since a search is above this room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.catalog import Catalog
from planner.catalog.files import read_yaml
from planner.catalog.scheduler_spec import scheduler_spec
from planner.errors import InputError, PlannerError
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.memory.budget import StageRole, memory_budget
from planner.memory.coefficients import engine_memory
from planner.model.precision import PrecisionPlan
from planner.scenario.load import resolve_model, scenario_from_data
from planner.scenario.safe_yaml import load_yaml
from planner.scenario.schema import Scenario
from planner.units import GIB

OUTCOMES_FILE = "outcomes.yaml"
MINUTE_S = 60.0
MEMORY_FIGURES = frozenset({"fits", "weights_gib", "kv_gib", "kv_tokens", "needed_gib", "max_concurrency"})
TOLERANCES = {"memory": 0.05, "needed_gib": 0.02, "time": 0.35}
"""Relative differences within which a figure counts as met: memory terms, and times or rates."""


@dataclass(frozen=True)
class Finding:
    """One figure of one question; ``predicted`` is None where the planner cannot state it."""

    id: str
    case: str
    figure: str
    measured: float | bool
    predicted: float | bool | None
    met: bool
    cause: str
    """Named reason of a miss, or of not stating it."""


Estimator = Callable[[Scenario, Layouts, float], Mapping[str, float]]
"""(scenario, layout, requests in flight of the worker) -> ttft_ms, tpot_ms, output_tok_s, request_rps."""


def read_outcomes(folder: Path) -> list[Mapping[str, Any]]:
    """The questions of a collection. Raises InputError where the file is not one."""
    entries = read_yaml(folder / OUTCOMES_FILE).get("questions")
    if not isinstance(entries, list) or not all("id" in e and "source" in e for e in entries):
        raise InputError(OUTCOMES_FILE, type(entries).__name__, "a list of questions with id and source")
    return entries


def answer(folder: Path, entry: Mapping[str, Any], catalog: Catalog, estimator: Estimator) -> list[Finding]:
    """All figures of a question; one finding without figures where it cannot be stated."""
    if "cases" not in entry:
        return [Finding(entry["id"], "", "–", False, None, False, str(entry["unstated"]))]
    found: list[Finding] = []
    for case in entry["cases"]:
        scenario = scenario_of(folder, case)
        layout = Layouts.of(**_layout(case["layout"]))
        wanted: Mapping[str, float | bool] = case["measured"]
        predicted: dict[str, float | bool] = {}
        cause = str(case.get("cause", ""))
        try:
            if wanted.keys() & MEMORY_FIGURES:
                given = case.get("stage_layers")
                layers = None if given is None else tuple(given)
                predicted |= memory_figures(scenario, layout, catalog, case.get("stage"), layers)
            if wanted.keys() - MEMORY_FIGURES:
                predicted |= estimator(scenario, layout, float(case["concurrency"]))
        except PlannerError as error:
            cause = f"{cause}: {error}" if cause else str(error)
        if "request_rps" in predicted:
            w = scenario.workload
            tokens = float(w.input_tokens.mean() + w.output_tokens.mean())
            predicted["total_tokens_per_minute"] = predicted["request_rps"] * tokens * MINUTE_S
        for figure, value in wanted.items():
            other = predicted.get(figure)
            met = is_met(figure, value, other)
            found.append(
                Finding(entry["id"], str(case.get("name", "")), figure, value, other, met, "" if met else cause)
            )
    return found


def scenario_of(folder: Path, case: Mapping[str, Any]) -> Scenario:
    """The case's scenario file with its ``change`` (dotted field: value) put in."""
    path = folder / "scenarios" / str(case["scenario"])
    data = load_yaml(path.read_text(encoding="utf-8"), path.name)
    for dotted, value in (case.get("change") or {}).items():
        *parents, last = str(dotted).split(".")
        inner = data
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return scenario_from_data(data, path.parent, path.name)


def memory_figures(
    scenario: Scenario,
    layout: Layouts,
    catalog: Catalog,
    stage: StageRole | None = None,
    stage_layers: tuple[int, ...] | None = None,
) -> dict[str, float | bool]:
    """The memory budget of a scenario's one node type and engine options, figures named as outcomes name them."""
    spec = resolve_model(scenario, catalog)
    precision = PrecisionPlan.from_checkpoint(spec).with_overrides(scenario.precision.given())
    node = catalog.node(scenario.hardware.candidates[0].node)
    here = device(catalog.accelerator(node.accelerator), node)
    options, engine = scenario.engine.options, scenario.engine
    memory = engine_memory(engine.name)
    budget_tokens = options.max_num_batched_tokens
    length = options.max_model_len or spec.max_context_tokens
    budget = memory_budget(
        spec,
        precision,
        layout,
        here,
        memory,
        max_num_seqs=options.max_num_seqs or memory.max_num_seqs(here.mem_bytes),
        max_num_batched_tokens=budget_tokens
        or scheduler_spec(catalog, engine.name).default_token_budget(here.mem_bytes),
        engine_version=engine.version,
        gpu_memory_utilization=options.gpu_memory_utilization,
        needed_tokens=length,
        cuda_graphs=options.cuda_graphs is not False,
        stage=stage,
        stage_layers=stage_layers,
    )
    return {
        "fits": bool(budget.fits[0]),
        "weights_gib": float(budget.weights[0] / GIB),
        "kv_gib": float(budget.kv[0] / GIB),
        "kv_tokens": float(budget.kv_tokens[0]),
        "needed_gib": float(budget.needed_kv[0] / GIB),
        "max_concurrency": float(budget.sequences(length)[0]),
    }


def is_met(figure: str, measured: float | bool, predicted: float | bool | None) -> bool:
    """Whether a prediction is near the outcome: equal for yes and no, within TOLERANCES for numbers."""
    if predicted is None:
        return False
    if isinstance(measured, bool):
        return bool(predicted) == measured
    kind = figure if figure in TOLERANCES else "memory" if figure in MEMORY_FIGURES else "time"
    return bool(abs(np.log(max(float(predicted), 1e-12) / float(measured))) <= np.log1p(TOLERANCES[kind]))


def _layout(given: Mapping[str, int]) -> dict[str, int]:
    """A layout with moe_tp filled in: ranks not used by ep."""
    full = {"tp": 1, "pp": 1, "attention_dp": 1, "ep": 1} | dict(given)
    full.setdefault("moe_tp", full["tp"] * full["attention_dp"] // full["ep"])
    return full


def table(findings: Sequence[Finding]) -> str:
    """The findings as a Markdown table."""
    lines = [
        "| question | case | figure | measured | predicted | ratio | near | cause |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for f in findings:
        ratio = (
            ""
            if f.predicted is None or isinstance(f.measured, bool)
            else f"{float(f.predicted) / float(f.measured):.2f}"
        )
        shown = "–" if f.figure == "–" else _cell(f.measured)
        lines.append(
            f"| {f.id} | {f.case} | {f.figure} | {shown} | {_cell(f.predicted)} | {ratio} | "
            f"{'yes' if f.met else 'no'} | {f.cause} |"
        )
    return "\n".join(lines)


def _cell(value: float | bool | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"

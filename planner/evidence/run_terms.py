"""Terms of measured end-to-end runs from the planner's own formulas: operators by family, memory, shape of the load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog.loader import Catalog
from planner.catalog.model_spec import ModelSpec
from planner.catalog.scheduler_spec import SchedulerSpec, scheduler_spec
from planner.errors import PlannerError
from planner.evidence.importers.names import unknown_gpu
from planner.evidence.intervals import curve_spread
from planner.evidence.run_layouts import impossible_layouts, run_layouts
from planner.evidence.run_predict import (
    CoefficientArrays,
    PhaseTerms,
    RunTerms,
    breakdown,
    concatenate,
    predict,
)
from planner.evidence.run_reading import (
    MODELS_HINT,
    ReadingRules,
    architecture_name,
    known_spec,
    kv_of,
    models_by_name,
    precision_of,
    reading_rules,
    unreadable,
)
from planner.evidence.runs import Runs
from planner.hardware.curves import curves
from planner.hardware.device import Device, device
from planner.layout.layouts import Layouts
from planner.memory.budget import memory_budget
from planner.memory.coefficients import engine_memory
from planner.roofline.coefficients import COLUMNS, column_of, default_expert_skew, unit_coefficients
from planner.roofline.program import program
from planner.roofline.step import (
    FAMILY_OF_TERM,
    StepContext,
    StepTimes,
    StepWork,
    all_reduces_across,
    dispatched_as_measured,
    kernel_layers,
    number_format,
    step_times,
)
from planner.serving.worker import (
    Scheduling,
    Traffic,
    aggregated_steps,
    decode_work,
    full_prefill_work,
    prefill_pool_steps,
)

__all__ = [
    "CoefficientArrays",
    "PhaseTerms",
    "RunTerms",
    "architecture_name",
    "breakdown",
    "predict",
    "reading_rules",
    "run_terms",
]

Array = NDArray[np.float64]


GROUPED = (
    "model",
    "gpu",
    "engine",
    "engine_version",
    "linear_precision",
    "moe_precision",
    "serving",
    "kv_precision",
)
"""Columns whose values the runs of a group share."""


def run_terms(
    runs: Runs, catalog: Catalog, models: Mapping[str, ModelSpec] | None = None
) -> tuple[RunTerms, dict[int, str]]:
    """Terms of every run that can be predicted, and for the others the reason by row.

    ``models`` are specifications beside the catalogue's, by Hugging Face id in lower case.
    """
    rules = reading_rules()
    known = models_by_name(catalog) | dict(models or {})
    failures: dict[int, str] = {}
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(runs)):
        reason = unreadable(runs, row)
        if reason:
            failures[row] = reason
            continue
        bench = rules.bench_of(runs.text["bench"][row], runs["input_tokens"][row], runs["output_tokens"][row])
        groups.setdefault((*(runs.text[k][row] for k in GROUPED), bench), []).append(row)
    parts: list[RunTerms] = []
    for key, rows in groups.items():
        spec, engine, serving = known_spec(known, key[0]), key[2], key[6]
        if spec is not None and engine in catalog.engine_names():
            pools = ("",) if serving == "agg" else ("prefill_", "decode_")
            impossible = impossible_layouts(runs, rows, pools, spec, engine)
            failures |= impossible
            rows = [row for row in rows if row not in impossible]
        if rows:
            found, failed = _group_or_rows(runs, rows, key, catalog, known, rules)
            parts += found
            failures |= failed
    return concatenate(parts), failures


def _group_or_rows(
    runs: Runs,
    rows: list[int],
    key: tuple[str, ...],
    catalog: Catalog,
    known: Mapping[str, ModelSpec],
    rules: ReadingRules,
) -> tuple[list[RunTerms], dict[int, str]]:
    """Terms of a group at once; where that fails, of its halves, so that one bad row does not take others along."""
    try:
        return [_group_terms(runs, np.array(rows), key, catalog, known, rules)], {}
    except PlannerError as error:
        if len(rows) == 1:
            return [], {rows[0]: str(error)}
    parts: list[RunTerms] = []
    failures: dict[int, str] = {}
    for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        found, failed = _group_or_rows(runs, half, key, catalog, known, rules)
        parts += found
        failures |= failed
    return parts, failures


def _group_terms(
    runs: Runs,
    rows: NDArray[np.int64],
    key: tuple[str, ...],
    catalog: Catalog,
    known: Mapping[str, ModelSpec],
    rules: ReadingRules,
) -> RunTerms:
    model, gpu, engine, version, linear, moe, serving, kv, bench_name = key
    spec = known_spec(known, model)
    if spec is None:
        raise PlannerError(f"model {model} is not in the catalogue; {MODELS_HINT}")
    if gpu not in catalog.accelerator_ids():
        raise unknown_gpu(gpu, catalog.accelerator_ids())
    accelerator = catalog.accelerator(gpu)
    here = device(accelerator)
    bench = rules.benches[bench_name]
    kv = kv_of(kv, bench.kv_format(linear, moe, engine, accelerator.arch))
    precision = precision_of(spec, linear, moe, kv, rules, model)
    ctx = StepContext(
        program=program(spec),
        precision=precision,
        curves=curves(here, engine),
        coefficients=unit_coefficients(),
        domain=accelerator.scale_up.domain_size or 1,
        expert_skew=default_expert_skew(),
        expert_kernel=rules.expert_kernel(engine, version, accelerator.arch, precision.routed_experts),
        whole_dense=engine_memory(engine, catalog).whole_dense,
    )
    options = bench.engine_options(engine, accelerator.arch)
    waiting = 0.0 if linear else float(options.get("waiting_if_format_unstated", 0.0))
    traffic = Traffic(
        runs["input_tokens"][rows] * bench.length_share,
        runs["output_tokens"][rows] * bench.length_share,
        fixed_lengths=bench.fixed_lengths,
        # A request that waits for a slot takes each as it comes free: they do not return in groups.
        returning_together=1.0 if waiting else bench.returning_together,
    )
    scheduler = scheduler_spec(catalog, engine)
    common = _Common(runs, rows, ctx, spec, here, engine, version, traffic, scheduler, options, waiting)
    build = _aggregated if serving == "agg" else _disaggregated
    return replace(
        build(common),
        first_wave_share=np.full(rows.size, bench.first_wave_share),
        curve_spread=np.full(rows.size, curve_spread(ctx.curves.used())),
        engine=(engine,) * rows.size,
        generation=(accelerator.arch,) * rows.size,
    )


@dataclass(frozen=True)
class _Common:
    runs: Runs
    rows: NDArray[np.int64]
    ctx: StepContext
    spec: ModelSpec
    device: Device
    engine: str
    version: str
    traffic: Traffic
    scheduler: SchedulerSpec
    options: Mapping[str, float]
    waiting: float
    """Requests that the client keeps in flight beyond the recorded ones, which fill the batch."""

    def terms(self, **known: Any) -> RunTerms:
        """Terms of these rows; what an aggregated deployment does not have is neutral."""
        n = self.rows.size
        defaults: dict[str, Any] = {
            "rows": self.rows,
            "output_tokens": np.asarray(self.traffic.output_tokens),
            "first_wave_share": np.zeros(n),
            "disaggregated": np.full(n, "prefill_servers" in known),
            "prefill_servers": np.ones(n),
            "transfer_s": np.zeros(n),
            "curve_spread": np.zeros(n),
            "engine": (),
            "generation": (),
        }
        return RunTerms(**(defaults | known))

    def layouts(self, pool: str = "") -> Layouts:
        """Layouts of the rows in a pool."""
        return run_layouts(self.runs, self.rows, pool, self.spec)

    @property
    def budget(self) -> Array:
        """Prompt tokens of one step, (n,)."""
        default = float(self.options.get("token_budget", self.scheduler.default_token_budget(self.device.mem_bytes)))
        if "token_budget_beyond_input" in self.options:
            nominal = self.runs["input_tokens"][self.rows] + self.runs["concurrency"][self.rows]
            return np.asarray(nominal + self.options["token_budget_beyond_input"])
        return np.full(self.rows.size, default)

    def poll_steps(self, layouts: Layouts) -> Array:
        """Steps between two looks at the queue, (n,)."""
        usual = float(self.options.get("poll_steps", 1.0))
        few = float(self.options.get("poll_steps_below_16", usual))
        steps = np.where(self.runs["concurrency"][self.rows] < 16, few, usual)
        if "balance_steps" in self.options:
            steps = np.where(layouts.attention_dp > 1, self.options["balance_steps"], steps)
        if "batch_wait_steps" in self.options and not self.ctx.program.moes:
            even = self.runs["input_tokens"][self.rows] == self.runs["output_tokens"][self.rows]
            steps = np.where(even & (layouts.tp < 8), self.options["batch_wait_steps"], steps)
        return np.asarray(steps)

    def slots(self, layouts: Layouts, per_worker: Array) -> Array:
        """Requests that fit a worker's cache at their mean length.

        A deployment that ran held at least one: where the recorded layout and formats leave no room even at the larger
        share that launch scripts resort to, the record is wrong about them and the cache is taken as no limit.
        """
        seqs = np.minimum(np.ceil(per_worker / layouts.attention_dp), self.scheduler.max_num_seqs)
        usual, most = self.options.get("memory_share"), self.options.get("largest_memory_share")
        fitting = self._sequences(layouts, seqs, usual)
        if most is not None and np.any(fitting < 1.0):
            fitting = np.where(fitting < 1.0, self._sequences(layouts, seqs, most), fitting)
        fitting = np.where(fitting < 1.0, np.inf, fitting)
        return np.minimum(np.floor(fitting), seqs) * layouts.attention_dp

    def _sequences(self, layouts: Layouts, seqs: Array, share: float | None) -> Array:
        memory = memory_budget(
            self.spec,
            self.ctx.precision,
            layouts,
            self.device,
            self.engine,
            max_num_seqs=np.maximum(seqs, 1.0),
            max_num_batched_tokens=self.budget,
            gpu_memory_utilization=share,
        )
        return np.asarray(memory.sequences(np.ceil(self.traffic.mean_context)), dtype=float)


def _phase(times: StepTimes, layouts: Layouts, work: StepWork, ctx: StepContext) -> PhaseTerms:
    n = len(layouts)
    operators = np.zeros((n, len(COLUMNS)))
    other = np.zeros(n)
    for term, family in FAMILY_OF_TERM.items():
        if family == "other":
            other += times.exposed[term]
        else:
            operators[:, column_of(family, number_format(ctx.precision, term))] += times.exposed[term]
    _, deepep = _flags(layouts, ctx)
    # The experts' factor speaks of fused kernels; the others count as they were measured.
    dispatched = bool(ctx.program.moes) and dispatched_as_measured(ctx, work.has_prefill)
    as_measured = (deepep & dispatched) | (ctx.expert_kernel != "moe")
    apart = np.where(as_measured, times.exposed["routed_experts"], times.expert_apart)
    stream = np.where(as_measured, 0.0, np.maximum(times.expert_stream - apart, 0.0))
    if np.any(apart):
        operators[:, column_of("experts", number_format(ctx.precision, "routed_experts"))] -= apart
        other += apart
    across = np.where(all_reduces_across(ctx, layouts), times.exposed["collectives"], 0.0)
    operators[:, column_of("communication")] -= across
    other += across
    sequences = work.decode_seqs if work.prefill_seqs is None else work.decode_seqs + work.prefill_seqs
    layers = np.full(n, float(ctx.program.layers))
    moe_layers = np.full(n, float(ctx.program.moe_layers))
    return PhaseTerms(
        operators,
        stream,
        np.asarray(times.linear_stream, dtype=float),
        other,
        layers,
        np.full(n, kernel_layers(ctx)),
        moe_layers,
        layouts.pp.astype(float),
        np.asarray(sequences, dtype=float),
    )


def _flags(layouts: Layouts, ctx: StepContext) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return np.zeros(len(layouts), dtype=bool), layouts.stage_gpus > ctx.domain


def _apart(c: _Common) -> RunTerms:
    """Decodes that no prompt disturbs; a prompt takes ``prompts_apart`` times its own steps (runs.yaml)."""
    layouts = c.layouts()
    concurrency = c.runs["concurrency"][c.rows]
    slots = c.slots(layouts, concurrency)
    steps = _separate_steps(c, layouts, layouts, np.minimum(concurrency, slots))
    steps["chunks"] = steps["chunks"] * c.options["prompts_apart"]
    return c.terms(concurrency=concurrency, slots=slots, prefill_servers=concurrency, **steps)


def _separate_steps(c: _Common, prefill_layouts: Layouts, decode_layouts: Layouts, running: Array) -> dict[str, Any]:
    """Terms of decode steps of ``running`` requests and of steps that carry prompts alone."""
    decode_step = decode_work(running, decode_layouts, c.traffic)
    decode = step_times(c.ctx, decode_layouts, decode_step, *_flags(decode_layouts, c.ctx))
    work, chunks, prompts = prefill_pool_steps(prefill_layouts, c.traffic, c.budget)
    times = step_times(c.ctx, prefill_layouts, work, *_flags(prefill_layouts, c.ctx))
    prefill = _phase(times, prefill_layouts, work, c.ctx)
    return {
        "decode": _phase(decode, decode_layouts, decode_step, c.ctx),
        "prefill": prefill,
        "wave": prefill,
        "chunks": chunks,
        "prompts_per_step": prompts,
        "group_prompts": prompts,
        "most_prompts": prompts,
        "poll_steps": np.ones(c.rows.size),
        "pause": np.ones(c.rows.size, dtype=bool),
    }


def _aggregated(c: _Common) -> RunTerms:
    if c.options.get("prompts_apart"):
        return _apart(c)
    layouts = c.layouts()
    concurrency = c.runs["concurrency"][c.rows]
    slots = np.minimum(c.slots(layouts, concurrency), concurrency)
    concurrency = concurrency + c.waiting
    flags = _flags(layouts, c.ctx)
    scheduling = Scheduling(c.budget, c.scheduler.policy == "prefill_first", *flags, poll_steps=c.poll_steps(layouts))
    steps = aggregated_steps(layouts, concurrency, slots, c.traffic, scheduling)
    wave = full_prefill_work(layouts, steps, c.traffic, scheduling)
    return c.terms(
        decode=_phase(step_times(c.ctx, layouts, steps.decode, *flags), layouts, steps.decode, c.ctx),
        prefill=_phase(step_times(c.ctx, layouts, steps.prefill, *flags), layouts, steps.prefill, c.ctx),
        wave=_phase(step_times(c.ctx, layouts, wave, *flags), layouts, wave, c.ctx),
        concurrency=concurrency,
        slots=slots,
        chunks=steps.chunks,
        prompts_per_step=steps.prompts_per_step,
        group_prompts=steps.group_prompts,
        most_prompts=steps.most_prompts,
        poll_steps=steps.poll_steps,
        pause=steps.pause,
    )


def _disaggregated(c: _Common) -> RunTerms:
    prefill_layouts, decode_layouts = c.layouts("prefill_"), c.layouts("decode_")
    workers = {pool: np.maximum(c.runs[f"{pool}_workers"][c.rows], 1.0) for pool in ("prefill", "decode")}
    concurrency = c.runs["concurrency"][c.rows]
    slots = c.slots(decode_layouts, concurrency / workers["decode"])
    running = np.minimum(concurrency / workers["decode"], slots)
    steps = _separate_steps(c, prefill_layouts, decode_layouts, running)
    return c.terms(
        concurrency=concurrency,
        slots=slots * workers["decode"],
        prefill_servers=workers["prefill"] * steps["prompts_per_step"],
        **steps,
    )

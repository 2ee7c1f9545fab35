"""What the planner's own formulas say about measured runs: step times by operator family, closed loop over them.

The expensive half (operators, memory) is evaluated once with unit coefficients; :func:`predict` then puts any
coefficients on top, so that a fit and a validation share one path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog.files import read_yaml
from planner.catalog.loader import Catalog, data_root
from planner.catalog.model_spec import ModelSpec
from planner.catalog.scheduler_spec import SchedulerSpec, scheduler_spec
from planner.errors import PlannerError
from planner.evidence.runs import LAYOUT, Runs
from planner.hardware.curves import curves
from planner.hardware.device import Device, device
from planner.layout.layouts import Layouts
from planner.memory.budget import memory_budget
from planner.model.precision import PrecisionPlan
from planner.roofline.coefficients import COLUMNS, column_of, factor_key, unit_coefficients
from planner.roofline.program import program
from planner.roofline.step import (
    FAMILY_OF_TERM,
    StepContext,
    StepTimes,
    StepWork,
    launch_excess,
    number_format,
    step_times,
)
from planner.serving.closed_loop import LoopTimes, aggregated, disaggregated
from planner.serving.worker import (
    Scheduling,
    Traffic,
    aggregated_steps,
    decode_work,
    full_prefill_work,
    prefill_pool_steps,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PhaseTerms:
    """One kind of step of n runs: operator seconds by COLUMNS (n, F) at unit factors, and what host time multiplies."""

    operators: Array
    other: Array
    layers: Array
    moe_layers: Array
    stages: Array
    sequences: Array


@dataclass(frozen=True)
class RunTerms:
    """Predictable runs, arrays (n,): ``rows`` are their positions in the table."""

    rows: NDArray[np.int64]
    decode: PhaseTerms
    prefill: PhaseTerms
    wave: PhaseTerms
    """The full prefill steps of the first wave."""
    concurrency: Array
    slots: Array
    output_tokens: Array
    chunks: Array
    prompts_per_step: Array
    group_prompts: Array
    most_prompts: Array
    poll_steps: Array
    pause: NDArray[np.bool_]
    first_wave_share: Array
    disaggregated: NDArray[np.bool_]
    prefill_servers: Array
    transfer_s: Array
    engine: tuple[str, ...]
    generation: tuple[str, ...]

    def take(self, mask: NDArray[np.bool_]) -> RunTerms:
        """The runs selected by a boolean mask of shape (n,)."""
        taken: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, PhaseTerms):
                taken[f.name] = PhaseTerms(*(getattr(value, g.name)[mask] for g in fields(PhaseTerms)))
            elif isinstance(value, tuple):
                taken[f.name] = tuple(np.array(value, dtype=object)[mask])
            else:
                taken[f.name] = value[mask]
        return RunTerms(**taken)


@dataclass(frozen=True)
class BenchRules:
    """What the client and the launch scripts of a kind of benchmark fix."""

    length_share: float
    fixed_lengths: bool
    first_wave_share: float
    kv_fp8: Mapping[str, Any]
    scheduling: Mapping[str, Mapping[str, Mapping[str, float]]]
    returning_together: float = 1.0
    vendor_lengths: Sequence[Sequence[float]] = ()
    """Input and output lengths by which a run labelled as a vendor's is one of this kind."""
    vendor_input_multiple_of: float | None = None

    def claims(self, tokens_in: float, tokens_out: float) -> bool:
        """Whether a vendor's run of these lengths is of this kind."""
        step = self.vendor_input_multiple_of
        return [tokens_in, tokens_out] in self.vendor_lengths or (step is not None and tokens_in % step == 0)

    def kv_format(self, linear: str, moe: str, engine: str, generation: str) -> str:
        """Format of the KV cache, which runs do not record."""
        rule = self.kv_fp8
        narrow = linear in rule["linear"] or moe in rule["moe_on"].get(generation, ())
        return "fp8_tensor" if narrow and engine in rule["engines"] else "bf16"

    def engine_options(self, engine: str, generation: str) -> Mapping[str, float]:
        """Scheduler options of the launch scripts; empty where the engine's defaults hold."""
        by_generation = self.scheduling.get(engine, {})
        return by_generation.get(generation, by_generation.get("any", {}))


@dataclass(frozen=True)
class ReadingRules:
    """hardware_db/efficiency/runs.yaml: what the runs' tables leave open, by rule."""

    formats: Mapping[str, str]
    block_scaled: str
    nvfp4_moe_linear: Mapping[str, str]
    benches: Mapping[str, BenchRules]

    def bench_of(self, label: str, tokens_in: float, tokens_out: float) -> str:
        """Kind of benchmark of a run, one of ``benches``."""
        if label == "vendor":
            label = next((name for name, b in self.benches.items() if b.claims(tokens_in, tokens_out)), label)
        return label if label in self.benches else "other"


def reading_rules(directory: Path | None = None) -> ReadingRules:
    """The shipped rules, or those in ``directory``."""
    data = read_yaml((directory or data_root() / "hardware_db" / "efficiency") / "runs.yaml")
    benches = {name: BenchRules(**values) for name, values in data["benches"].items()}
    return ReadingRules(data["precision"], data["block_scaled"], data["nvfp4_moe_linear"], benches)


def run_terms(
    runs: Runs, catalog: Catalog, models: Mapping[str, ModelSpec] | None = None
) -> tuple[RunTerms, dict[int, str]]:
    """Terms of every run that can be predicted, and for the others the reason by row.

    ``models`` are specifications beside the catalogue's, by Hugging Face id in lower case.
    """
    rules = reading_rules()
    known = _models_by_name(catalog) | dict(models or {})
    failures: dict[int, str] = {}
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(runs)):
        reason = _unreadable(runs, row)
        if reason:
            failures[row] = reason
            continue
        keys = ("model", "gpu", "engine", "engine_version", "linear_precision", "moe_precision", "serving")
        bench = rules.bench_of(runs.text["bench"][row], runs["input_tokens"][row], runs["output_tokens"][row])
        groups.setdefault((*(runs.text[k][row] for k in keys), bench), []).append(row)
    parts: list[RunTerms] = []
    for key, rows in groups.items():
        found, failed = _group_or_rows(runs, rows, key, catalog, known, rules)
        parts += found
        failures |= failed
    return _concatenate(parts), failures


def _group_or_rows(
    runs: Runs,
    rows: list[int],
    key: tuple[str, ...],
    catalog: Catalog,
    known: Mapping[str, ModelSpec],
    rules: ReadingRules,
) -> tuple[list[RunTerms], dict[int, str]]:
    """Terms of a group at once; where that fails, row by row, so that one bad row does not take the others along."""
    try:
        return [_group_terms(runs, np.array(rows), key, catalog, known, rules)], {}
    except PlannerError as error:
        if len(rows) == 1:
            return [], {rows[0]: str(error)}
    parts: list[RunTerms] = []
    failures: dict[int, str] = {}
    for row in rows:
        found, failed = _group_or_rows(runs, [row], key, catalog, known, rules)
        parts += found
        failures |= failed
    return parts, failures


_VARIANT = re.compile(r"[-_](instruct|chat|base|it|fp8|fp4|nvfp4|mxfp4|bf16|int4|w4a16|w8a8|awq|dynamic|hf|v\d|\d{4})$")


def architecture_name(model: str) -> str:
    """A Hugging Face id without its owner and the suffixes that keep the architecture: tuning, format, date."""
    name = model.split("/")[-1].lower()
    while (shorter := _VARIANT.sub("", name)) != name:
        name = shorter
    return name


def _models_by_name(catalog: Catalog) -> dict[str, ModelSpec]:
    """Specifications by architecture name; an exact Hugging Face id or catalogue id wins."""
    specs = [catalog.model(i) for i in catalog.model_ids()]
    loose = {architecture_name(s.hf_id or s.id): s for s in reversed(specs)}
    return loose | {s.hf_id.lower(): s for s in specs if s.hf_id} | {s.id: s for s in specs}


def _unreadable(runs: Runs, row: int) -> str | None:
    for name in ("input_tokens", "output_tokens", "concurrency"):
        if not runs[name][row] > 0:
            return f"{name} is missing"
    layouts = ("",) if runs.text["serving"][row] == "agg" else ("prefill_", "decode_")
    for pool in layouts:
        for name in LAYOUT:
            if not runs[f"{pool}{name}"][row] >= 1:
                return f"layout: {pool}{name} is missing"
    return None


def _precision(spec: ModelSpec, linear: str, moe: str, kv: str, rules: ReadingRules) -> PrecisionPlan:
    """Formats of a run: the checkpoint's, changed to what the run records."""
    plan = PrecisionPlan.from_checkpoint(spec)
    blocks = rules.block_scaled in (plan.attention, plan.routed_experts, plan.dense_mlp)
    changes: dict[str, str] = {"kv": kv}
    if linear:
        dense = dict.fromkeys(("attention", "dense_mlp", "shared_experts"), _format(linear, blocks, rules))
        changes |= dense if linear != "nvfp4" or not moe else dict(rules.nvfp4_moe_linear)
    if moe:
        changes["routed_experts"] = _format(moe, blocks, rules)
    return plan.with_overrides(changes)


def _format(recorded: str, blocks: bool, rules: ReadingRules) -> str:
    return rules.block_scaled if recorded == "fp8" and blocks else rules.formats.get(recorded, recorded)


def _group_terms(
    runs: Runs,
    rows: NDArray[np.int64],
    key: tuple[str, ...],
    catalog: Catalog,
    known: Mapping[str, ModelSpec],
    rules: ReadingRules,
) -> RunTerms:
    model, gpu, engine, version, linear, moe, serving, bench_name = key
    spec = known.get(model.lower()) or known.get(architecture_name(model))
    if spec is None:
        raise PlannerError(f"model {model} is not in the catalogue; give its specification with --models")
    accelerator = catalog.accelerator(gpu)
    here = device(accelerator)
    bench = rules.benches[bench_name]
    precision = _precision(spec, linear, moe, bench.kv_format(linear, moe, engine, accelerator.arch), rules)
    ctx = StepContext(
        program=program(spec),
        precision=precision,
        curves=curves(here, engine),
        coefficients=unit_coefficients(),
        domain=accelerator.scale_up.domain_size or 1,
        expert_skew=0.0,
    )
    traffic = Traffic(
        runs["input_tokens"][rows] * bench.length_share,
        runs["output_tokens"][rows] * bench.length_share,
        fixed_lengths=bench.fixed_lengths,
        returning_together=bench.returning_together,
    )
    scheduler = scheduler_spec(catalog, engine)
    options = bench.engine_options(engine, accelerator.arch)
    common = _Common(runs, rows, ctx, spec, here, engine, version, traffic, scheduler, options)
    build = _aggregated if serving == "agg" else _disaggregated
    return replace(
        build(common),
        first_wave_share=np.full(rows.size, bench.first_wave_share),
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
            "engine": (),
            "generation": (),
        }
        return RunTerms(**(defaults | known))

    def layouts(self, pool: str = "") -> Layouts:
        given = {name: self.runs[f"{pool}{name}"][self.rows].astype(np.int64) for name in LAYOUT}
        if not self.ctx.program.moes:
            given = {name: given[name] for name in ("tp", "pp", "attention_dp")}
        return Layouts.of(**given)

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
    sequences = work.decode_seqs if work.prefill_seqs is None else work.decode_seqs + work.prefill_seqs
    layers = np.full(n, float(ctx.program.layers))
    moe_layers = np.full(n, float(ctx.program.moe_layers))
    return PhaseTerms(
        operators, other, layers, moe_layers, layouts.pp.astype(float), np.asarray(sequences, dtype=float)
    )


def _flags(layouts: Layouts, ctx: StepContext) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return np.zeros(len(layouts), dtype=bool), layouts.stage_gpus > ctx.domain


def _aggregated(c: _Common) -> RunTerms:
    layouts = c.layouts()
    concurrency = c.runs["concurrency"][c.rows]
    slots = c.slots(layouts, concurrency)
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
    decode_step = decode_work(running, decode_layouts, c.traffic)
    decode = step_times(c.ctx, decode_layouts, decode_step, *_flags(decode_layouts, c.ctx))
    work, chunks, prompts = prefill_pool_steps(prefill_layouts, c.traffic, c.budget)
    prefill = step_times(c.ctx, prefill_layouts, work, *_flags(prefill_layouts, c.ctx))
    return c.terms(
        decode=_phase(decode, decode_layouts, decode_step, c.ctx),
        prefill=_phase(prefill, prefill_layouts, work, c.ctx),
        wave=_phase(prefill, prefill_layouts, work, c.ctx),
        concurrency=concurrency,
        slots=slots * workers["decode"],
        chunks=chunks,
        prompts_per_step=prompts,
        group_prompts=prompts,
        most_prompts=prompts,
        poll_steps=np.ones(c.rows.size),
        pause=np.ones(c.rows.size, dtype=bool),
        prefill_servers=workers["prefill"] * prompts,
    )


def _concatenate(parts: Sequence[RunTerms]) -> RunTerms:
    if not parts:
        return _nothing()
    joined: dict[str, Any] = {}
    for f in fields(RunTerms):
        values = [getattr(p, f.name) for p in parts]
        if isinstance(values[0], PhaseTerms):
            joined[f.name] = PhaseTerms(
                *(np.concatenate([getattr(v, g.name) for v in values]) for g in fields(PhaseTerms))
            )
        elif isinstance(values[0], tuple):
            joined[f.name] = tuple(x for v in values for x in v)
        else:
            joined[f.name] = np.concatenate(values)
    return RunTerms(**joined)


def _nothing() -> RunTerms:
    """Terms of no run at all."""
    empty = np.zeros(0)
    phase = PhaseTerms(np.zeros((0, len(COLUMNS))), empty, empty, empty, empty, empty)
    special: dict[str, Any] = {
        "rows": np.zeros(0, dtype=np.int64),
        "decode": phase,
        "prefill": phase,
        "wave": phase,
        "pause": np.zeros(0, dtype=bool),
        "disaggregated": np.zeros(0, dtype=bool),
        "engine": (),
        "generation": (),
    }
    return RunTerms(**{f.name: special.get(f.name, empty) for f in fields(RunTerms)})


def breakdown(terms: RunTerms, coefficients: CoefficientArrays) -> dict[str, Array]:
    """Seconds of one decode step and one prefill step by part, each (n,); parts that no run has are left out."""
    c = coefficients
    out: dict[str, Array] = {}
    for name, phase, factors in (("decode", terms.decode, c.decode), ("prefill", terms.prefill, c.prefill)):
        for i in range(len(COLUMNS)):
            if phase.operators[:, i].any():
                out[f"{name}_{factor_key(i)}"] = phase.operators[:, i] * factors[:, i]
        out[f"{name}_small_kernels"] = _small_kernels_s(phase, c) + phase.other
    total = {name: sum(v for k, v in out.items() if k.startswith(name)) for name in ("decode", "prefill")}
    out["decode_host"] = decode_step_s(terms.decode, c) - total["decode"]
    out["prefill_host"] = prefill_step_s(terms.prefill, c) - total["prefill"]
    return out


def predict(terms: RunTerms, coefficients: CoefficientArrays) -> LoopTimes:
    """TTFT, TPOT and throughput of every run (whole deployment) under coefficients given run by run."""
    c = coefficients
    d = decode_step_s(terms.decode, c)
    m = prefill_step_s(terms.prefill, c)
    agg = aggregated(
        terms.concurrency,
        terms.slots,
        terms.output_tokens,
        d,
        m,
        terms.chunks,
        terms.prompts_per_step,
        terms.pause,
        c.request_s,
        terms.first_wave_share,
        group_prompts=terms.group_prompts,
        most_prompts=terms.most_prompts,
        poll_steps=terms.poll_steps,
        wave_step_s=prefill_step_s(terms.wave, c),
    )
    dis = disaggregated(
        terms.concurrency,
        terms.slots,
        terms.output_tokens,
        d,
        m,
        terms.chunks,
        terms.prefill_servers,
        terms.transfer_s,
        c.request_s,
        terms.first_wave_share,
    )
    pick = [np.where(terms.disaggregated, getattr(dis, f.name), getattr(agg, f.name)) for f in fields(LoopTimes)]
    return LoopTimes(*pick)


@dataclass(frozen=True)
class CoefficientArrays:
    """Calibrated coefficients run by run: (n,) seconds, (n, F) factors."""

    host_step_s: Array
    host_prefill_step_s: Array
    host_seq_s: Array
    layer_overhead_s: Array
    moe_layer_overhead_s: Array
    launch_layer_s: Array
    launch_moe_layer_s: Array
    request_s: Array
    decode: Array
    prefill: Array


def decode_step_s(phase: PhaseTerms, c: CoefficientArrays) -> Array:
    """Seconds of a step without prompt tokens (planner.roofline.step, from its terms)."""
    return _operators_s(phase, c.decode, c) + c.host_step_s * phase.stages + c.host_seq_s * phase.sequences


def prefill_step_s(phase: PhaseTerms, c: CoefficientArrays) -> Array:
    """Seconds of a step with prompt tokens: kernels are launched one by one beside those that run."""
    busy = _operators_s(phase, c.prefill, c)
    launch = phase.layers * c.launch_layer_s + phase.moe_layers * c.launch_moe_layer_s
    busy = busy + launch_excess(busy, launch)
    return busy + c.host_prefill_step_s * phase.stages + c.host_seq_s * phase.sequences


def _operators_s(phase: PhaseTerms, factors: Array, c: CoefficientArrays) -> Array:
    operators = np.einsum("nf,nf->n", phase.operators, factors)
    return np.asarray(operators + phase.other + _small_kernels_s(phase, c))


def _small_kernels_s(phase: PhaseTerms, c: CoefficientArrays) -> Array:
    return np.asarray(phase.layers * c.layer_overhead_s + phase.moe_layers * c.moe_layer_overhead_s)

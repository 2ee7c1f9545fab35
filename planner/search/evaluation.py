"""Workers evaluated: memory, steps, closed loop, latencies under load; one path for a few rows and for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.layout.layouts import Layouts
from planner.memory.budget import MemoryBudget, StageRole, memory_budget
from planner.memory.coefficients import engine_memory
from planner.memory.workspace import dispatch_sequences, dispatch_tokens
from planner.search.blocks import in_blocks
from planner.search.judge import short_of_nodes
from planner.search.loaded import (
    Loaded,
    Stage,
    judged,
    meets,
    prompt_shape,
    rates,
    sharing,
    stage_of,
)
from planner.search.passage import outside_s
from planner.search.setup import Hardware, Setup
from planner.search.table import Workers
from planner.serving.closed_loop import LoopTimes
from planner.serving.latency import LoadResult, joined
from planner.serving.open_loop import Flow, WorkerLoad
from planner.serving.rows import put
from planner.serving.worker import Scheduling, aggregated_worker

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


def budget_of(
    s: Setup,
    hw: Hardware,
    layouts: Layouts,
    concurrency: Array,
    tokens: IntArray | int,
    sequences: Array | None = None,
    *,
    stage: StageRole | None = None,
    kv_format: str | None = None,
    decodes: bool = True,
) -> MemoryBudget:
    """Memory of workers with ``concurrency`` requests of mean length each, run with at most ``sequences`` of them on an
    attention-DP rank (as many as there are where not given): of the tightest pipeline stage or of ``stage``, with the
    scenario's cache format or ``kv_format``. Workers that do not decode (``decodes``) send prompts to their experts in
    DeepEP's normal mode only.
    """
    options = s.scenario.engine.options
    per_rank = np.ceil(concurrency / layouts.attention_dp)
    running = np.maximum(per_rank if sequences is None else sequences, 1.0)
    queries = len(s.acceptance) + 1
    sent = dispatch_tokens(engine_memory(s.scenario.engine.name), sequences=running, queries=queries, tp=layouts.tp)
    return memory_budget(
        s.spec,
        s.precision if kv_format is None else s.precision.with_overrides({"kv": kv_format}),
        layouts,
        hw.device,
        s.scenario.engine.name,
        max_num_seqs=running,
        max_num_batched_tokens=tokens,
        engine_version=s.scenario.engine.version,
        gpu_memory_utilization=options.gpu_memory_utilization,
        needed_tokens=np.ceil(s.traffic.mean_context),
        needed_sequences=per_rank,
        cuda_graphs=options.cuda_graphs is not False,
        mtp=s.keeps_mtp,
        planned=True,
        dispatched=np.where(low_latency(s, hw, layouts), sent, 0.0) if decodes else 0.0,
        stage=stage,
    )


def most_sequences(s: Setup) -> int:
    """Most sequences of one rank: the scenario's setting, else the engine's default."""
    return s.scenario.engine.options.max_num_seqs or s.scheduler.max_num_seqs


def most_decoding(s: Setup, hw: Hardware, layouts: Layouts) -> Array:
    """The same of ranks that decode, (n,): no more than low-latency dispatch holds, drafts included, where it is used.

    Whole workers of vLLM send theirs by kernels that have no such bound (deepep_high_throughput) and keep it as well:
    decode steps are timed with the low-latency kernels.
    """
    most = float(most_sequences(s))
    held = dispatch_sequences(engine_memory(s.scenario.engine.name), queries=len(s.acceptance) + 1, tp=layouts.tp)
    return np.asarray(np.where(low_latency(s, hw, layouts), np.minimum(most, held), most))


def low_latency(s: Setup, hw: Hardware, layouts: Layouts) -> NDArray[np.bool_]:
    """Where decode steps send tokens to experts across scale-up domains by DeepEP's low-latency kernels, (n,)."""
    across = layouts.stage_gpus > hw.ctx.domain
    moves = (layouts.attention_dp > 1) & (layouts.ep == layouts.stage_gpus)
    return np.asarray(moves & across & (s.scheduler.dispatch_across == "deepep"))


def kv_slots(s: Setup, w: Workers, budget: MemoryBudget, share: float = 1.0) -> Array:
    """Requests of mean length that a ``share`` of a worker's cache and the engine's limit hold, (n,)."""
    most = most_decoding(s, w.hardware, w.layouts) * w.layouts.attention_dp
    return np.minimum(cache_slots(s, w, budget, share), most)


def cache_slots(s: Setup, w: Workers, budget: MemoryBudget, share: float = 1.0) -> Array:
    """Requests of mean length that a ``share`` of a worker's cache holds, whatever the engine's limit, (n,)."""
    held = share * budget.sequences(np.ceil(s.traffic.mean_context))
    return np.asarray(np.maximum(held, 1e-9) * w.layouts.attention_dp)


@dataclass(frozen=True)
class Held:
    """What judging needs of the memory budgets of workers, arrays (n,)."""

    total: Array
    """Bytes that the tightest rank needs."""
    capacity: Array
    fits: NDArray[np.bool_]

    def take(self, rows: IntArray) -> Held:
        return Held(self.total[rows], self.capacity[rows], self.fits[rows])

    def updated(self, rows: IntArray, part: Held) -> Held:
        """With those at positions ``rows`` replaced."""
        return Held(*(put(getattr(self, f.name), rows, getattr(part, f.name)) for f in fields(self)))


def held_by(budget: MemoryBudget) -> Held:
    return Held(budget.total, budget.capacity, budget.fits)


def evaluate(s: Setup, w: Workers) -> tuple[LoopTimes, Held, Stage]:
    """Memory, steps and closed-loop steady state of one worker of each row."""
    parts = in_blocks(len(w), lambda rows: _evaluate_block(s, w.take(rows)))
    loop, held, stage = (
        kind(*(np.concatenate([getattr(part[k], f.name) for part in parts]) for f in fields(kind)))
        for k, kind in enumerate((LoopTimes, Held, Stage))
    )
    return loop, held, stage


def _evaluate_block(s: Setup, w: Workers) -> tuple[LoopTimes, Held, Stage]:
    budget = budget_of(s, w.hardware, w.layouts, w.concurrency, w.token_budget)
    slots = kv_slots(s, w, budget, s.request_share)
    pause = s.scheduler.policy == "prefill_first"
    scheduling = Scheduling(w.token_budget.astype(float), pause, w.two_batch, w.deepep)
    # at an offered rate the closed loop only sizes the fleet, whose latencies follow from its load
    beside = outside_s(s, w) if s.rate_rps is None else w.hardware.ctx.coefficients.request_s
    worker = aggregated_worker(w.hardware.ctx, w.layouts, w.concurrency, slots, s.step_traffic, scheduling, beside)
    return worker.loop, held_by(budget), stage_of(worker, slots)


def with_prompt_shape(s: Setup, w: Workers, stage: Stage, at: IntArray) -> Stage:
    """With how the time of a prompt depends on its length, as it is at positions ``at`` (n,)."""
    few, back = np.unique(at, return_inverse=True)
    parts = in_blocks(few.size, lambda rows: prompt_shape(s, w.take(few[rows]), stage.take(few[rows])))
    fixed, quadratic, shared = (np.concatenate(columns)[back] for columns in zip(*parts, strict=True))
    return replace(stage, fixed=fixed, quadratic=quadratic, shared=shared)


def under_load(
    s: Setup, loaded: Loaded, wanted: Mapping[str, Sequence[str]] | None = None, known: Flow | None = None
) -> LoadResult:
    """Latencies of every row, as far as judging and ranking need them, or with the ``wanted`` percentiles.

    ``known``: the steady state of the workers, where it was found before.
    """
    wanted = judged(s) if wanted is None else wanted
    n = int(np.broadcast(loaded.worker.decode_step_s, loaded.worker.rate_rps).size)
    if known is None:
        return joined(in_blocks(n, lambda rows: loaded.take(rows).result(wanted)))
    return joined(in_blocks(n, lambda rows: loaded.take(rows).result(wanted, known.take(rows))))


def ranked_by(s: Setup, w: Workers, loaded: Loaded, found: LoadResult) -> LoadResult:
    """With the percentiles that ranking needs of rows that meet every limit within the nodes allowed; NaN elsewhere."""
    unknown = np.full(found.stable.shape, np.nan)
    every: dict[str, Any] = {
        m: {**dict.fromkeys(("mean", *levels), unknown), **getattr(found, m)} for m, levels in judged(s).items()
    }
    result = replace(found, **every)
    rows = np.flatnonzero(meets(s, found) & ~short_of_nodes(s, w, None))
    if not rows.size:
        return result
    return result.updated(rows, under_load(s, loaded.take(rows), known=found.flow.take(rows)))


def at_occupancy(w: Workers, result: LoadResult, held: Held) -> Workers:
    """Workers with the requests that their load comes to, where it comes to rest; those that memory does not hold keep
    the requests that they were evaluated with, as it is these that do not fit.
    """
    return replace(w, concurrency=np.where(result.stable & held.fits, result.flow.occupancy, w.concurrency))


def at_own_occupancy(s: Setup, w: Workers, load: WorkerLoad) -> Workers:
    """Workers with the requests that their count comes to, which follows the slope of the step times of ``load`` from
    where those were evaluated.
    """
    rate, cv = rates(s, w.count)
    return at_load(w, load.at_rate(rate, cv, sharing(s, w.count)))


def at_load(w: Workers, load: WorkerLoad) -> Workers:
    """Workers with the requests that ``load`` comes to, at least one; as they are where it has no steady state."""
    occupancy = Loaded(load).result({}).flow.occupancy
    return replace(w, concurrency=np.where(np.isfinite(occupancy), np.maximum(occupancy, 1.0), w.concurrency))


def stepped(s: Setup, w: Workers) -> tuple[LoopTimes, Held, Stage]:
    """Memory and steps of workers, each with its own dependence on the length of a prompt."""
    loop, held, stage = evaluate(s, w)
    return loop, held, with_prompt_shape(s, w, stage, np.arange(len(w)))

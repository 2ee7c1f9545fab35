"""Aggregated serving: every legal layout of a node type at every operating point, memory, steps and steady state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.layout.enumeration import enumerate_layouts
from planner.layout.layouts import Layouts
from planner.memory.budget import MemoryBudget, memory_budget
from planner.search.blocks import in_blocks
from planner.search.grids import chunk_grid, operating_points, step_grid
from planner.search.judge import judge, nodes_needed
from planner.search.loaded import (
    Loaded,
    Stage,
    asked,
    fewest_workers,
    heads,
    judged,
    meets,
    prompt_shape,
    rates,
    sharing,
    slopes,
    stage_of,
    worker_load,
)
from planner.search.outcome import outcome_of
from planner.search.passage import outside_s
from planner.search.rejections import RejectionGroup, from_layouts
from planner.search.setup import Hardware, Setup
from planner.search.table import Deployments, Workers
from planner.serving.closed_loop import LoopTimes
from planner.serving.latency import LoadResult, joined
from planner.serving.open_loop import Flow, WorkerLoad
from planner.serving.rows import put
from planner.serving.worker import Scheduling, aggregated_worker

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Fitting:
    """Legal layouts of a node type with the requests each can hold, and why the others are out."""

    layouts: Layouts
    limit: Array
    """Requests of mean length that fit one worker's cache."""
    too_small: Layouts
    memory: MemoryBudget | None
    """Budget of ``too_small``, one request in flight."""
    illegal: tuple[RejectionGroup, ...]


def budget_of(
    s: Setup,
    hw: Hardware,
    layouts: Layouts,
    concurrency: Array,
    tokens: IntArray | int,
    sequences: Array | None = None,
) -> MemoryBudget:
    """Memory of workers with ``concurrency`` requests of mean length each, run with at most ``sequences`` of them on an
    attention-DP rank (as many as there are where not given).
    """
    options = s.scenario.engine.options
    per_rank = np.ceil(concurrency / layouts.attention_dp)
    return memory_budget(
        s.spec,
        s.precision,
        layouts,
        hw.device,
        s.scenario.engine.name,
        max_num_seqs=np.maximum(per_rank if sequences is None else sequences, 1.0),
        max_num_batched_tokens=tokens,
        engine_version=s.scenario.engine.version,
        gpu_memory_utilization=options.gpu_memory_utilization,
        needed_tokens=np.ceil(s.traffic.mean_context),
        needed_sequences=per_rank,
        cuda_graphs=options.cuda_graphs is not False,
        mtp=s.keeps_mtp,
    )


def fitting_layouts(s: Setup, hw: Hardware, max_gpus: int) -> Fitting:
    """Layouts of at most ``max_gpus`` GPUs that the engine runs and that hold at least one request."""
    options = s.scenario.engine.options
    layouts, illegal = enumerate_layouts(
        s.spec,
        hw.shape,
        max_gpus,
        s.scenario.engine.name,
        precision=s.precision,
        redundant_experts=options.redundant_experts or 0,
    )
    return fit(s, hw, layouts, from_layouts(illegal, f"{hw.id} with {s.scheduler.name}"))


def fit(s: Setup, hw: Hardware, layouts: Layouts, illegal: tuple[RejectionGroup, ...]) -> Fitting:
    """Which of ``layouts`` hold a request of mean and one of the longest length, and how many of the former."""
    # Workers of one stage first: a block of them needs no look at further stages.
    layouts = layouts.take(np.argsort(layouts.pp, kind="stable"))
    if not len(layouts):
        return Fitting(layouts, np.empty(0), layouts, None, illegal)
    one = layouts.attention_dp.astype(float)
    budget = budget_of(s, hw, layouts, one, smallest_chunk(s, hw))
    per_rank = np.minimum(budget.sequences(np.ceil(s.traffic.mean_context)), float(most_sequences(s)))
    longest = budget.sequences(float(s.longest_request)) >= 1.0
    holds = budget.fits & (per_rank >= 1.0) & longest
    small = layouts.take(~holds)
    memory = budget_of(s, hw, small, small.attention_dp.astype(float), smallest_chunk(s, hw)) if len(small) else None
    limit = np.floor(per_rank[holds]) * layouts.attention_dp[holds].astype(float)
    return Fitting(layouts.take(holds), limit, small, memory, illegal)


def most_sequences(s: Setup) -> int:
    """Most sequences of one rank: the scenario's setting, else the engine's default."""
    return s.scenario.engine.options.max_num_seqs or s.scheduler.max_num_seqs


def chunks(s: Setup, hw: Hardware) -> IntArray:
    """Token budgets of a step to try: the user's own, else the engine's default and its neighbours; where prompts are
    not split, those that hold the longest request, or as many tokens as it has.
    """
    given = s.scenario.engine.options.max_num_batched_tokens
    smallest, largest = max(hw.token_budget // 4, 512), hw.token_budget * 2
    grid = chunk_grid(hw.token_budget, given, smallest=smallest, largest=largest)
    grid = grid if given is not None else grid[:: max(1, (grid.size - 1) // 2)]
    if not s.prompts_unsplit:
        return grid
    whole = grid[grid >= s.longest_request]
    return whole if whole.size else np.array([s.longest_request], dtype=np.int64)


def smallest_chunk(s: Setup, hw: Hardware) -> int:
    return int(chunks(s, hw).min())


def overlap_choices(s: Setup, hw: Hardware, layouts: Layouts) -> NDArray[np.bool_]:
    """Where two-batch overlap may be on: the scenario does not forbid it and tokens are sent to experts."""
    if s.scenario.engine.options.two_batch_overlap is False or not hw.ctx.program.moes:
        return np.zeros(len(layouts), dtype=bool)
    return (layouts.attention_dp > 1) & (layouts.ep > 1)


def uses_deepep(s: Setup, hw: Hardware, layouts: Layouts) -> NDArray[np.bool_]:
    """Where tokens go to their experts point to point: by the engine's way across and inside a scale-up domain."""
    moves = (layouts.attention_dp > 1) & (layouts.ep == layouts.stage_gpus)
    across = layouts.stage_gpus > hw.ctx.domain
    inside = s.scheduler.dispatch_in_domain == "deepep"
    return moves & np.where(across, s.scheduler.dispatch_across == "deepep", inside)


def points(s: Setup, hw: Hardware, layouts: Layouts, limit: Array, concurrency_: float | None = None) -> Workers:
    """Every layout at every concurrency (or the one given), token budget and overlap worth trying, on ``hw``."""
    grid = s.scenario.search.concurrency_per_worker
    if concurrency_ is not None:
        index, concurrency = np.arange(len(layouts)), np.full(len(layouts), float(concurrency_))
        count = np.ones(index.size, dtype=np.int64)
    elif s.in_flight is not None:
        most = _max_workers(hw, int(layouts.gpus.min()))
        workers = step_grid(max(1, min(most, s.in_flight)))
        index = np.repeat(np.arange(len(layouts)), workers.size)
        count = np.tile(workers, len(layouts))
        concurrency = np.ceil(s.in_flight / count)
        keep = count * layouts.gpus[index] <= _max_workers(hw, 1)
        index, count, concurrency = index[keep], count[keep], concurrency[keep]
    else:
        found = operating_points(limit, layouts.attention_dp, None if grid is None else np.array(grid))
        index, concurrency = found.layout, found.concurrency.astype(float)
        count = np.zeros(index.size, dtype=np.int64)
    sizes = chunks(s, hw)
    may_overlap = overlap_choices(s, hw, layouts)
    forced = s.scenario.engine.options.two_batch_overlap is True
    rows = np.repeat(np.arange(index.size), sizes.size)
    tokens = np.tile(sizes, index.size)
    overlaps = may_overlap[index[rows]]
    both = np.zeros(0, dtype=np.int64) if forced else rows[overlaps]
    two_batch = np.concatenate([overlaps, np.zeros(both.size, dtype=bool)])
    tokens = np.concatenate([tokens, tokens[overlaps] if both.size else tokens[:0]])
    rows = np.concatenate([rows, both])
    chosen = layouts.take(index[rows])
    return Workers(
        hw, chosen, concurrency[rows], tokens.astype(np.int64), two_batch, uses_deepep(s, hw, chosen), count[rows]
    )


def _max_workers(hw: Hardware, worker_gpus: int) -> int:
    nodes = hw.choice.max_nodes
    return 1024 if nodes is None else max(nodes * hw.gpus_per_node // worker_gpus, 1)


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
    per_rank = budget.sequences(np.ceil(s.traffic.mean_context))
    per_rank = per_rank * s.request_share
    slots = np.maximum(np.minimum(per_rank, float(most_sequences(s))), 1e-9) * w.layouts.attention_dp.astype(float)
    pause = s.scheduler.policy == "prefill_first"
    scheduling = Scheduling(w.token_budget.astype(float), pause, w.two_batch, w.deepep)
    # at an offered rate the closed loop only sizes the fleet, whose latencies follow from its load
    beside = outside_s(s, w) if s.rate_rps is None else w.hardware.ctx.coefficients.request_s
    worker = aggregated_worker(w.hardware.ctx, w.layouts, w.concurrency, slots, s.step_traffic, scheduling, beside)
    return worker.loop, held_by(budget), stage_of(worker, slots)


def aggregated_deployments(
    s: Setup, hw: Hardware, fitting: Fitting, concurrency: float | None = None
) -> Deployments | None:
    """All aggregated deployments on one node type, judged; None where no layout fits.

    ``concurrency`` requests in flight per worker where given, else every operating point.
    """
    if not len(fitting.layouts):
        return None
    w = points(s, hw, fitting.layouts, fitting.limit, concurrency)
    evaluated, stride = len(w), chunks(s, hw).size
    loop, held, stage = evaluate(s, w)
    slope, settled = slopes(s, w, stage.decode_s, stride), None
    stage = with_prompt_shape(s, w, stage, heads(w, stride))
    if s.rate_rps is not None:
        w = sized(w, s.rate_rps, loop)
        rows = np.flatnonzero(~_repeated(w, stride))
        w, held, stage, slope = w.take(rows), held.take(rows), stage.take(rows), slope[rows]
        if concurrency is None:
            loaded = Loaded(worker_load(s, w, stage, slope))
            w, held, loaded, result, settled = _brought_down(s, w, held, loaded)
            result = _ranked_by(s, w, loaded, result)
        else:
            w, loaded, result = _at_most(s, w, stage, slope)
        w = at_occupancy(w, result)
    else:
        loaded = Loaded(worker_load(s, w, stage, slope), loop=loop, concurrency=w.concurrency)
        result = under_load(s, loaded)
    outcome = outcome_of(s, w, None, result, loop.throughput_rps)
    verdict = judge(s, w, None, outcome, (held,))
    return Deployments("agg", w, None, outcome, verdict, evaluated, loaded, settled=settled)


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


def at_occupancy(w: Workers, result: LoadResult) -> Workers:
    """Workers with the requests that their load comes to, where it comes to rest."""
    return replace(w, concurrency=np.where(result.stable, result.flow.occupancy, w.concurrency))


def sized(w: Workers, rate: float, loop: LoopTimes) -> Workers:
    """Workers for an offered rate: as many as keep each at the mean occupancy of its row."""
    need = np.ceil(rate / loop.throughput_rps - 1e-9)
    count = np.where(np.isfinite(need), np.maximum(need, 1.0), 1.0)
    return replace(w, count=count.astype(np.int64))


def _repeated(w: Workers, stride: int) -> NDArray[np.bool_]:
    """Rows that take as many workers as the operating point before theirs: they describe the same deployment."""
    n = len(w)
    before = np.arange(n) - stride
    there = before >= 0
    at = np.where(there, before, 0)
    for column in (*w.layouts.as_columns().values(), w.two_batch, w.token_budget, w.count):
        there = there & (column[at] == column)
    return there & (w.concurrency[at] < w.concurrency)


SLACK = 0.1
"""Relative excess of a mean occupancy over the one asked for that still counts as equal: a plan carries steps along
their slope from a point nearby."""


def _at_most(s: Setup, w: Workers, stage: Stage, slope: Array) -> tuple[Workers, Loaded, LoadResult]:
    """As many workers as keep the requests of a row in each on average, one fewer than the closed loop's count or more;
    a few rows at most.
    """
    most = w.count + 1
    w = replace(w, count=np.maximum(w.count - 1, 1))
    while True:
        loaded = Loaded(worker_load(s, w, stage, slope))
        result = under_load(s, loaded)
        crowded = ~result.stable | (result.flow.occupancy > w.concurrency * (1.0 + SLACK))
        over = crowded & (w.count < most)
        if not over.any():
            return w, loaded, result
        w = replace(w, count=w.count + over)


def _brought_down(
    s: Setup, w: Workers, held: Held, loaded: Loaded
) -> tuple[Workers, Held, Loaded, LoadResult, NDArray[np.bool_]]:
    """The leanest deployment of each layout and its settings that meets every limit, brought down to as few workers as
    still do; the load with the percentiles that limits name, and which rows have changed.

    Counts are found along the slope of the step times; the steps are then evaluated again at the occupancy that comes
    out. Where a limit breaks after all, the larger count stays.
    """
    result = under_load(s, loaded, asked(s))
    rows = np.flatnonzero(meets(s, result))
    changed = np.zeros(len(w), dtype=bool)
    lean = rows[_leanest(w.take(rows))] if rows.size else rows
    fewer = fewest_workers(s, loaded.take(lean), w.count[lean], np.maximum(w.count[lean] // 2, 1))
    lean, fewer = lean[fewer < w.count[lean]], fewer[fewer < w.count[lean]]
    if not lean.size:
        return w, held, loaded, result, changed
    load = loaded.worker.take(lean)
    few = at_own_occupancy(s, replace(w.take(lean), count=fewer), load)
    _, budget, stage = stepped(s, few)
    here = Loaded(worker_load(s, few, stage, load.decode_step_slope_s))
    found = under_load(s, here, asked(s))
    good = np.flatnonzero(meets(s, found))
    lean = lean[good]
    changed[lean] = True
    w, held = w.updated(lean, few.take(good)), held.updated(lean, budget.take(good))
    return w, held, loaded.updated(lean, here.take(good)), result.updated(lean, found.take(good)), changed


def _ranked_by(s: Setup, w: Workers, loaded: Loaded, found: LoadResult) -> LoadResult:
    """With the percentiles that ranking needs of rows that meet every limit within the nodes allowed; NaN elsewhere."""
    unknown = np.full(found.stable.shape, np.nan)
    every: dict[str, Any] = {
        m: {**dict.fromkeys(("mean", *levels), unknown), **getattr(found, m)} for m, levels in judged(s).items()
    }
    result = replace(found, **every)
    most = w.hardware.choice.max_nodes
    good = meets(s, found) if most is None else meets(s, found) & (nodes_needed(s, w) <= most)
    rows = np.flatnonzero(good)
    if not rows.size:
        return result
    return result.updated(rows, under_load(s, loaded.take(rows), known=found.flow.take(rows)))


def at_own_occupancy(s: Setup, w: Workers, load: WorkerLoad) -> Workers:
    """Workers with the requests that their count comes to, which follows the slope of the step times of ``load`` from
    where those were evaluated.
    """
    rate, cv = rates(s, w.count)
    occupancy = Loaded(load.at_rate(rate, cv, sharing(s, w.count))).result({}).flow.occupancy
    return replace(w, concurrency=np.where(np.isfinite(occupancy), np.maximum(occupancy, 1.0), w.concurrency))


def stepped(s: Setup, w: Workers) -> tuple[LoopTimes, Held, Stage]:
    """Memory and steps of workers, each with its own dependence on the length of a prompt."""
    loop, held, stage = evaluate(s, w)
    return loop, held, with_prompt_shape(s, w, stage, np.arange(len(w)))


def _leanest(w: Workers) -> IntArray:
    """Positions of the row with the fewest workers of each layout and its settings."""
    settings = np.stack([*w.layouts.as_columns().values(), w.two_batch.astype(np.int64), w.token_budget])
    order = np.lexsort((w.count, *settings))
    change = (np.diff(settings[:, order], axis=1) != 0).any(axis=0)
    return np.sort(order[np.concatenate([[True], change])])

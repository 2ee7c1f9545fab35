"""Aggregated serving: every legal layout of a node type at every operating point, memory, steps and steady state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.layout.engine_rules import WorkerRole, engine_rules
from planner.layout.enumeration import RejectedLayouts, enumerate_layouts
from planner.layout.layouts import Layouts
from planner.memory.budget import MemoryBudget
from planner.search.counting import at_most, brought_down, repeated, sized
from planner.search.evaluation import (
    at_occupancy,
    budget_of,
    evaluate,
    most_decoding,
    ranked_by,
    under_load,
    with_prompt_shape,
)
from planner.search.grids import chunk_grid, operating_points, step_grid
from planner.search.judge import judge
from planner.search.loaded import (
    Loaded,
    heads,
    slopes,
    worker_load,
)
from planner.search.outcome import outcome_of
from planner.search.rejections import RejectionGroup, from_layouts
from planner.search.setup import Hardware, Setup
from planner.search.table import Deployments, Workers

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

SMALLEST_CHUNK = 512
"""Tokens of the smallest step that is tried: engines' own advice for short gaps between tokens ends there."""


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
    prefill_only: Layouts | None = None
    """Further layouts that the engine runs where a worker only prefills."""

    @property
    def for_prefill(self) -> Layouts:
        """Layouts of workers that only prefill."""
        return self.layouts if self.prefill_only is None else Layouts.concatenate((self.layouts, self.prefill_only))


def fitting_layouts(s: Setup, hw: Hardware, max_gpus: int) -> Fitting:
    """Layouts of at most ``max_gpus`` GPUs that the engine runs and that hold at least one request."""
    layouts, illegal = _legal(s, hw, max_gpus, "serve")
    found = fit(s, hw, layouts, from_layouts(illegal, f"{hw.id} with {s.scheduler.name}"))
    rule = engine_rules(s.scenario.engine.name).pipeline_speculation
    if s.drafts is None or rule.allows(s.drafts, "serve") or not rule.allows(s.drafts, "prefill"):
        return found
    wider, _ = _legal(s, hw, max_gpus, "prefill")
    return replace(found, prefill_only=fit(s, hw, wider.take(wider.pp > 1), ()).layouts)


def _legal(s: Setup, hw: Hardware, max_gpus: int, role: WorkerRole) -> tuple[Layouts, tuple[RejectedLayouts, ...]]:
    """Layouts that the engine runs in workers of ``role``, and the others by reason."""
    return enumerate_layouts(
        s.spec,
        hw.shape,
        max_gpus,
        s.scenario.engine.name,
        precision=s.precision,
        redundant_experts=s.scenario.engine.options.redundant_experts or 0,
        drafts=s.drafts,
        role=role,
    )


def fit(s: Setup, hw: Hardware, layouts: Layouts, illegal: tuple[RejectionGroup, ...]) -> Fitting:
    """Which of ``layouts`` hold a request of mean and one of the longest length, and how many of the former."""
    # Workers of one stage first: a block of them needs no look at further stages.
    layouts = layouts.take(np.argsort(layouts.pp, kind="stable"))
    if not len(layouts):
        return Fitting(layouts, np.empty(0), layouts, None, illegal)
    one = layouts.attention_dp.astype(float)
    budget = budget_of(s, hw, layouts, one, smallest_chunk(s, hw))
    per_rank = np.minimum(budget.sequences(np.ceil(s.traffic.mean_context)), most_decoding(s, hw, layouts))
    longest = budget.sequences(float(s.longest_request)) >= 1.0
    holds = budget.fits & (per_rank >= 1.0) & longest
    small = layouts.take(~holds)
    memory = budget_of(s, hw, small, small.attention_dp.astype(float), smallest_chunk(s, hw)) if len(small) else None
    limit = np.floor(per_rank[holds]) * layouts.attention_dp[holds].astype(float)
    return Fitting(layouts.take(holds), limit, small, memory, illegal)


def chunks(s: Setup, hw: Hardware) -> IntArray:
    """Token budgets of a step to try: the user's own, else the engine's default and its neighbours, and all smaller
    ones where the time between tokens has a limit, which prompts in the same step decide; where prompts are not split,
    those that hold the longest request, or as many tokens as it has.
    """
    given, between = s.scenario.engine.options.max_num_batched_tokens, "tbt" in s.limits_s
    smallest = SMALLEST_CHUNK if between else max(hw.token_budget // 4, SMALLEST_CHUNK)
    grid = chunk_grid(hw.token_budget, given, smallest=smallest, largest=hw.token_budget * 2)
    grid = grid if given is not None or between else grid[:: max(1, (grid.size - 1) // 2)]
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
        rows = np.flatnonzero(~repeated(w, stride))
        w, held, stage, slope = w.take(rows), held.take(rows), stage.take(rows), slope[rows]
        if concurrency is None:
            loaded = Loaded(worker_load(s, w, stage, slope))
            w, held, loaded, result, settled = brought_down(s, w, held, loaded)
            result = ranked_by(s, w, loaded, result)
        else:
            w, loaded, result = at_most(s, w, stage, slope)
        w = at_occupancy(w, result, held)
    else:
        loaded = Loaded(worker_load(s, w, stage, slope), loop=loop, concurrency=w.concurrency)
        result = under_load(s, loaded)
    outcome = outcome_of(s, w, None, result, loop.throughput_rps)
    verdict = judge(s, w, None, outcome, (held,))
    return Deployments("agg", w, None, outcome, verdict, evaluated, loaded, settled=settled)

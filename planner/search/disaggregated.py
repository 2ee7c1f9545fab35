"""Disaggregated serving: a prefill and a decode pool, each with its own layout, rates matched, KV sent between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.memory.budget import MemoryBudget
from planner.roofline.step import step_times
from planner.search.aggregated import Fitting, chunks, overlap_choices, uses_deepep
from planner.search.blocks import in_blocks
from planner.search.evaluation import Held, budget_of, held_by, under_load
from planner.search.grids import operating_points
from planner.search.judge import judge
from planner.search.loaded import Loaded, decode_load, slopes, stream_cv
from planner.search.outcome import busy_part, outcome_of
from planner.search.pareto import pareto_mask
from planner.search.passage import outside_s
from planner.search.setup import Hardware, Setup
from planner.search.standing import in_one_domain
from planner.search.table import Deployments, Workers
from planner.search.transfer import closed_transfer, transfers
from planner.search.worker_settings import prefill_budget
from planner.serving.closed_loop import LoopTimes
from planner.serving.latency import LoadResult
from planner.serving.prefill_pool import PoolLoad, PrefillPool, prefill_pool
from planner.serving.prompt_steps import PromptWork, prompt_steps
from planner.serving.speculative import tokens_per_step
from planner.serving.split import split_at_rate
from planner.serving.worker import decode_times, prefill_pool_steps

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

UTILISATIONS = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
"""Loads of the prefill pool that are tried, over what it passes with full steps: what remains is queueing room."""


@dataclass(frozen=True)
class PoolPoints:
    """Operating points of one pool's workers, arrays (n,)."""

    workers: Workers
    step_s: Array
    """Decode: seconds of a step; prefill: seconds per prompt."""
    worker_rps: Array
    """Requests per second that one worker passes."""
    servers: Array
    """Prefill: prompts processed at once by one worker; decode: requests that its cache holds."""
    growth: Array
    """Decode: seconds that one more request adds to a step; 0 for prefill."""
    evaluated: int
    held: Held | None = None
    """Memory budgets, once they are known (:func:`useful`)."""
    pool: PrefillPool | None = None
    """Prefill: the pool at its load, once its workers are counted."""

    def take(self, rows: IntArray) -> PoolPoints:
        return PoolPoints(
            self.workers.take(rows),
            self.step_s[rows],
            self.worker_rps[rows],
            self.servers[rows],
            self.growth[rows],
            self.evaluated,
            None if self.held is None else self.held.take(rows),
            None if self.pool is None else self.pool.take(rows),
        )


def decode_points(s: Setup, hw: Hardware, fitting: Fitting) -> PoolPoints:
    """Decode workers on one node type: every layout at every concurrency, with and without overlap."""
    found = operating_points(fitting.limit, fitting.layouts.attention_dp, _grid(s))
    index, two_batch = _with_overlap(s, hw, fitting.layouts, found.layout)
    concurrency = found.concurrency.astype(float)[index]
    layouts = fitting.layouts.take(found.layout[index])
    budget = np.full(index.size, chunks(s, hw).min(), dtype=np.int64)
    zero = np.zeros(index.size, dtype=np.int64)
    w = Workers(hw, layouts, concurrency, budget, two_batch, uses_deepep(s, hw, layouts), zero)

    def token_s(b: Workers) -> tuple[Array]:
        return (decode_times(hw.ctx, b.layouts, b.concurrency, s.step_traffic, *_how(b)).total,)

    (tpot,) = _blocks(w, token_s)
    out = max(s.step_shape.mean - 1.0, 1.0)
    slots = fitting.limit[found.layout[index]]
    return PoolPoints(w, tpot, concurrency / (out * tpot), slots, slopes(s, w, tpot, 1), index.size)


def prefill_points(s: Setup, hw: Hardware, fitting: Fitting) -> PoolPoints:
    """Prefill workers on one node type: every layout with every token budget, every rank busy with a prompt."""
    sizes, able = chunks(s, hw), fitting.for_prefill
    rows = np.repeat(np.arange(len(able)), sizes.size)
    index, two_batch = _with_overlap(s, hw, able, rows)
    layouts = able.take(rows[index])
    budget = np.tile(sizes, len(able))[index].astype(np.int64)
    zero = np.zeros(index.size, dtype=np.int64)
    servers = layouts.attention_dp.astype(float)
    w = Workers(hw, layouts, servers, budget, two_batch, uses_deepep(s, hw, layouts), zero)

    def prompt_s(b: Workers) -> tuple[Array]:
        work, per_prompt, _ = prefill_pool_steps(b.layouts, s.traffic, b.token_budget.astype(float))
        return (step_times(hw.ctx, b.layouts, work, *_how(b)).total * per_prompt,)

    (time,) = _blocks(w, prompt_s)
    return PoolPoints(w, time, servers / time, servers, np.zeros(index.size), index.size)


def counted_pools(s: Setup, points: PoolPoints, rate: float) -> PoolPoints:
    """Prefill points with as many workers as bring them to each of UTILISATIONS, as pools that share ``rate``.

    Those that another beats in GPUs, nodes, memory, load and the time of a single prompt (and in the size of a worker,
    :func:`_taken`) are left out: no percentile of theirs is lower.
    """
    w = points.workers
    steps = prompt_steps(w.hardware.ctx, w.layouts, s.traffic, w.token_budget.astype(float), *_how(w))
    prompts, full_s = PromptWork(s.computed_shape, steps).full_step()
    rows = np.tile(np.arange(len(w)), UTILISATIONS.size)
    need = rate / (np.repeat(UTILISATIONS, len(w)) * (prompts / full_s)[rows])
    many, first = _distinct(_counted(points.take(rows), need))
    rows = rows[first]
    assert many.held is not None
    load = rate / (many.workers.count * (prompts / full_s)[rows])
    time = many.step_s + outside_s(s, many.workers)
    columns = [*_taken(s, many.workers), ~many.held.fits, np.round(load, 2), time]
    kept = np.flatnonzero(pareto_mask(columns, ["min"] * len(columns)))
    many, n = many.take(kept), kept.size
    count = many.workers.count.astype(float)
    given = PoolLoad(np.full(n, rate), np.full(n, stream_cv(s)), count, steps.take(rows[kept]), s.computed_shape)
    return replace(many, pool=prefill_pool(given))


def _grid(s: Setup) -> IntArray | None:
    given = s.scenario.search.concurrency_per_worker
    return None if given is None else np.array(given)


def _with_overlap(s: Setup, hw: Hardware, layouts: Layouts, rows: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Positions into ``rows``, repeated where two-batch overlap is tried as well, and whether it is on."""
    may = overlap_choices(s, hw, layouts)[rows]
    if s.scenario.engine.options.two_batch_overlap is True:
        return np.arange(rows.size), may
    index = np.concatenate([np.arange(rows.size), np.flatnonzero(may)])
    return index, np.concatenate([np.zeros(rows.size, dtype=bool), np.ones(int(may.sum()), dtype=bool)])


def _how(w: Workers) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return w.two_batch, w.deepep


def _blocks(w: Workers, evaluate: Callable[[Workers], tuple[Array, ...]]) -> tuple[Array, ...]:
    parts = in_blocks(len(w), lambda rows: evaluate(w.take(rows)))
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def useful(s: Setup, points: PoolPoints, time_s: Array, memory: Callable[[Setup, Workers], MemoryBudget]) -> PoolPoints:
    """Points that no other beats in GPUs per request/s, ``time_s`` and worker size: a pairing needs no others.

    With their ``memory`` budgets.
    """
    cost = points.workers.layouts.gpus / points.worker_rps
    keep = pareto_mask([cost, time_s, points.workers.layouts.gpus], ["min", "min", "min"])
    few = points.take(np.flatnonzero(keep))
    w = few.workers
    return replace(few, held=held_by(memory(s, w)))


def decode_budget(s: Setup, w: Workers) -> MemoryBudget:
    """Memory of decode workers at their operating points."""
    return budget_of(s, w.hardware, w.layouts, w.concurrency, w.token_budget)


def disaggregated_deployments(
    s: Setup, prefill: PoolPoints, decode: PoolPoints, limits_tpot_s: float | None
) -> Deployments | None:
    """All pairs of useful pool points at every prefill load, judged; None where a pool has no point."""
    evaluated = prefill.evaluated + decode.evaluated
    token_s = decode.step_s / tokens_per_step(s.acceptance)
    within = decode if limits_tpot_s is None else decode.take(np.flatnonzero(token_s <= limits_tpot_s))
    within = within if len(within.workers) else decode
    d = useful(s, within, within.step_s, decode_budget)
    p = useful(s, prefill, prefill.step_s + outside_s(s, prefill.workers), prefill_budget)
    if not len(d.workers) or not len(p.workers):
        return None
    d, p, rate = _paired(s, d, p)
    d_workers, p_workers = d.workers, p.workers
    if s.in_flight is None:
        loaded = _loaded(s, d, p)
        assert loaded.prefill is not None
        busy = loaded.prefill.utilisation
        worker_rps = d.worker_rps
    else:
        times = split_at_rate(
            rate,
            p_workers.count * p.servers,
            p.step_s,
            closed_transfer(s, p_workers, d_workers, p.step_s),
            outside_s(s, p_workers),
            d.step_s,
        )
        busy, worker_rps = times.prefill_utilisation, rate / d_workers.count
        loop = LoopTimes(times.ttft_s, d.step_s, worker_rps, busy)
        loaded = Loaded(decode_load(s, d_workers, d.step_s, d.growth, d.servers), None, loop, d.workers.concurrency)
    result = under_load(s, loaded)
    outcome = outcome_of(s, d_workers, p_workers, result, worker_rps, np.asarray(busy))
    if s.in_flight is None:
        occupancy = np.where(result.stable, result.flow.occupancy, d_workers.concurrency)
        d_workers = replace(d_workers, concurrency=occupancy)
    assert d.held is not None
    assert p.held is not None
    verdict = judge(s, d_workers, p_workers, outcome, (d.held, p.held))
    return Deployments("disagg", d_workers, p_workers, outcome, verdict, evaluated + len(d_workers), loaded)


def _paired(s: Setup, d: PoolPoints, p: PoolPoints) -> tuple[PoolPoints, PoolPoints, Array]:
    """Decode points with prefill points at every load of the prefill pool, counted, and the request rates.

    At an offered rate a pool is what its layout and its count say, whatever it is paired with: points that come to the
    same count are one, and those that another beats in size and in every latency of the pool need no pairing.
    """
    if s.in_flight is None:
        offered = s.rate_rps or np.nan
        d, _ = _distinct(_counted(d, offered / d.worker_rps))
        p = counted_pools(s, p, offered)
        alone = under_load(s, Loaded(decode_load(s, d.workers, d.step_s, d.growth, d.servers)))
        d = _unbeaten(s, d, alone, ("tbt", "tpot"), busy_part(alone))
        first = d.take(np.full(len(p.workers), int(np.argmin(d.step_s))))
        # over one kind of link for all: which one a pair takes depends on its decode workers too
        far = p.workers.hardware.device.nic_bw is not None
        pairs = _loaded(s, first, p, np.full(len(p.workers), far))
        assert pairs.prefill is not None
        p = _unbeaten(s, p, under_load(s, pairs), ("ttft",), pairs.prefill.utilisation)
        i, j = (a.ravel() for a in np.indices((len(d.workers), len(p.workers))))
        return _joined(s, d.take(i), p.take(j), np.full(i.size, offered))
    i, j, k = (a.ravel() for a in np.indices((len(d.workers), len(p.workers), UTILISATIONS.size)))
    d, p = d.take(i), p.take(j)
    # what the requests in flight make: C / (prompt + output)
    further = max(float(s.step_traffic.output_tokens) - 1.0, 1.0)
    rate = np.asarray(s.in_flight / (p.step_s + further * d.step_s))
    d = _counted(d, s.in_flight / d.workers.concurrency)
    p = _counted(p, rate / (UTILISATIONS[k] * p.worker_rps))
    return _joined(s, d, p, rate)


def _joined(s: Setup, d: PoolPoints, p: PoolPoints, rate: Array) -> tuple[PoolPoints, PoolPoints, Array]:
    """The pairs, and their rates, that a link joins: those in one scale-up domain where the network is not sourced.

    Raises InputError where that leaves none.
    """
    if p.workers.hardware.device.nic_bw is not None and d.workers.hardware.device.nic_bw is not None:
        return d, p, rate
    rows = np.flatnonzero(in_one_domain(s, p.workers, d.workers))
    if not rows.size:
        raise InputError("node", p.workers.hardware.id, "pools in one scale-up domain: the network is not sourced")
    return d.take(rows), p.take(rows), rate[rows]


def _loaded(s: Setup, d: PoolPoints, p: PoolPoints, across: NDArray[np.bool_] | None = None) -> Loaded:
    """The loads of pairs of points at an offered rate; transfers go over the NICs where ``across``."""
    assert p.pool is not None
    moves = transfers(s, p.workers, d.workers, p.pool, p.pool.given.rate_rps, across)
    decode = decode_load(s, d.workers, d.step_s, d.growth, d.servers)
    return Loaded(replace(decode, request_s=outside_s(s, p.workers)), p.pool.with_transfers(moves))


def _unbeaten(s: Setup, points: PoolPoints, result: LoadResult, metrics: tuple[str, ...], busy: Array) -> PoolPoints:
    """Points that no other beats in GPUs, nodes, memory, how busy they are (energy) and every known latency of
    ``metrics`` together.
    """
    assert points.held is not None
    columns = [*_taken(s, points.workers), ~points.held.fits, np.round(busy, 2)]
    columns += [values for metric in metrics for values in getattr(result, metric).values()]
    return points.take(np.flatnonzero(pareto_mask(columns, ["min"] * len(columns))))


def _taken(s: Setup, w: Workers) -> list[IntArray]:
    """What workers of a pool take: GPUs, nodes, and the size of one where it says how well those of another pool lie
    beside them: powers of two that divide a node, and whole nodes, leave no gap that their number does not tell of.
    """
    size, per_node = w.footprint, w.hardware.gpus_per_node
    even = ((size & (size - 1)) == 0) & (per_node % size == 0) | (size % per_node == 0)
    apart = s.scenario.hardware.pools is not None
    return [w.gpus, w.nodes] if apart or even.all() else [w.gpus, w.nodes, size]


def _distinct(points: PoolPoints) -> tuple[PoolPoints, IntArray]:
    """Points that differ in layout, settings or count, and their positions; of equal ones the first."""
    w = points.workers
    columns = (*w.layouts.as_columns().values(), w.token_budget, w.two_batch, w.count)
    _, first = np.unique(np.stack([np.asarray(c, dtype=np.int64) for c in columns]), axis=1, return_index=True)
    kept = np.sort(first)
    return points.take(kept), kept


def _counted(points: PoolPoints, need: Array) -> PoolPoints:
    """With the workers that carry ``need`` of them, (n,)."""
    count = np.maximum(np.ceil(need - 1e-9), 1.0).astype(np.int64)
    return replace(points, workers=replace(points.workers, count=count))

"""Workers of the search under the scenario's arrivals: from their steps to loads, sizes and latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.roofline.step import StepWork
from planner.search.blocks import in_blocks
from planner.search.passage import outside_s
from planner.search.setup import Setup
from planner.search.table import Workers
from planner.serving.by_token import by_token
from planner.serving.closed_loop import LoopTimes
from planner.serving.closed_percentiles import closed_percentiles
from planner.serving.goodput import good_share
from planner.serving.latency import EVERYTHING, LoadResult, percentiles
from planner.serving.open_loop import Flow, WorkerLoad
from planner.serving.prefill_pool import PrefillPool
from planner.serving.prefix_cache import cached_before
from planner.serving.quantiles import LEVELS
from planner.serving.queues import Routing, worker_cv
from planner.serving.rows import put
from planner.serving.worker import WorkerSteps, WorkerTimes, beside_decodes, decode_times

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Stage:
    """What a load takes from a worker's steps, arrays (n,)."""

    decode_s: Array
    prefill_s: Array
    prompts: Array
    chunks: Array
    most: Array
    quadratic: Array
    """Part of a prompt's work that grows with the square of its length; 0 until it is known."""
    slots: Array
    poll: Array
    fixed: Array
    """Part of what prompts add to a step that does not grow with their tokens, in seconds; 0 until it is known."""
    shared: Array
    """Part of a prompt's work that counts for prompts of all attention-DP ranks; 0 until it is known."""

    def take(self, rows: IntArray) -> Stage:
        return Stage(*(getattr(self, f.name)[rows] for f in fields(self)))


def stage_of(worker: WorkerTimes, slots: Array) -> Stage:
    """The figures of an aggregated worker."""
    steps: WorkerSteps = worker.steps
    decode, prefill = worker.decode.total, worker.prefill_s
    return Stage(
        decode,
        prefill,
        steps.prompts_per_step,
        steps.chunks,
        steps.most_prompts,
        np.zeros(len(decode)),
        slots,
        steps.poll_steps,
        np.zeros(len(decode)),
        np.zeros(len(decode)),
    )


WELL_BELOW, SMALLER, LONGER = 0.7, 0.4, 3.0
"""Steps with prompts beside the first: a full one where the first fills less than WELL_BELOW of the token budget, else
one of SMALLER times the tokens; and one with a prompt LONGER times the mean, or as long as the budget allows."""


def prompt_shape(s: Setup, w: Workers, stage: Stage) -> tuple[Array, Array, Array]:
    """(seconds that a step with prompts has more whatever their tokens, share of the rest that grows with the square of
    a prompt's length, share of it that counts for prompts of all ranks), (n,) each.

    Work of a prompt of x mean lengths in one step: fixed + work ((1 - share) x + share x^2). A line through the step of
    ``stage`` and one with other tokens in prompts of the same length leaves the fixed part; a step with a longer prompt
    (or, where prompts take several steps, a chunk that far into one) gives the share; the same step with as many tokens
    on every attention-DP rank as on one, what other ranks' prompts add to it.
    """
    pause = s.scheduler.policy == "prefill_first"
    ranks = w.layouts.attention_dp
    riding = np.zeros(len(w)) if pause else w.concurrency / ranks
    new, cached = float(s.traffic.new_tokens), cached_before(s.prompt_shape, s.hits)
    budget = np.maximum(w.token_budget - riding, 1.0)
    busy = np.minimum(stage.prompts, ranks)
    tokens = np.minimum(new * np.maximum(stage.prompts / ranks, 1.0), budget)
    chunk = new / stage.chunks
    past = cached + 0.5 * (new - chunk)

    everyone = np.arange(len(w))

    def added(
        prompt_tokens: Array, sequences: Array, past_tokens: Array, full: Array = busy, rows: IntArray = everyone
    ) -> Array:
        """Seconds that prompts add to a step with so many of them on each of ``full`` ranks."""
        few = w if rows is everyone else w.take(rows)
        context = np.full(rows.size, float(s.traffic.mean_context))
        work = StepWork(riding[rows], context, prompt_tokens, sequences, past_tokens, prompt_tokens * full)
        whole = beside_decodes(few.hardware.ctx, few.layouts, work, s.step_traffic, (few.two_batch, few.deepep))
        return np.maximum(whole - (0.0 if pause else stage.decode_s[rows]), 0.0)

    first = np.maximum(stage.prefill_s - (0.0 if pause else stage.decode_s), 0.0)
    other = np.where(tokens < WELL_BELOW * budget, budget, SMALLER * tokens)
    per_token = (added(other, np.maximum(other / chunk, 1.0), past) - first) / (other - tokens)
    per_token = np.clip(per_token, 0.0, first / tokens)
    fixed = first - tokens * per_token

    length = np.clip(budget / chunk, 1.0, LONGER)
    whole_prompt = length > 1.0 + 1e-9
    x = np.where(whole_prompt, length, 1.0)
    deep = np.where(whole_prompt, length * past, LONGER * (past + 0.5 * chunk) - 0.5 * chunk)
    ratio = (added(x * chunk, np.ones(len(w)), deep) - fixed) / np.maximum(chunk * per_token, 1e-15)
    growth = np.where(whole_prompt, (ratio / x - 1.0) / np.maximum(x - 1.0, 1e-9), (ratio - 1.0) / (LONGER - 1.0))

    shared = np.zeros(len(w))
    several = np.flatnonzero(ranks > 1)
    if several.size:
        there, number = (tokens[several], np.maximum(tokens / chunk, 1.0)[several], past[several]), ranks[several]
        one, every = (added(*there, full, several) for full in (np.ones(several.size), number.astype(float)))
        alone = np.maximum(one - fixed[several], 1e-15)
        shared[several] = np.clip((every - one) / alone / (number - 1.0), 0.0, 1.0)
    return fixed, np.clip(growth, 0.0, 1.0), shared


def heads(w: Workers, stride: int) -> IntArray:
    """Position of the first operating point of each row's layout and settings, (n,), with rows as in :func:`slopes`."""
    n = len(w)
    if n % stride:
        return np.arange(n)
    same = np.ones((n // stride, stride), dtype=bool)
    for column in (*w.layouts.as_columns().values(), w.two_batch, w.token_budget):
        table = column.reshape(-1, stride)
        same[1:] &= table[1:] == table[:-1]
    same[0] = False
    own = np.arange(n).reshape(-1, stride)
    return np.maximum.accumulate(np.where(same, 0, own), axis=0).ravel()


def slopes(s: Setup, w: Workers, step_s: Array, stride: int) -> Array:
    """Seconds that one more request adds to a decode step, (n,).

    From the next operating point of the same layout (``stride`` rows on, else back), or from a step with a tenth more
    requests where the grid has a single point.
    """
    n = len(w)
    rows = np.arange(n)
    slope = np.full(n, np.nan)
    columns = [*w.layouts.as_columns().values(), w.two_batch, w.token_budget]
    for shift in (-stride, stride):
        other = rows + shift
        there = (other >= 0) & (other < n)
        at = np.where(there, other, rows)
        for column in columns:
            there = there & (column[at] == column)
        gap = w.concurrency[at] - w.concurrency
        there &= gap != 0
        slope[there] = (step_s[at] - step_s)[there] / gap[there]
    single = np.flatnonzero(np.isnan(slope))
    if single.size:

        def with_more(rows: IntArray) -> Array:
            few = w.take(single[rows])
            more, how = few.concurrency * 1.1, (few.two_batch, few.deepep)
            longer = decode_times(w.hardware.ctx, few.layouts, more, s.step_traffic, *how).total
            return np.asarray((longer - step_s[single[rows]]) / (more - few.concurrency))

        slope[single] = np.concatenate(in_blocks(single.size, with_more))
    return np.maximum(slope, 0.0)


@dataclass(frozen=True)
class Loaded:
    """Workers at their load, rows as in the table they belong to."""

    worker: WorkerLoad
    prefill: PrefillPool | None = None
    loop: LoopTimes | None = None
    """Closed loop: its means; None for an offered rate."""
    concurrency: Array | None = None
    """Closed loop: requests in flight in one worker."""

    def take(self, rows: IntArray) -> Loaded:
        """The candidates at positions ``rows``."""
        pool, loop = self.prefill, self.loop
        return Loaded(
            self.worker.take(rows),
            None if pool is None else pool.take(rows),
            None if loop is None else LoopTimes(*(_row(getattr(loop, f.name), rows) for f in fields(loop))),
            None if self.concurrency is None else self.concurrency[rows],
        )

    def updated(self, rows: IntArray, part: Loaded) -> Loaded:
        """With the candidates at positions ``rows`` replaced; aggregated workers at an offered rate."""
        n = int(np.broadcast(self.worker.decode_step_s, self.worker.rate_rps).size)
        mine, theirs = self.worker, part.worker
        columns: dict[str, Any] = {}
        for f in fields(WorkerLoad):
            value, other = getattr(mine, f.name), getattr(theirs, f.name)
            if isinstance(value, np.ndarray) and (value.ndim or other.ndim):
                columns[f.name] = put(np.broadcast_to(value, n), rows, other)
        return Loaded(replace(mine, **columns))

    def result(self, wanted: Mapping[str, Sequence[str]] = EVERYTHING, known: Flow | None = None) -> LoadResult:
        """Means, and the ``wanted`` percentiles by metric; ``known``: the steady state at an offered rate, if it is."""
        acceptance = self.worker.acceptance
        if acceptance and "tbt" in wanted:
            wanted = {**wanted, "tbt": tuple(LEVELS)}
        if self.loop is None:
            # a draft's steady state is told by token in what is known, and by step here
            found = percentiles(self.worker, wanted, self.prefill, None if acceptance else known)
        else:
            assert self.concurrency is not None
            found = closed_percentiles(self.worker, self.loop, self.concurrency, wanted)
        return by_token(found, acceptance, self.worker.outputs.mean - 1.0)


def _row(values: Array, rows: IntArray) -> Array:
    return values[rows] if np.ndim(values) else values


def worker_load(s: Setup, w: Workers, stage: Stage, slope: Array) -> WorkerLoad:
    """Workers of an aggregated table at the rate each gets; NaN rates in a closed loop."""
    rate, cv = rates(s, w.count)
    return WorkerLoad(
        rate_rps=rate,
        arrival_cv=cv,
        sharing=sharing(s, w.count),
        stream_cv=stream_cv(s),
        prompts=s.computed_shape,
        outputs=s.step_shape,
        decode_step_s=stage.decode_s,
        reference_occupancy=w.concurrency,
        decode_step_slope_s=slope,
        prefill_step_s=stage.prefill_s,
        prefill_fixed_s=stage.fixed,
        prompts_per_step=stage.prompts,
        chunks=stage.chunks,
        most_prompts=stage.most,
        lanes=w.layouts.attention_dp.astype(float),
        decodes_pause=np.array(s.scheduler.policy == "prefill_first"),
        quadratic_share=stage.quadratic,
        shared_part=stage.shared,
        slots=stage.slots,
        request_s=outside_s(s, w),
        poll_steps=stage.poll,
        acceptance=s.acceptance,
    )


def decode_load(s: Setup, w: Workers, step_s: Array, slope: Array, slots: Array) -> WorkerLoad:
    """Decode workers of a disaggregated deployment: no prompt work."""
    rate, cv = rates(s, w.count)
    one = np.array(1.0)
    return WorkerLoad(
        rate_rps=rate,
        arrival_cv=cv,
        sharing=sharing(s, w.count),
        stream_cv=stream_cv(s),
        prompts=s.prompt_shape,
        outputs=s.step_shape,
        decode_step_s=step_s,
        reference_occupancy=w.concurrency,
        decode_step_slope_s=slope,
        prefill_step_s=np.array(0.0),
        prefill_fixed_s=np.array(0.0),
        prompts_per_step=one,
        chunks=one,
        most_prompts=one,
        lanes=one,
        decodes_pause=np.array(True),
        quadratic_share=np.array(0.0),
        slots=slots,
        request_s=np.array(w.hardware.ctx.coefficients.request_s),
        poll_steps=one,
        acceptance=s.acceptance,
    )


def rates(s: Setup, count: NDArray[np.int64]) -> tuple[Array, Array]:
    """Requests per second at one of ``count`` workers and the CV of the gaps between them."""
    rate = np.nan if s.rate_rps is None else float(s.rate_rps)
    cv = s.scenario.workload.arrival.gap_cv()
    workers = np.maximum(count, 1)
    routed = np.array(1.0) if cv is None or cv == 1.0 else worker_cv(cv, workers, routing(s))
    return rate / workers, routed


def routing(s: Setup) -> Routing:
    """How requests go to workers: by load, or by their prefix, whatever the load."""
    reuse = s.scenario.workload.prefix_reuse
    return "random" if reuse is not None and reuse.routing == "affinity" else "least_loaded"


def sharing(s: Setup, count: NDArray[np.int64]) -> Array:
    """Workers that a request may go to by load, (n,) for ``count`` workers."""
    by_load = s.rate_rps is not None and routing(s) == "least_loaded"
    return np.maximum(count, 1).astype(float) if by_load else np.ones(count.shape)


def stream_cv(s: Setup) -> Array:
    """CV of the gaps between all requests; 1 in a closed loop, where it is not used."""
    cv = s.scenario.workload.arrival.gap_cv()
    return np.array(1.0 if cv is None else float(cv))


def judged(s: Setup) -> dict[str, tuple[str, ...]]:
    """Percentiles that every row of a table needs by metric beside means: P99 of TTFT and TBT for the ranking, and all
    of a metric that has a limit on one, for its goodput.
    """
    limited = {
        metric: tuple(LEVELS) if any(level != "mean" for level in levels) else ()
        for metric, levels in s.limits_s.items()
    }
    return {"tpot": (), **limited, **{m: limited.get(m) or ("p99",) for m in ("ttft", "tbt")}}


def asked(s: Setup) -> dict[str, tuple[str, ...]]:
    """Percentiles that the scenario's limits name, by every metric of :func:`judged`."""
    limits = s.limits_s
    return {m: tuple(level for level in limits.get(m, ()) if level != "mean") for m in judged(s)}


def good_part(s: Setup, result: LoadResult) -> Array:
    """Part of requests within every limit of the scenario, (n,); NaN where a percentile that it follows from is."""
    limits = s.limits_s
    levels = [(m, name) for m, named in limits.items() if any(level != "mean" for level in named) for name in LEVELS]
    found = good_share(result, limits, float(s.traffic.output_tokens))
    return found + sum((np.where(np.isnan(result.get(*key)), np.nan, 0.0) for key in levels), np.array(0.0))


def meets(s: Setup, result: LoadResult) -> BoolArray:
    """Where every latency limit and the completion rate hold."""
    good = result.stable.copy()
    for metric, levels in s.limits_s.items():
        for level, limit in levels.items():
            good &= result.get(metric, level) <= limit
    wanted = s.scenario.slo.completion_rate
    return good if wanted is None else good & (result.completion >= wanted)

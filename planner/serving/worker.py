"""One worker under a load: the work of its steps, their times, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.layout.layouts import Layouts
from planner.roofline.step import StepContext, StepTimes, StepWork, step_times
from planner.roofline.verify import verify_times
from planner.serving.closed_loop import LoopTimes, aggregated

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Traffic:
    """Mean lengths of requests; arrays of shape (n,) or scalars. ``input_tokens`` includes the cached part."""

    input_tokens: Array | float
    output_tokens: Array | float
    prefix_hit_rate: Array | float = 0.0
    fixed_lengths: NDArray[np.bool_] | bool = False
    """Outputs all have the mean length: requests of a closed loop then stay in step with each other."""
    returning_together: float = 1.0
    """Requests of fixed lengths that a client sends again at once, where prompts ride along with decodes."""
    context_tokens: Array | float | None = None
    """Mean tokens in the KV cache of a decoding request where the outputs' distribution is known."""
    drafts: int = 0
    """Draft tokens of each sequence that a decode step checks (speculative decoding)."""

    @property
    def new_tokens(self) -> Array:
        """Prompt tokens that must be computed."""
        return np.maximum(np.asarray(self.input_tokens) * (1.0 - np.asarray(self.prefix_hit_rate)), 1.0)

    @property
    def cached_tokens(self) -> Array:
        return np.asarray(self.input_tokens) * np.asarray(self.prefix_hit_rate)

    @property
    def mean_context(self) -> Array:
        """Mean tokens in the KV cache of a decoding request: the prompt and half of the output."""
        if self.context_tokens is not None:
            return np.asarray(self.context_tokens, dtype=float)
        return np.asarray(self.input_tokens) + 0.5 * np.asarray(self.output_tokens)


@dataclass(frozen=True)
class Scheduling:
    """How the engine fills steps; arrays of shape (n,) or scalars."""

    token_budget: Array | float
    "Tokens of one step per attention-DP rank."
    decodes_pause: NDArray[np.bool_] | bool
    "Prefill-first: decodes wait while a prefill step runs."
    two_batch: NDArray[np.bool_]
    deepep: NDArray[np.bool_]
    poll_steps: Array | float = 1.0
    "Steps between two looks at the queue of new requests."


@dataclass(frozen=True)
class WorkerSteps:
    """What the two kinds of step of a worker carry; arrays of shape (n,)."""

    running: Array
    """Requests of the worker that hold KV slots."""
    decode: StepWork
    prefill: StepWork
    chunks: Array
    """Steps that one prompt takes (1 or more)."""
    prompts_per_step: Array
    """Prompts of the worker that share one prefill step."""
    group_prompts: Array
    """Prompts that a request finds itself queued with, its own included; they take group / prompts_per_step steps."""
    most_prompts: Array
    """Prompts of the worker that one step's token budget holds (1 where a prompt takes several steps)."""
    poll_steps: Array
    pause: NDArray[np.bool_]


@dataclass(frozen=True)
class WorkerTimes:
    """A worker's steady state and the steps behind it."""

    steps: WorkerSteps
    loop: LoopTimes
    decode: StepTimes
    prefill_s: Array
    """Steps with prompts."""


def decode_times(
    ctx: StepContext,
    layouts: Layouts,
    running: Array,
    traffic: Traffic,
    two_batch: NDArray[np.bool_],
    deepep: NDArray[np.bool_],
) -> StepTimes:
    """Decode steps with the worker's ``running`` sequences, drafts included."""
    return verify_times(ctx, layouts, decode_work(running, layouts, traffic), traffic.drafts, two_batch, deepep)


def beside_decodes(
    ctx: StepContext,
    layouts: Layouts,
    work: StepWork,
    traffic: Traffic,
    how: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> Array:
    """Seconds of steps with prompts beside decodes (``work``); what drafts add to the decodes is that of a decode step.

    Their tokens count in every operator; attention that reads a cache once, and drafting, as without the prompts.
    """
    if not traffic.drafts:
        return step_times(ctx, layouts, work, *how).total
    wide = replace(work, decode_seqs=work.decode_seqs * (1 + traffic.drafts))
    alone = StepWork(np.maximum(work.decode_seqs, 1e-9), work.kv_tokens)
    many = replace(alone, decode_seqs=alone.decode_seqs * (1 + traffic.drafts))
    drafted = verify_times(ctx, layouts, alone, traffic.drafts, *how).total
    extra = np.where(work.decode_seqs > 0.0, drafted - step_times(ctx, layouts, many, *how).total, 0.0)
    return np.asarray(step_times(ctx, layouts, wide, *how).total + extra)


def decode_work(running: Array, layouts: Layouts, traffic: Traffic) -> StepWork:
    """A step in which the worker's ``running`` sequences, spread over its attention-DP ranks, each make a token."""
    per_rank = running / layouts.attention_dp
    return StepWork(per_rank, np.broadcast_to(traffic.mean_context, per_rank.shape).astype(float))


def prefill_work(
    layouts: Layouts, traffic: Traffic, budget: Array, prompts: Array, decode_seqs: Array
) -> tuple[StepWork, Array]:
    """A step with prompt tokens of ``prompts`` requests of the worker beside ``decode_seqs`` per rank; steps a prompt.

    ``budget`` prompt tokens fit a rank's step. Longer prompts take several steps; shorter ones share one on the busiest
    rank when there are more of them than ranks.
    """
    new = np.broadcast_to(traffic.new_tokens, decode_seqs.shape).astype(float)
    per_rank = np.maximum(prompts / layouts.attention_dp, 1.0)
    tokens = np.minimum(new * per_rank, budget)
    chunks = np.maximum(new / budget, 1.0)
    chunk = new / chunks
    seqs = tokens / chunk
    past = traffic.cached_tokens + 0.5 * (new - chunk)
    busy_ranks = np.minimum(prompts, layouts.attention_dp)
    context = np.broadcast_to(traffic.mean_context, decode_seqs.shape).astype(float)
    return StepWork(decode_seqs, context, tokens, seqs, past, tokens * busy_ranks), chunks


ARRIVAL_BURST = 1.8
"""Prompts that a request is queued with beside its own, over the mean number that arrive between two looks at the
queue. Arrivals of a closed loop come in bursts (requests that started together end near each other); value from
stepping closed loops of 4 to 256 requests with outputs uniform in 0.8 to 1.0 of nominal (tests/serving)."""


def aggregated_steps(
    layouts: Layouts, concurrency: Array, slots: Array, traffic: Traffic, scheduling: Scheduling
) -> WorkerSteps:
    """Steps of a worker that prefills and decodes: ``concurrency`` requests in flight of which ``slots`` fit.

    R running requests bring R / (O - 1) new prompts per decode step, which queue until the scheduler looks. Outputs of
    one fixed length keep requests in step where decodes pause: they all return together. Where prompts ride along,
    requests start step after step and end so.
    """
    running = np.maximum(np.minimum(concurrency, slots), 1e-9)
    pause = np.broadcast_to(np.asarray(scheduling.decodes_pause, dtype=bool), running.shape)
    riding = np.where(pause, 0.0, running / layouts.attention_dp)
    budget = np.maximum(np.asarray(scheduling.token_budget, dtype=float) - riding * (1 + traffic.drafts), 1.0)
    most = layouts.attention_dp * np.maximum(budget / traffic.new_tokens, 1.0)
    poll = np.broadcast_to(np.asarray(scheduling.poll_steps, dtype=float), running.shape)
    arrivals = running * poll / np.maximum(np.asarray(traffic.output_tokens) - 1.0, 1.0)
    together = np.where(pause, running, np.minimum(running, traffic.returning_together))
    group = 1.0 + ARRIVAL_BURST * arrivals
    group = np.where(traffic.fixed_lengths, np.maximum(together, group), group)
    group = np.maximum(np.minimum(group, running), 1.0)
    prompts = np.minimum(group, most)
    prefill, chunks = prefill_work(layouts, traffic, budget, prompts, riding)
    decode = decode_work(running, layouts, traffic)
    return WorkerSteps(running, decode, prefill, chunks, prompts, group, most, poll, pause)


def full_prefill_work(layouts: Layouts, steps: WorkerSteps, traffic: Traffic, scheduling: Scheduling) -> StepWork:
    """The prefill step of the first wave: as many prompts as the token budget holds, or all."""
    riding = steps.prefill.decode_seqs
    budget = np.maximum(np.asarray(scheduling.token_budget, dtype=float) - riding, 1.0)
    return prefill_work(
        layouts, traffic, budget, np.minimum(steps.most_prompts, np.maximum(steps.running, 1.0)), riding
    )[0]


def prefill_pool_steps(layouts: Layouts, traffic: Traffic, token_budget: Array) -> tuple[StepWork, Array, Array]:
    """Steps of a prefill-only worker with every rank busy: (work, steps per prompt, prompts per step of the worker)."""
    none = np.zeros(len(layouts))
    prompts = layouts.attention_dp.astype(float)
    work, chunks = prefill_work(layouts, traffic, np.broadcast_to(token_budget, none.shape), prompts, none)
    return work, chunks, prompts


def passage_s(
    ctx: StepContext,
    layouts: Layouts,
    traffic: Traffic,
    token_budget: Array,
    how: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> Array:
    """Seconds from the end of a prompt's steps until its first token has left the last pipeline stage, (n,); 0 without
    stages.

    A step lasts until the first stage takes the next one, T / pp of the T that a micro-batch is under way; the rest,
    (1 - 1 / pp) T, passes in the other stages. No micro-batch is less than a chunk of one prompt, and a prompt's next
    chunk enters when the last has come back (vLLM V1; an engine that sends chunks after each other is faster).
    """
    pp = layouts.pp.astype(float)
    chunks = np.maximum(float(traffic.new_tokens) / token_budget, 1.0)
    chunk = float(traffic.new_tokens) / chunks
    past = float(traffic.cached_tokens) + 0.5 * (float(traffic.new_tokens) - chunk)
    nothing = np.zeros(len(layouts))
    each = StepWork(nothing, nothing + 1.0, chunk * pp, pp, past, chunk * pp)
    return np.asarray((1.0 - 1.0 / pp) * chunks * step_times(ctx, layouts, each, *how).total)


def aggregated_worker(
    ctx: StepContext,
    layouts: Layouts,
    concurrency: Array,
    slots: Array,
    traffic: Traffic,
    scheduling: Scheduling,
    request_s: ArrayLike,
    first_wave_share: float = 0.0,
) -> WorkerTimes:
    """Steady state of a worker that prefills and decodes (see :func:`aggregated_steps`); ``request_s`` of TTFT are
    beside its steps.
    """
    steps = aggregated_steps(layouts, concurrency, slots, traffic, scheduling)
    how = (scheduling.two_batch, scheduling.deepep)
    decode = verify_times(ctx, layouts, steps.decode, traffic.drafts, *how)
    prefill = beside_decodes(ctx, layouts, steps.prefill, traffic, how)
    loop = aggregated(
        concurrency,
        slots,
        traffic.output_tokens,
        decode.total,
        prefill,
        steps.chunks,
        steps.prompts_per_step,
        steps.pause,
        request_s,
        first_wave_share,
        group_prompts=steps.group_prompts,
        most_prompts=steps.most_prompts,
        poll_steps=steps.poll_steps,
    )
    return WorkerTimes(steps, loop, decode, prefill)

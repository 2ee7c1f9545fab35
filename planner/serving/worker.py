"""One worker under a load: the work of its steps, their times, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.layout.layouts import Layouts
from planner.roofline.step import StepContext, StepTimes, StepWork, step_times
from planner.serving.closed_loop import LoopTimes, aggregated

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Traffic:
    """Mean lengths of requests; arrays of shape (n,) or scalars. ``input_tokens`` includes the cached part."""

    input_tokens: Array | float
    output_tokens: Array | float
    prefix_hit_rate: Array | float = 0.0

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
    pause: NDArray[np.bool_]


@dataclass(frozen=True)
class WorkerTimes:
    """A worker's steady state and the steps behind it."""

    steps: WorkerSteps
    loop: LoopTimes
    decode: StepTimes
    prefill: StepTimes


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


def aggregated_steps(
    layouts: Layouts, concurrency: Array, slots: Array, traffic: Traffic, scheduling: Scheduling
) -> WorkerSteps:
    """Steps of a worker that prefills and decodes: ``concurrency`` requests in flight of which ``slots`` fit.

    In steady state R running requests bring R / (O - 1) new prompts per decode step; above one they share a step, as
    many as the token budget of every rank holds.
    """
    running = np.maximum(np.minimum(concurrency, slots), 1e-9)
    pause = np.broadcast_to(np.asarray(scheduling.decodes_pause, dtype=bool), running.shape)
    riding = np.where(pause, 0.0, running / layouts.attention_dp)
    budget = np.maximum(np.asarray(scheduling.token_budget, dtype=float) - riding, 1.0)
    most = layouts.attention_dp * np.maximum(np.floor(budget / traffic.new_tokens), 1.0)
    prompts = np.clip(running / np.maximum(np.asarray(traffic.output_tokens) - 1.0, 1.0), 1.0, most)
    prefill, chunks = prefill_work(layouts, traffic, budget, prompts, riding)
    return WorkerSteps(running, decode_work(running, layouts, traffic), prefill, chunks, prompts, pause)


def prefill_pool_steps(layouts: Layouts, traffic: Traffic, token_budget: Array) -> tuple[StepWork, Array, Array]:
    """Steps of a prefill-only worker with every rank busy: (work, steps per prompt, prompts per step of the worker)."""
    none = np.zeros(len(layouts))
    prompts = layouts.attention_dp.astype(float)
    work, chunks = prefill_work(layouts, traffic, np.broadcast_to(token_budget, none.shape), prompts, none)
    return work, chunks, prompts


def aggregated_worker(
    ctx: StepContext,
    layouts: Layouts,
    concurrency: Array,
    slots: Array,
    traffic: Traffic,
    scheduling: Scheduling,
    first_wave_share: float = 0.0,
) -> WorkerTimes:
    """Steady state of a worker that prefills and decodes (see :func:`aggregated_steps`)."""
    steps = aggregated_steps(layouts, concurrency, slots, traffic, scheduling)
    how = (scheduling.two_batch, scheduling.deepep)
    decode = step_times(ctx, layouts, steps.decode, *how)
    prefill = step_times(ctx, layouts, steps.prefill, *how)
    loop = aggregated(
        concurrency,
        slots,
        traffic.output_tokens,
        decode.total,
        prefill.total,
        steps.chunks,
        steps.prompts_per_step,
        steps.pause,
        ctx.coefficients.request_s,
        first_wave_share,
    )
    return WorkerTimes(steps, loop, decode, prefill)

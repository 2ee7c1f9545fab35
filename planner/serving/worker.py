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
class WorkerTimes:
    """A worker's steady state; arrays of shape (n,)."""

    loop: LoopTimes
    running: Array
    """Requests that hold KV slots."""
    decode: StepTimes
    prefill: StepTimes
    prefill_tokens: Array
    """Prompt tokens of a prefill step on its busiest rank."""
    chunks: Array
    prompts_per_step: Array


def decode_work(running: Array, layouts: Layouts, traffic: Traffic) -> StepWork:
    """A step in which the worker's ``running`` sequences, spread over its attention-DP ranks, each make a token."""
    per_rank = running / layouts.attention_dp
    return StepWork(per_rank, np.broadcast_to(traffic.mean_context, per_rank.shape).astype(float))


def prefill_work(
    layouts: Layouts, traffic: Traffic, budget: Array, prompts: Array, decode_seqs: Array
) -> tuple[StepWork, Array]:
    """A step with prompt tokens of ``prompts`` requests of the worker beside ``decode_seqs`` per rank; steps per prompt.

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


def aggregated_worker(
    ctx: StepContext,
    layouts: Layouts,
    concurrency: Array,
    slots: Array,
    traffic: Traffic,
    scheduling: Scheduling,
    first_wave_share: float = 0.0,
) -> WorkerTimes:
    """A worker that prefills and decodes: ``concurrency`` requests in flight of which ``slots`` fit its memory."""
    running = np.maximum(np.minimum(concurrency, slots), 1e-9)
    pause = np.broadcast_to(np.asarray(scheduling.decodes_pause, dtype=bool), running.shape)
    out = np.broadcast_to(np.asarray(traffic.output_tokens, dtype=float), running.shape)
    per_rank = running / layouts.attention_dp
    riding = np.where(pause, 0.0, per_rank)
    budget = np.maximum(np.asarray(scheduling.token_budget, dtype=float) - riding, 1.0)
    most = layouts.attention_dp * np.maximum(np.floor(budget / traffic.new_tokens), 1.0)
    prompts = np.clip(running / np.maximum(out - 1.0, 1.0), 1.0, most)
    how = (scheduling.two_batch, scheduling.deepep)
    decode = step_times(ctx, layouts, decode_work(running, layouts, traffic), *how)
    work, chunks = prefill_work(layouts, traffic, budget, prompts, riding)
    prefill = step_times(ctx, layouts, work, *how)
    loop = aggregated(
        concurrency,
        slots,
        out,
        decode.total,
        prefill.total,
        chunks,
        prompts,
        pause,
        ctx.coefficients.request_s,
        first_wave_share,
    )
    assert work.prefill_tokens is not None
    return WorkerTimes(loop, running, decode, prefill, work.prefill_tokens, chunks, prompts)

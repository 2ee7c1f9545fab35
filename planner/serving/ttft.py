"""Parts of the time to first token, of workers that prefill and decode and of separate pools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.serving.open_loop import Flow, WorkerLoad, work_moments, work_shares
from planner.serving.prefill_pool import PrefillPool
from planner.serving.quantiles import Level, Part, gamma_part, uniform_part, waiting_part
from planner.serving.queues import fano
from planner.serving.routed import busy_rate, left_in
from planner.serving.slots import slot_part

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def ttft_parts(load: WorkerLoad, f: Flow) -> tuple[list[Part], list[Part]]:
    """Parts of TTFT, and those of the wait before the first step that carries the prompt.

    With V the prompt work found, in seconds of full steps: the prompt starts when less than one full step is ahead,
    (V - S)+. TTFT adds all of V but the decodes of steps that are not full: k V + (1 - k) (V - S)+, k the prompts' part
    of a full step. Prompts behind one's own lengthen the step in which its last token is computed.
    """
    lam, pause = np.asarray(load.rate_rps, dtype=float), load.decodes_pause
    second, _ = work_moments(load)
    ahead = _backlog_part(f, 0.0)
    beyond = _backlog_part(f, f.full_step_s)
    kept = np.where(pause, 1.0, np.minimum(f.prompt_work_s / np.maximum(f.utilisation / lam, 1e-300), 1.0))
    work_ahead = mixed_part(ahead, beyond, kept, f.full_step_s)

    poll = f.decode_s * load.poll_steps
    busy, long = _steps_under_way(load, f, poll)
    look = uniform_part(0.5 * poll)
    in_progress = _residual_part(poll, long, busy)
    meanwhile = np.minimum(lam * _fewer(load, f, long) * in_progress.mean, np.maximum(load.most_prompts - 1.0, 0.0))
    each = f.prompt_work_s * f.counted_each
    # Steps with room for many prompts: what counts is the step under way and what came with one; a queue is what does
    # not fit. With less room a queue forms; what its work takes longer than in full steps counts with its mean.
    batched = in_progress.mean - look.mean + meanwhile * each + beyond.mean
    longer = np.maximum(batched - work_ahead.mean, 0.0)
    shared = f.fixed_s >= MOSTLY_FIXED * (f.fixed_s + f.prompt_work_s)
    roomy = np.broadcast_to((load.most_prompts >= ROOMY) & shared, longer.shape)
    look = either_part(roomy, in_progress, look)
    work_ahead = either_part(roomy, beyond, work_ahead)
    together = np.where(roomy, meanwhile, 0.0)

    burst = 0.5 * (fano(load.arrival_cv, lam * f.full_step_s) - 1.0) * (1.0 - f.alone)
    # With room for both, those ahead of it are in its step beside those behind.
    burst = np.maximum(burst, 0.0) * np.where(roomy, 2.0, 1.0)
    behind = np.minimum(together + meanwhile + burst, np.maximum(load.most_prompts - 1.0, 0.0))
    others = gamma_part(behind * each, behind * each * f.prompt_work_s * second + 1e-30)
    slower = gamma_part(np.where(roomy, 0.0, longer), np.full(longer.shape, 1e-30))

    prompt = own_prompt_part(load, f, second)
    slot = slot_part(load, f)
    return [look, work_ahead, others, slower, slot, prompt], [in_progress, beyond, slot]


def own_prompt_part(load: WorkerLoad, f: Flow, second: Array) -> Part:
    """From the first step of a prompt to its first token: its own work, and the decodes that ride along.

    ``second`` is the second moment of the work over its mean. A step takes no less than a decode of few sequences.
    """
    pause = load.decodes_pause
    linear, curved = (f.prompt_work_s * share for share in work_shares(load))
    floor = np.maximum(load.decode_step_s - load.decode_step_slope_s * load.reference_occupancy, 0.0)

    budget = load.budget

    def own(p: Level) -> Array:
        x = load.prompts.quantile(p)
        work = linear * x + curved * x * x
        steps = np.maximum(x / budget, 1.0)
        work = work + f.fixed_s * steps
        return np.where(pause, np.maximum(work, floor), work + f.decode_s * steps)

    riding = f.fixed_s + np.where(pause, 0.0, f.decode_s)
    stretch = 1.0 + np.where(load.chunks > 1.0, riding * load.chunks / np.maximum(f.prompt_work_s, 1e-300), 0.0)

    def survival(t: Array) -> Array:
        one_step = budget * (linear + curved * budget) + riding
        short = t <= one_step
        slope = np.where(short, linear, linear + riding / budget)
        return load.prompts.survival(_solve(curved, slope, np.where(short, t - riding, t)))

    variance = np.square(f.prompt_work_s * stretch) * (second - 1.0) + 1e-30
    return Part(f.own_prompt_s, variance, own, survival=survival)


def _solve(curved: Array, linear: Array, time: Array) -> Array:
    """Root x >= 0 of linear x + curved x^2 = time; 0 where time is not above 0."""
    t = np.maximum(time, 0.0)
    return np.asarray(2.0 * t / np.maximum(linear + np.sqrt(np.square(linear) + 4.0 * curved * t), 1e-300))


def split_parts(load: WorkerLoad, f: Flow, pool: PrefillPool) -> tuple[list[Part], list[Part]]:
    """TTFT of a disaggregated deployment: prefill pool, transfer of the cache, a slot, the decode scheduler's look."""
    prompt, wait = pool.prompt_part(), pool.wait_part()
    look = uniform_part(0.5 * f.decode_s * load.poll_steps)
    sent = pool.transfer_s
    transfer = Part(sent, np.square(sent) * load.prompts.scv + 1e-30, lambda p: sent * load.prompts.quantile(p))
    link = gamma_part(pool.transfer_wait_s, np.square(pool.transfer_wait_s) + 1e-30)
    slot = replace(slot_part(load, f), survival=None)  # the other parts are not counted with their means
    return [look, prompt, transfer, link, slot], [wait, slot]


def _steps_under_way(load: WorkerLoad, f: Flow, poll: Array) -> tuple[Array, Array]:
    """Part of the time in which the step under way carries prompts, and such a step's length as an arrival sees it.

    Mixed: steps S = D + w N, N the prompts that came in the step before: mean D / (1 - theta), variance
    w^2 L S E[y^2] / E[y] F / (1 - theta^2), y the prompt tokens of a step; an arrival sees E[S^2] / E[S]. Never above a
    full step.
    """
    lam, theta = np.asarray(load.rate_rps, dtype=float), f.prefill_share
    step = np.where(load.decodes_pause, 0.0, f.decode_s) + f.added_s
    often = lam * f.steps_per_prompt / f.batch
    busy = np.minimum(often * step, 1.0)
    piece = load.prompts.step_load(load.budget)
    average = f.decode_s / (1.0 - theta)
    each = f.prompt_work_s * f.counted / f.batch
    excess = theta * each * piece * fano(load.arrival_cv, lam * average) / (1.0 - theta**2)
    mixed = (average + excess - (1.0 - busy) * poll) / np.maximum(busy, 1e-12)
    paused = f.fixed_s + f.prompt_work_s * np.maximum(piece, f.counted / f.steps_per_prompt)
    seen = np.where(load.decodes_pause, paused, mixed)
    arriving = np.minimum(often * step * _fewer(load, f, step), 1.0)
    return arriving, np.clip(seen, step, np.maximum(f.full_step_s, step))


def _fewer(load: WorkerLoad, f: Flow, step_s: Array) -> Array:
    """Arrivals during steps of this length over those of as much other time."""
    return busy_rate(f.damped, left_in(f.decode_s / (1.0 - f.prefill_share), step_s, load.decodes_pause))


ROOMY, MOSTLY_FIXED = 4.0, 0.25
"""Prompts of mean length that a step has room for, and part of its added time that does not grow with them, from which
on those that wait share the next step at little cost."""


def either_part(first: BoolArray, one: Part, other: Part) -> Part:
    """``one`` where ``first``, else ``other``."""
    if first.all() or not first.any():
        return one if first.all() else other
    mine, theirs = one.survival, other.survival
    both = mine is not None and theirs is not None

    def survival(t: Array) -> Array:
        assert mine is not None
        assert theirs is not None
        return np.where(first, mine(t), theirs(t))

    return Part(
        np.where(first, one.mean, other.mean),
        np.where(first, one.variance, other.variance),
        lambda p: np.where(first, one.quantile(p), other.quantile(p)),
        np.where(first, one.chance, other.chance) if one.chance is not None and other.chance is not None else None,
        survival if both else None,
    )


def _backlog_part(f: Flow, served: Array | float) -> Part:
    """Prompt work found beyond ``served`` seconds."""
    mean = np.where(f.stable, f.backlog.mean, 0.0)
    return waiting_part(mean, f.backlog.probability, f.backlog.delayed_scv, served)


def mixed_part(whole: Part, beyond: Part, kept: Array, served: Array) -> Part:
    """``kept`` of a wait and the rest of what exceeds ``served``; both move together, so quantiles add."""
    rest = 1.0 - kept
    mean = kept * whole.mean + rest * beyond.mean
    deviation = kept * np.sqrt(whole.variance) + rest * np.sqrt(beyond.variance)
    inner = whole.survival
    assert inner is not None

    def survival(t: Array) -> Array:
        short = t <= kept * served
        return inner(np.where(short, t / np.maximum(kept, 1e-12), t + rest * served))

    return Part(
        mean,
        np.square(deviation),
        lambda p: kept * whole.quantile(p) + rest * beyond.quantile(p),
        whole.chance,
        survival,
    )


def _residual_part(short: Array, long: Array, share: Array) -> Part:
    """What is left of the step under way: uniform in a step of ``long`` seconds for ``share`` of the time, else in one
    of ``short`` (<= long)."""
    long = np.maximum(long, short)
    mean = 0.5 * ((1.0 - share) * short + share * long)
    variance = ((1.0 - share) * np.square(short) + share * np.square(long)) / 3.0 - np.square(mean)
    share = np.maximum(share, 1e-12)

    def quantile(p: Level) -> Array:
        left = 1.0 - p
        inside = p / ((1.0 - share) / short + share / long)
        return np.where(left < share * (1.0 - short / long), long * (1.0 - left / share), inside)

    return Part(mean, variance + 1e-30, quantile)

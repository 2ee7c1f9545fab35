"""Gaps between tokens: TBT over all gaps, TPOT over requests, and the time from the first to the last token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.serving.open_loop import Flow, WorkerLoad, work_moments, work_shares
from planner.serving.quantiles import (
    LEVELS,
    Level,
    Part,
    gamma_part,
    gamma_quantile,
    normal,
    signed_root,
    waiting_part,
)

Array = NDArray[np.float64]


def decode_parts(load: WorkerLoad, f: Flow) -> list[Part]:
    """Time from the first to the last token: output length times mean gap, and the drift of that gap."""
    further = max(load.outputs.mean - 1.0, 1.0)
    usual = f.tpot_s - f.after_own_s / further
    count = load.outputs.mean

    def at(p: Level) -> Array:
        return np.asarray(usual * np.maximum(load.outputs.quantile(p) * count - 1.0, 0.0))

    length = Part(usual * further, np.square(usual * count) * load.outputs.scv + 1e-30, at)
    drift, beside, _ = tpot_parts(load, f)
    zero = np.zeros(1)

    def drifted(p: Level) -> Array:
        return np.asarray(normal(p) * np.sqrt(drift.variance + beside.variance) * further)

    gap = Part(zero, (drift.variance + beside.variance) * further**2, drifted)
    behind = waiting_part(f.after_own_s, np.maximum(f.backlog.probability, 1e-9), np.ones(1))
    return [length, gap, behind]


def lifetime_average(u: Array) -> Array:
    """Variance left of a quantity with autocorrelation exp(-u t / T) when averaged over T: 2 (u - 1 + e^-u) / u^2."""
    u = np.maximum(u, 1e-3)
    return np.asarray(2.0 * (u + np.expm1(-u)) / np.square(u))


def tpot_parts(load: WorkerLoad, f: Flow) -> list[Part]:
    """A request's mean gap: the occupancy's drift during it, the chance number of prompts beside it, and those that
    were queued behind its own.

    Occupancy returns to its mean in T / (1 - L B). Prompts beside it: a compound of L TPOT (O - 1) arrivals of work s,
    variance L TPOT E[s^2] F / (O - 1) of the mean gap, averaged over requests with E[1 / (O - 1)].
    """
    part = np.square(load.decode_step_slope_s / (1.0 - f.prefill_share))
    drift = f.occupancy_variance * part * lifetime_average(1.0 - f.feedback)
    second, _ = work_moments(load)
    each = np.square(f.added_s * f.steps_per_prompt / f.batch) * second
    inverse = load.outputs.mean_inverse()
    beside = load.rate_rps * f.tpot_s * each * f.dispersion * inverse
    further = max(load.outputs.mean - 1.0, 1.0)
    usual = f.tpot_s - f.after_own_s / further
    # a request of harmonic mean length stands for the average of 1 / (O - 1)
    spent = -np.expm1(-1.0 / (inverse * f.relaxation_tokens)) / -np.expm1(-further / f.relaxation_tokens)
    after = f.after_own_s * inverse * spent
    chance = np.maximum(f.backlog.probability, 1e-9)
    return [
        gamma_part(0.5 * usual, drift + 1e-30),
        gamma_part(0.5 * usual, beside + 1e-30),
        waiting_part(after, chance, np.ones(1)),
    ]


def longest_gap(load: WorkerLoad, f: Flow) -> Array:
    """A step that is full of prompt tokens beside many more decodes than usual; no bound where decodes pause."""
    many = 3.0 * np.sqrt(f.occupancy_variance) * load.decode_step_slope_s
    return np.where(load.decodes_pause | (f.full_step_s <= 0.0), np.inf, f.full_step_s + many)


def tbt_quantiles(load: WorkerLoad, f: Flow, names: Sequence[str]) -> dict[str, Array]:
    """Gaps between tokens: a mixture of plain decode steps and of steps or pauses with prompts.

    The part that prompts prolong is that over all time, plus the gaps behind one's own prompt. A percentile below the
    part of plain gaps lies among these, one above it among the prolonged ones.
    """
    further = max(load.outputs.mean - 1.0, 1.0)
    part = np.clip(f.interrupted + f.first_gaps / further, 1e-12, 1.0)
    added = (f.interrupted * f.interruption_s + f.after_own_s / further) / part
    drift = f.occupancy_variance * np.square(load.decode_step_slope_s)
    out: dict[str, Array] = {}
    least: Array | float = 0.0
    for name in names:
        if name == "mean":
            out[name] = np.where(f.stable, f.tpot_s, np.inf)
            continue
        p = LEVELS[name]
        among = np.clip((p - 1.0) / part + 1.0, 1e-6, 1.0)
        plain = normal(np.clip(p / np.maximum(1.0 - part, p), 0.0, 1.0 - 1e-9))
        value = np.where(
            part > 1.0 - p, _interrupted(load, f, drift, added, among), gamma_quantile(f.decode_s, drift, plain)
        )
        least = np.maximum(value, least)
        out[name] = np.where(f.stable, least, np.inf)
    return out


def _interrupted(load: WorkerLoad, f: Flow, drift: Array, added: Array, p: Array) -> Array:
    """Quantile ``p`` (n,) of the gaps that prompts prolong: length of a prompt or chunk, number of them, decodes."""
    pause, theta, shape = load.decodes_pause, f.prefill_share, load.prompts
    linear, curved = (f.prompt_work_s * share for share in work_shares(load))
    full = shape.full_share(load.budget)
    lanes = np.minimum(f.batch, load.lanes)
    longest = shape.quantile(p ** (1.0 / lanes))
    within = np.clip(p / np.maximum(1.0 - full, 1e-9), 0.0, 1.0 - 1e-9)
    in_step = np.where(p >= 1.0 - full, load.budget, np.minimum(shape.quantile(within ** (1.0 / lanes)), load.budget))
    x = np.where(pause, longest, in_step)
    depth = np.where(full > 0.0, np.maximum(longest, x), x)
    one = linear * x + curved * x * depth
    mean_one = f.prompt_work_s / np.where(pause, 1.0, f.steps_per_prompt)
    several = f.counted
    single = np.minimum(f.alone + (1.0 - f.alone) * np.clip(2.0 - f.counted_several, 0.0, 1.0), 1.0)
    unit = mean_one + np.where(pause, f.fixed_s, 0.0)  # a run of prompts is about as many steps
    once = np.where(pause, 0.0, f.fixed_s)
    extra = np.where(pause, np.maximum(added / np.maximum(unit, 1e-300), several), several)
    above = np.maximum((extra - single) / np.maximum(1.0 - single, 1e-9) - 2.0, 0.0)
    beyond = np.clip((p - single) / np.maximum(1.0 - single, 1e-9), 0.0, 1.0 - 1e-9)
    count = np.where(p > single, 2.0 - above * np.log1p(-beyond), 1.0)
    by_length = (one - mean_one) * np.sqrt(several) * np.where(pause, (1.0 - theta) ** -0.5, 1.0)
    by_count = (count - extra) * unit
    by_step = gamma_quantile(f.decode_s, drift, normal(p)) - f.decode_s
    interference = once + extra * unit + signed_root(by_length, by_count, by_step)
    largest = np.where(pause, np.inf, f.fixed_s + (linear + curved * depth) * load.budget + np.maximum(by_step, 0.0))
    return np.asarray(f.decode_s + np.clip(interference, 0.0, np.maximum(largest, 0.0)))

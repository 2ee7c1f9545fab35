"""Percentiles of queue wait, TTFT, TBT, TPOT and whole requests of a worker under load.

Definitions, shared with the replay: TTFT from arrival to the first token; TBT every gap between consecutive tokens of
all requests, pooled; TPOT (last - first token) / (O - 1) of a request; wait from arrival to the first step that carries
the prompt. Each time is a sum of independent parts (:mod:`planner.serving.quantiles`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.serving.open_loop import Flow, WorkerLoad, flow, work_moments, work_shares
from planner.serving.quantiles import (
    LEVELS,
    Level,
    Part,
    gamma_part,
    gamma_quantile,
    normal,
    signed_root,
    sum_quantile,
    total,
    uniform_part,
    waiting_part,
)
from planner.serving.queues import Wait, erlang_c, fano, peaked_blocking, queue_wait
from planner.serving.rows import put

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

METRICS = ("wait", "ttft", "tbt", "tpot", "e2e")
EVERYTHING: Mapping[str, Sequence[str]] = {metric: tuple(LEVELS) for metric in METRICS}
"""Every percentile of every metric."""


@dataclass(frozen=True)
class LoadResult:
    """Times in seconds by "mean" and percentile ("p50", ...), each (n,); infinite where a worker is not stable."""

    wait: dict[str, Array]
    ttft: dict[str, Array]
    tbt: dict[str, Array]
    tpot: dict[str, Array]
    e2e: dict[str, Array]
    rejection: Array
    """Part of requests that find no KV slot (0 to 1); they leave where admission rejects and wait where it queues."""
    stable: BoolArray
    outside: BoolArray
    """Where the closed forms cannot be trusted; :data:`OUTSIDE` says why."""
    flow: Flow

    @property
    def completion(self) -> Array:
        """Part of requests that are served where those without a slot are refused; 0 where the worker is not stable."""
        return np.where(self.stable, 1.0 - self.rejection, 0.0)

    @property
    def peak_occupancy(self) -> Array:
        """Requests present that are exceeded rarely: four standard deviations above the mean."""
        return np.asarray(np.ceil(self.flow.occupancy + 4.0 * np.sqrt(self.flow.occupancy_variance)))

    def updated(self, rows: NDArray[np.int64], part: LoadResult) -> LoadResult:
        """With the candidates at positions ``rows`` replaced by those of ``part``."""

        found: dict[str, Any] = {
            m: {name: put(v, rows, getattr(part, m)[name]) for name, v in getattr(self, m).items()} for m in METRICS
        }
        found |= {
            name: put(getattr(self, name), rows, getattr(part, name)) for name in ("rejection", "stable", "outside")
        }
        mine, theirs = self.flow, part.flow
        states: dict[str, Any] = {
            f.name: put(getattr(mine, f.name), rows, getattr(theirs, f.name))
            for f in fields(Flow)
            if f.name != "backlog"
        }
        queue = Wait(*(put(getattr(mine.backlog, f.name), rows, getattr(theirs.backlog, f.name)) for f in fields(Wait)))
        return LoadResult(**found, flow=Flow(**states, backlog=queue))

    def get(self, metric: str, percentile: str) -> Array:
        """Seconds of a metric (:data:`METRICS`) at "mean" or a percentile."""
        found: Array = getattr(self, metric)[percentile]
        return found


@dataclass(frozen=True)
class PrefillPool:
    """Workers that only process prompts, of a disaggregated deployment; arrays (n,)."""

    rate_rps: Array
    """Arrivals at one worker."""
    arrival_cv: Array
    servers: Array
    """Prompts that a worker processes side by side."""
    prompt_s: Array
    """Seconds for a prompt of mean length."""
    quadratic_share: Array
    transfer_s: Array
    """Exposed KV transfer of a prompt of mean length."""

    @property
    def utilisation(self) -> Array:
        return np.asarray(self.rate_rps * self.prompt_s / self.servers)


def joined(parts: Sequence[LoadResult]) -> LoadResult:
    """Results of consecutive blocks of candidates, end to end."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    found: dict[str, Any] = {
        m: {name: np.concatenate([getattr(p, m)[name] for p in parts]) for name in getattr(first, m)} for m in METRICS
    }
    found |= {name: np.concatenate([getattr(p, name) for p in parts]) for name in ("rejection", "stable", "outside")}
    states: dict[str, Any] = {
        f.name: np.concatenate([getattr(p.flow, f.name) for p in parts]) for f in fields(Flow) if f.name != "backlog"
    }
    backlog = Wait(*(np.concatenate([getattr(p.flow.backlog, f.name) for p in parts]) for f in fields(Wait)))
    return LoadResult(**found, flow=Flow(**states, backlog=backlog))


OUTSIDE = "prompt load above 0.9 of the token budget, or bursts larger than what the worker holds at once"
UTILISATION_RANGE = 0.9


def percentiles(
    load: WorkerLoad,
    wanted: Mapping[str, Sequence[str]] = EVERYTHING,
    prefill: PrefillPool | None = None,
) -> LoadResult:
    """Latencies of a worker at its rate; only the ``wanted`` percentiles by metric are computed beside means.

    TTFT = wait until the scheduler looks + wait for room in the token budget + wait for a KV slot + prompts in the same
    steps + own prompt + fixed time. TBT = decode step at the occupancy that tokens see, plus, in the part f of gaps
    that prompts interrupt, what they add. TPOT = mean gap, with the occupancy's drift over a request and the chance
    number of prompts beside it. Whole request = TTFT + (O - 1) TPOT.

    With ``prefill``, prompts are processed elsewhere: TTFT = wait of that pool + own prompt + KV transfer + the wait
    for a slot and for the decode scheduler; ``load`` then has no prompt work (prefill_step_s 0, decodes_pause).
    """
    f = flow(load)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # what is not stable answers infinity
        if prefill is None:
            first, until_first = _ttft_parts(load, f)
        else:
            first, until_first = _split_parts(load, f, prefill)
            f = replace(f, stable=f.stable & (prefill.utilisation < 1.0))
        rejection = _rejection(load, f)
    return spread_of(load, f, first, until_first, wanted, rejection)


def spread_of(
    load: WorkerLoad,
    f: Flow,
    first: Sequence[Part],
    until_first: Sequence[Part],
    wanted: Mapping[str, Sequence[str]],
    rejection: Array,
) -> LoadResult:
    """Percentiles of a worker in steady state ``f`` whose TTFT and wait are the sums of these parts."""
    names = {metric: ("mean", *levels) for metric, levels in wanted.items()}
    found: dict[str, dict[str, Array]] = {name: {} for name in METRICS}
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if "wait" in names:
            found["wait"] = _quantiles(until_first, names["wait"], 0.0, f.stable)
        if "ttft" in names:
            found["ttft"] = _quantiles(first, names["ttft"], load.request_s, f.stable)
        if "tpot" in names:
            found["tpot"] = _quantiles(_tpot_parts(load, f), names["tpot"], 0.0, f.stable)
        if "e2e" in names:
            found["e2e"] = _quantiles([*first, *_decode_parts(load, f)], names["e2e"], load.request_s, f.stable)
        if "tbt" in names:
            found["tbt"] = _tbt(load, f, names["tbt"])
    crowded = np.sqrt(f.occupancy_variance) > np.maximum(load.slots - f.occupancy, 1e-9)
    outside = ~f.stable | (f.utilisation > UTILISATION_RANGE) | ((f.occupancy_variance > 0.0) & crowded)
    return LoadResult(**found, rejection=rejection, stable=f.stable, outside=outside, flow=f)


def _quantiles(
    parts: Sequence[Part], names: Sequence[str], fixed: Array | float, stable: BoolArray
) -> dict[str, Array]:
    """Mean and percentiles of a sum, infinite where not stable, each at least the percentile before it."""
    out: dict[str, Array] = {}
    least: Array | float = 0.0
    for name in names:
        value = total(parts)[0] if name == "mean" else np.maximum(sum_quantile(parts, LEVELS[name]), least)
        least = least if name == "mean" else value
        out[name] = np.where(stable, value + fixed, np.inf)
    return out


def _ttft_parts(load: WorkerLoad, f: Flow) -> tuple[list[Part], list[Part]]:
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
    work_ahead = mixed_part(ahead, beyond, kept)

    poll = f.decode_s * load.poll_steps
    busy, long = _steps_under_way(load, f, poll)
    look = uniform_part(0.5 * poll)
    in_progress = _residual_part(poll, long, busy)
    meanwhile = np.minimum(lam * in_progress.mean, np.maximum(load.most_prompts - 1.0, 0.0))
    each = f.prompt_work_s / load.lanes
    together = in_progress.mean - look.mean + meanwhile * each + beyond.mean
    work_ahead = scaled_part(work_ahead, np.maximum(together / np.maximum(work_ahead.mean, 1e-300), 1.0))

    burst = 0.5 * (fano(load.arrival_cv, lam * f.full_step_s) - 1.0) * (1.0 - f.alone)
    behind = np.minimum(meanwhile + np.maximum(burst, 0.0), np.maximum(load.most_prompts - 1.0, 0.0))
    others = gamma_part(behind * each, behind * np.square(each) * second + 1e-30)

    prompt = own_prompt_part(load, f, second)
    slot = _slot_part(load, f)
    return [look, work_ahead, others, slot, prompt], [in_progress, beyond, slot]


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
    return Part(f.own_prompt_s, np.square(f.prompt_work_s * stretch) * (second - 1.0) + 1e-30, own)


def _split_parts(load: WorkerLoad, f: Flow, pool: PrefillPool) -> tuple[list[Part], list[Part]]:
    """TTFT of a disaggregated deployment: GI/G/c in front of the prefill worker, prompt, transfer, decode's look."""
    alike = replace(load, quadratic_share=pool.quadratic_share)
    second, third = work_moments(alike)
    shape, convex = load.prompts, 1.0 + pool.quadratic_share * load.prompts.scv
    mean = pool.prompt_s * convex
    linear, curved = (mean * share for share in work_shares(alike))
    found = queue_wait(pool.rate_rps, pool.arrival_cv, mean, second - 1.0, third / np.square(second), pool.servers)
    ahead = waiting_part(
        np.where(np.isfinite(found.mean), found.mean, 0.0) + 0.0 * f.occupancy, found.probability, found.delayed_scv
    )
    look = uniform_part(0.5 * f.decode_s * load.poll_steps)

    def own(p: Level) -> Array:
        x = shape.quantile(p)
        return np.asarray((linear + pool.transfer_s) * x + curved * x * x)

    spread = np.square(mean) * (second - 1.0) + np.square(pool.transfer_s) * shape.scv
    prompt = Part(mean + pool.transfer_s, spread + 1e-30, own)
    slot = _slot_part(load, f)
    return [look, ahead, slot, prompt], [ahead, slot]


def _steps_under_way(load: WorkerLoad, f: Flow, poll: Array) -> tuple[Array, Array]:
    """Part of the time in which the step under way carries prompts, and such a step's length as an arrival sees it.

    Mixed: steps S = D + w N, N the prompts that came in the step before: mean D / (1 - theta), variance
    w^2 L S E[y^2] / E[y] F / (1 - theta^2), y the prompt tokens of a step; an arrival sees E[S^2] / E[S]. Never above a
    full step.
    """
    lam, theta = np.asarray(load.rate_rps, dtype=float), f.prefill_share
    step = np.where(load.decodes_pause, 0.0, f.decode_s) + f.added_s
    busy = np.minimum(lam * f.steps_per_prompt / f.batch * step, 1.0)
    piece = load.prompts.step_load(load.budget)
    average = f.decode_s / (1.0 - theta)
    excess = theta * f.prompt_work_s / load.lanes * piece * fano(load.arrival_cv, lam * average) / (1.0 - theta**2)
    mixed = (average + excess - (1.0 - busy) * poll) / np.maximum(busy, 1e-12)
    paused = f.fixed_s + f.prompt_work_s * np.maximum(piece, f.batch / f.steps_per_prompt / load.lanes)
    seen = np.where(load.decodes_pause, paused, mixed)
    return busy, np.clip(seen, step, np.maximum(f.full_step_s, step))


def scaled_part(part: Part, factor: Array) -> Part:
    """A part times a factor."""
    return Part(part.mean * factor, part.variance * np.square(factor), lambda p: factor * part.quantile(p), part.chance)


def _backlog_part(f: Flow, served: Array | float) -> Part:
    """Prompt work found beyond ``served`` seconds."""
    mean = np.where(f.stable, f.backlog.mean, 0.0)
    return waiting_part(mean, f.backlog.probability, f.backlog.delayed_scv, served)


def mixed_part(whole: Part, beyond: Part, kept: Array) -> Part:
    """``kept`` of a part and the rest of what exceeds a threshold; both move together, so quantiles add."""
    rest = 1.0 - kept
    mean = kept * whole.mean + rest * beyond.mean
    deviation = kept * np.sqrt(whole.variance) + rest * np.sqrt(beyond.variance)
    return Part(
        mean, np.square(deviation), lambda p: kept * whole.quantile(p) + rest * beyond.quantile(p), whole.chance
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


def _slot_part(load: WorkerLoad, f: Flow) -> Part:
    """Wait for a KV slot where all are taken and arrivals queue: Erlang C with Hayward's correction, exponential."""
    probability, mean = np.zeros(f.occupancy.shape), np.zeros(f.occupancy.shape)
    near = _near_full(load, f)
    if np.any(near):
        slots, a, z = (np.broadcast_to(v, near.shape)[near] for v in (load.slots, f.occupancy, _peak(f)))
        chance = erlang_c(slots / z, a / z)
        leaving = (slots - a) / np.broadcast_to(f.residence_s, near.shape)[near]
        probability[near], mean[near] = chance, chance * z / np.maximum(leaving, 1e-12)
    return waiting_part(mean, probability, np.ones(1))


def _rejection(load: WorkerLoad, f: Flow) -> Array:
    """Blocking of arrivals by full KV slots, 1 - slots / load where there are more requests than slots."""
    out = np.zeros(f.occupancy.shape)
    near = _near_full(load, f)
    if np.any(near):
        out[near] = peaked_blocking(
            *(np.broadcast_to(v, near.shape)[near] for v in (load.slots, f.occupancy, _peak(f)))
        )
    return np.where(np.isfinite(f.occupancy), out, 1.0)


def _peak(f: Flow) -> Array:
    return np.asarray(f.occupancy_variance / np.maximum(f.occupancy, 1e-300))


def _near_full(load: WorkerLoad, f: Flow) -> BoolArray:
    """Where slots can run out: within six standard deviations. Beyond them blocking is below 1e-8 and taken as none."""
    reach = f.occupancy + 6.0 * np.sqrt(np.maximum(f.occupancy_variance, 1.0))
    return np.asarray((reach > load.slots) & np.isfinite(f.occupancy))


def _decode_parts(load: WorkerLoad, f: Flow) -> list[Part]:
    """Time from the first to the last token: output length times mean gap, and the drift of that gap."""
    further = max(load.outputs.mean - 1.0, 1.0)
    usual = f.tpot_s - f.after_own_s / further
    count = load.outputs.mean

    def at(p: Level) -> Array:
        return np.asarray(usual * np.maximum(load.outputs.quantile(p) * count - 1.0, 0.0))

    length = Part(usual * further, np.square(usual * count) * load.outputs.scv + 1e-30, at)
    drift, beside, _ = _tpot_parts(load, f)
    zero = np.zeros(1)

    def drifted(p: Level) -> Array:
        return np.asarray(normal(p) * np.sqrt(drift.variance + beside.variance) * further)

    gap = Part(zero, (drift.variance + beside.variance) * further**2, drifted)
    behind = waiting_part(f.after_own_s, np.maximum(f.backlog.probability, 1e-9), np.ones(1))
    return [length, gap, behind]


def _lifetime_average(u: Array) -> Array:
    """Variance left of a quantity with autocorrelation exp(-u t / T) when averaged over T: 2 (u - 1 + e^-u) / u^2."""
    u = np.maximum(u, 1e-3)
    return np.asarray(2.0 * (u + np.expm1(-u)) / np.square(u))


def _tpot_parts(load: WorkerLoad, f: Flow) -> list[Part]:
    """A request's mean gap: the occupancy's drift during it, the chance number of prompts beside it, and those that
    were queued behind its own.

    Occupancy returns to its mean in T / (1 - L B). Prompts beside it: a compound of L TPOT (O - 1) arrivals of work s,
    variance L TPOT E[s^2] F / (O - 1) of the mean gap, averaged over requests with E[1 / (O - 1)].
    """
    part = np.square(load.decode_step_slope_s / (1.0 - f.prefill_share))
    drift = f.occupancy_variance * part * _lifetime_average(1.0 - f.feedback)
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


def _tbt(load: WorkerLoad, f: Flow, names: Sequence[str]) -> dict[str, Array]:
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
    several = np.maximum(f.batch / load.lanes, 1.0)
    single = np.where(load.lanes > f.batch, 1.0, f.alone)
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

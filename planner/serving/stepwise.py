"""Percentiles of a worker under load from the chain of its steps, for the few deployments that are written out.

The search judges every candidate by the closed forms of :mod:`planner.serving.latency`. Those that are left get this
numerical model of the same worker: its step times at every occupancy and every number of prompt tokens instead of lines
through two points, and the steps as a Markov chain (:mod:`planner.serving.step_chain`). Attention-DP ranks are lanes of
one chain (:mod:`planner.serving.lanes`): a burst meets all of them at once, and they step together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.blas import one_blas_thread
from planner.serving.arrival_phases import Arrivals
from planner.serving.chain_gaps import ATOM_SHARES, PIECES, DecodeSpread, Gaps, gaps
from planner.serving.chain_waits import Times, Waits, middles, times, waits
from planner.serving.gaps import lifetime_average
from planner.serving.lanes import Held, Split, held, split_of
from planner.serving.latency import METRICS, LoadResult
from planner.serving.length_shape import LengthShape
from planner.serving.open_loop import Flow, WorkerLoad
from planner.serving.quantiles import LEVELS, gamma_quantile, normal
from planner.serving.slots import slot_part
from planner.serving.step_chain import Chain, Shared, Steps, chain_of, even_points, spread_lengths

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

PRESENT = np.concatenate([np.linspace(0.02, 0.94, 24), [0.96, 0.98, 0.99, 0.997]])
"""Probabilities of the requests in a worker that decode steps are evaluated at."""
PRESENT_SHARES = np.diff(np.concatenate([[0.0], 0.5 * (PRESENT[1:] + PRESENT[:-1]), [1.0]]))
MARGIN, DELAYED = 4.0, 12.0
"""Work that may wait: so many token budgets, and so many mean waits of those that wait, where the chain ends."""
ROUNDS = 8
"""Rounds of the fixed point of the requests in a worker."""
SETTLED = 0.02
"""Relative change of the decode step below which the chain is not solved again."""
RARELY_FULL = 0.01
"""Part of requests that wait for a KV slot up to which the wait is left out."""
WITHIN_POINT = np.array([-0.4, -0.2, 0.0, 0.2, 0.4])
"""Work of a step is spread over the width of a grid point."""
EVENLY = (np.arange(4096) + 0.5) / 4096
"""Probabilities of the prompt lengths that lanes are filled with."""
LEAST_LEFT = 0.05
"""Least part of the steps' speed that is left to feedback from the requests in the worker."""


@dataclass(frozen=True)
class StepCurves:
    """Step times of n workers."""

    occupancy: Array
    """Requests in a decode step (in its fullest lane), ascending, (n, k), and its seconds."""
    decode_s: Array
    context_s: Array
    """Seconds that a decode step at the mean occupancy grows by for each doubling (e-fold) of all contexts, (n,)."""
    tokens: Array
    """Prompt tokens of a step in mean prompts, ascending, (n, p), and its seconds beside the mean decodes."""
    """With lanes (attention-DP ranks): tokens of the busiest of them."""
    prompt_s: Array
    context_scv: Array
    """Squared CV of the context of a decoding request, (n,)."""
    alike: Array
    """Lanes with as many tokens as the busiest, ascending from 1, (n, q)."""
    alike_s: Array
    """Seconds of steps with them, (n, p, q); ``prompt_s`` at 1."""

    def take(self, rows: NDArray[np.int64]) -> StepCurves:
        return StepCurves(
            self.occupancy[rows],
            self.decode_s[rows],
            self.context_s[rows],
            self.tokens[rows],
            self.prompt_s[rows],
            self.context_scv[rows],
            self.alike[rows],
            self.alike_s[rows],
        )

    def pair(self, row: int) -> Callable[[Array, Array], Array]:
        """Seconds of a step of one worker by the prompt tokens of its busiest lane and of all lanes."""
        tokens, alike, table = self.tokens[row], self.alike[row], self.alike_s[row]

        def seconds(busiest: Array, taken: Array) -> Array:
            share = np.clip(taken / np.maximum(busiest, 1e-9), 1.0, alike[-1])
            j = np.clip(np.searchsorted(alike, share, side="right") - 1, 0, alike.size - 2)
            i = np.clip(np.searchsorted(tokens, busiest, side="right") - 1, 0, tokens.size - 2)
            b = (share - alike[j]) / (alike[j + 1] - alike[j])
            a = np.clip((busiest - tokens[i]) / (tokens[i + 1] - tokens[i]), 0.0, 1.0)
            low, high = ((1.0 - b) * table[k, j] + b * table[k, j + 1] for k in (i, i + 1))
            return np.asarray((1.0 - a) * low + a * high)

        return seconds


@dataclass(frozen=True)
class Stepwise:
    """One worker by its steps."""

    waits: Waits
    gaps: Gaps
    whole: Times
    request_s: float

    def seconds(self, metric: str, level: str) -> float:
        """A metric of METRICS at "mean" or a percentile."""
        if metric == "tpot":
            means = self.gaps.by_request
            return means.mean_s if level == "mean" else means.quantile(LEVELS[level])
        found: Times = {
            "wait": self.waits.start,
            "ttft": self.waits.first,
            "tbt": self.gaps.every,
            "e2e": self.whole,
        }[metric]
        value = found.mean if level == "mean" else found.quantile(LEVELS[level])
        return value + (self.request_s if metric in ("ttft", "e2e") else 0.0)

    def good_part(self, limits: Mapping[str, Mapping[str, float]]) -> float:
        """Part of served requests within every limit (seconds by metric and by "mean" or percentile).

        TTFT and the gaps after it go together through what waits behind a request: the parts are multiplied within a
        group of requests of like TTFT, not over all. A request keeps to a limit on TBT at p where that part of its gaps
        does, by the normal limit of a binomial count.
        """
        from scipy.special import ndtr

        means = self.gaps.by_request
        kept = np.ones(means.shares.shape)
        first = np.ones(means.shares.shape[0])
        sizes = np.array([g.share for g in self.waits.groups])
        before = np.concatenate([[0.0], np.cumsum(sizes)[:-1]])
        for metric, by_level in limits.items():
            for level, limit in by_level.items():
                if level == "mean":
                    kept *= float(self.seconds(metric, "mean") <= limit)
                elif metric == "ttft":
                    part = (self.waits.first.within(limit - self.request_s) - before) / sizes
                    first = np.minimum(first, np.clip(part, 0.0, 1.0))
                elif metric == "tpot":
                    kept = np.minimum(kept, means.within(limit))
                elif metric == "tbt":
                    part, count = self.gaps.every.within(limit), means.gaps
                    deviation = np.sqrt(max(part * (1.0 - part), 1e-12) * count)
                    kept = np.minimum(kept, ndtr(((part - LEVELS[level]) * count + 0.5) / deviation))
                elif metric == "e2e":
                    left = limit - self.request_s - np.array([g.first_s for g in self.waits.groups])
                    allowed = left[:, None, None, None] / means.pieces[None, :, :, None]
                    inside = np.sum((means.atoms()[:, :, None, :] <= allowed) * ATOM_SHARES, axis=-1)
                    kept = np.minimum(kept, inside.mean(axis=-1))
        return float(np.sum(means.shares * kept * first[:, None]))


def applies(load: WorkerLoad, f: Flow) -> BoolArray:
    """Where the chain describes a worker, (n,): stable, gaps between arrivals no smoother than Poisson, KV slots that
    hardly ever run out."""
    slots = slot_part(load, f).chance
    assert slots is not None
    found = f.stable & (load.arrival_cv >= 0.99) & (f.prompt_work_s > 0.0)
    return np.asarray(found & (slots < RARELY_FULL))


@one_blas_thread()
def stepwise(load: WorkerLoad, f: Flow, curves: StepCurves, row: int, whole_prompts: bool) -> Stepwise:
    """The worker at position ``row``; ``whole_prompts`` where the engine does not split a prompt that fits a step."""

    def at(values: ArrayLike) -> float:
        return float(np.broadcast_to(values, f.occupancy.shape)[row])

    pause, rate, lanes = bool(at(load.decodes_pause)), at(load.rate_rps), int(at(load.lanes))
    arrivals = Arrivals.of(rate, at(load.arrival_cv))
    budget = _whole_budget(at(load.budget), load.prompts) if whole_prompts else at(load.budget)
    tokens, seconds = curves.tokens[row], curves.prompt_s[row]
    full = float(np.interp(budget, tokens, seconds))
    further = max(load.outputs.mean - 1.0, 1.0)

    # Room of a prompt of x mean lengths: time it takes of full steps, in those of a prompt of mean length.
    squared = at(load.quadratic_share)
    linear = budget * float(seconds[-1] - seconds[0]) / float(tokens[-1] - tokens[0]) / full
    growth = 1.0 + squared * load.prompts.scv

    def room(x: Array) -> Array:
        return linear * ((1.0 - squared) * x + squared * x * x) / growth + (1.0 - linear) * x

    side = split = None
    if lanes > 1:
        side = held(lanes, at(f.occupancy), at(load.arrival_cv), load.outputs)
        split = split_of(side.counts, budget, room(load.prompts.quantile(EVENLY)), at(f.batch), curves.pair(row))
        tokens, seconds = split.total, split.seconds
    whole = lanes * budget
    sizes = load.prompts.quantile(middles())
    unit = whole / even_points(whole, lanes)
    lengths = spread_lengths(load.prompts, room(load.prompts.values), unit)
    step = _decode_step(curves, row, side)
    lean_s = float(np.interp(1.0, tokens, seconds)) + further * float(step(np.ones(1))[0])
    alone_s = 0.5 * (lean_s + at(f.residence_s))
    delayed = at(f.backlog.mean) / max(at(f.backlog.probability), 1e-9)
    reach = MARGIN + DELAYED * delayed / full

    added_s, idle = at(f.prefill_share) / rate, float(arrivals.lasting @ np.exp(-arrivals.rates * alone_s))
    spread = _decode_spread(load, f, curves, row, step, added_s, idle)
    shared = Shared(at(load.sharing), at(f.occupancy), at(load.balance_rps), at(f.apart), at(f.utilisation), pause)
    for _ in range(2):
        steps = Steps(whole, tokens, seconds, spread.step_s, split)
        chain = chain_of(arrivals, lengths, steps, alone_s, reach, shared)
        beyond = chain.seconds[1:] - (0.0 if pause else steps.decode_s)
        added_s = float(chain.running[1:].sum(axis=1) @ beyond) / chain.cycle_s / rate
        spread = _decode_spread(load, f, curves, row, step, added_s, chain.idle_part)
        if abs(spread.step_s / steps.decode_s - 1.0) < SETTLED:
            break
    before = waits(chain, steps, load.prompts, room(sizes))
    work_s = unit * float(seconds[-1] - seconds[0]) / float(tokens[-1] - tokens[0])
    after = gaps(chain, before.groups, load.outputs, spread, _varied(chain, work_s, split), pause)
    return Stepwise(before, after, _whole(before, after), at(load.request_s))


def _varied(chain: Chain, work_s: float, split: Split | None) -> list[Array]:
    """Seconds by which steps from each distinct point differ from their mean; ``work_s`` of an even point's work."""
    last = chain.grid.full
    if split is None:
        return [np.zeros(1) if i in (0, last) else WITHIN_POINT * work_s for i in range(last + 1)]
    at = np.asarray(chain.grid.points[: last + 1] * chain.unit, dtype=float)
    apart = split.at(split.atoms, at) - split.at(split.seconds, at)[:, None]
    return [np.zeros(1), *apart[1:]]


def _decode_step(curves: StepCurves, row: int, side: Held | None) -> Callable[[Array], Array]:
    """Seconds of decode steps by the requests in the worker: those of its fullest lane count for all lanes."""
    occupancy, seconds = np.log(curves.occupancy[row]), curves.decode_s[row]

    def step(requests: Array) -> Array:
        most = requests if side is None else side.fullest(requests)
        return np.interp(np.log(np.maximum(most, 1.0)), occupancy, seconds)

    return step


def _decode_spread(
    load: WorkerLoad,
    f: Flow,
    curves: StepCurves,
    row: int,
    step: Callable[[Array], Array],
    added_s: float,
    idle: float,
) -> DecodeSpread:
    """Decode steps of a worker whose prompts add ``added_s`` seconds each and that is ``idle`` for a part of the time.

    With n requests in the worker each stays T = (O - 1) D(n) + n w, as the prompts of all that came meanwhile take
    their w: the number that came in T is n again. Its variance over mean is z / (1 - L (slope (O - 1) + w)) as in
    :func:`planner.serving.open_loop.flow`; while the worker is busy it is taken as gamma distributed, with the mean
    that passes the load, E[n / (D + n w / (O - 1))] = L (O - 1). Tokens see it weighted by n / (D + n w / (O - 1)),
    steps by 1 / (D + n w / (O - 1)). The mean context of n requests varies by 1 / n of that of one.
    """

    def at(values: ArrayLike) -> float:
        return float(np.broadcast_to(values, f.occupancy.shape)[row])

    rate, further, workers = at(load.rate_rps), max(load.outputs.mean - 1.0, 1.0), at(load.sharing)
    each_s = added_s / further
    levels = normal(PRESENT)
    busy = 1.0 - idle
    mean, passed = at(f.occupancy) / busy, rate * further / busy
    for _ in range(ROUNDS):
        low, high = 0.8 * mean, 1.2 * mean + 1.0
        slope = float(step(np.array(high)) - step(np.array(low))) / (high - low)
        bursts = at(load.present_dispersion(np.asarray(busy * mean)))
        left = max(1.0 - rate * (slope * further + added_s), LEAST_LEFT)
        variance = max(mean * bursts / left - idle * mean**2, mean / workers)
        requests = gamma_quantile(np.array(mean), np.array(variance), levels)
        seconds = step(requests)
        gap = seconds + requests * each_s
        mean *= passed / float(requests / gap @ PRESENT_SHARES)
    tokens = PRESENT_SHARES * requests / gap
    tokens /= tokens.sum()
    seen = float(seconds @ tokens)
    by_requests = float(np.square(seconds - seen) @ tokens)
    by_context = curves.context_s[row] ** 2 * curves.context_scv[row] / max(mean, 1.0)
    wider = np.sqrt(1.0 + by_context / max(by_requests, 1e-18)) if by_requests > 0.0 else 1.0
    each = np.maximum(seen + (seconds - seen) * wider, 0.5 * float(seconds.min()))
    own = (by_requests + by_context) * float(lifetime_average(np.array(left))) / (1.0 - rate * added_s) ** 2
    steps = PRESENT_SHARES / gap
    whole = bursts * workers
    shared = max(whole - 1.0, 0.0) / whole
    return DecodeSpread(each, tokens, seen, float(seconds @ steps / steps.sum()), own, shared)


def _whole_budget(budget: float, prompts: LengthShape) -> float:
    """What whole prompts use of a token budget: a whole number of fixed ones, else all but what the next one lacks."""
    if prompts.scv < 1e-9:
        return max(float(np.floor(budget + 1e-9)), 1.0)
    return max(budget - 0.5 * (1.0 + prompts.scv), min(budget, 1.0))


def _whole(before: Waits, after: Gaps) -> Times:
    """From arrival to the last token: time to first token of a group and the gaps that its requests see."""
    means = after.by_request
    first = np.array([g.first_s for g in before.groups])
    seconds = first[:, None, None, None] + means.atoms()[:, :, None, :] * means.pieces[None, :, :, None]
    weights = np.broadcast_to(means.shares[:, :, None, None] * (ATOM_SHARES / PIECES), seconds.shape)
    return times(seconds.ravel(), weights.ravel())[0]


def with_stepwise(result: LoadResult, row_of: Mapping[int, Stepwise]) -> LoadResult:
    """The result with these rows' percentiles from their steps; percentiles that it does not have stay out."""
    found: dict[str, Any] = {}
    for metric in METRICS:
        columns = dict(getattr(result, metric))
        for name in columns:
            values = np.array(columns[name])
            for row, one in row_of.items():
                values[row] = one.seconds(metric, name)
            columns[name] = values
        found[metric] = columns
    return replace(result, **found)

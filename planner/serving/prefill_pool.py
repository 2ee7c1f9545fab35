"""Workers that only process prompts: steps that serve whole batches, the wait for them, and the time to the last token.

A worker takes everything that waits into its next step, up to the token budget (a gated batch queue). A step costs what
does not grow with its tokens once, however many prompts share it. Attention-DP ranks step together: a step lasts as
long as its busiest rank needs, and a prompt waits for the rest of the step under way whatever its own rank does.

The number of prompts in a step is a Markov chain: N' arrivals during a step of S(N) seconds share the next one, or the
first of them after an empty one. Times are then a mixture over deterministic points (a lattice rule) of: the step under
way as an arrival sees it, what is left of it, the prompts of the next step, its own length. Shape (n,) for n pools,
(n, m) with states or points; seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.serving.length_shape import LengthShape
from planner.serving.prompt_steps import PromptSteps, PromptWork
from planner.serving.quantiles import Level, Part, gamma_quantile, normal
from planner.serving.queues import erlang_b, fano, queue_wait
from planner.serving.split import KvMoves

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

POINTS = 512
"""Points of the mixture: P99 lies at the fifth from the top."""
LEVELS = np.unique(np.concatenate([np.linspace(0.02, 0.98, 25), [0.01, 0.95, 0.97, 0.99, 0.995, 0.999]]))
"""Cumulative probabilities at which quantiles are kept."""
CHAIN_LOAD = 0.92
"""Load of full steps up to which the chain is evaluated: nearer to 1 its states, of equal ratios, are too coarse."""
APART = 4
"""Power of the load with which waiting in separate queues costs more than in one; from stepping through pools of 2 to 8
workers at loads of 0.35 to 0.92."""
SMALL, STATES = 8, 36
"""States of the chain: each number up to SMALL, then equal ratios."""
SECANTS = 5
"""Steps towards the number of prompts that a worker settles at, between two states."""


@dataclass(frozen=True)
class PoolLoad:
    """Prefill workers and what arrives at them, arrays (n,)."""

    rate_rps: Array
    """Arrivals at the whole pool."""
    arrival_cv: Array
    workers: Array
    """A request goes to the least loaded of them."""
    steps: PromptSteps
    prompts: LengthShape

    def take(self, rows: IntArray) -> PoolLoad:
        return PoolLoad(
            self.rate_rps[rows], self.arrival_cv[rows], self.workers[rows], self.steps.take(rows), self.prompts
        )


@dataclass(frozen=True)
class PrefillPool:
    """A pool of prefill workers at its load, arrays (n,), quantiles (n, k) at :data:`LEVELS`; infinite where it is not
    stable.
    """

    given: PoolLoad

    mean_s: Array
    """Arrival until the end of the step that completes the prompt."""
    variance: Array
    quantiles_s: Array
    wait_mean_s: Array
    """Arrival until the first step that carries the prompt."""
    wait_variance: Array
    wait_quantiles_s: Array
    utilisation: Array
    """Part of the time in which a worker runs a step."""
    load: Array
    """Arrivals over what the pool passes with full steps; where that is more, what its busiest link carries, or what a
    longer step of several ranks brings back: stable below 1."""
    prompts_per_step: Array
    step_s: Array
    """Mean step."""
    transfer_s: Array
    """Exposed KV transfer of a prompt of mean length that finds its links free."""
    transfer_wait_s: Array
    """Mean wait for the links."""

    def take(self, rows: IntArray) -> PrefillPool:
        """The pools at positions ``rows``."""
        return PrefillPool(
            self.given.take(rows), *(getattr(self, f.name)[rows] for f in fields(self) if f.name != "given")
        )

    def at(self, rate_rps: Array, workers: Array | IntArray) -> PrefillPool:
        """The same workers in other numbers at other rates, (n,) each."""
        given = replace(self.given, rate_rps=rate_rps, workers=np.asarray(workers, dtype=float))
        return replace(prefill_pool(given), transfer_s=self.transfer_s, transfer_wait_s=self.transfer_wait_s)

    def with_transfers(self, moves: KvMoves) -> PrefillPool:
        """The same pools with what their KV transfers take; not stable where a link cannot pass them."""
        busiest = np.maximum(moves.send_utilisation, moves.receive_utilisation)
        wait = np.where(moves.stable, moves.wait_s, 0.0)
        load = np.maximum(self.load, busiest)
        return replace(self, transfer_s=moves.exposed_s, transfer_wait_s=wait, load=load)

    @property
    def stable(self) -> BoolArray:
        return self.load < 1.0

    def prompt_part(self) -> Part:
        """Arrival to the end of the prompt."""
        return _part(self.mean_s, self.variance, self.quantiles_s)

    def wait_part(self) -> Part:
        """Arrival to the first step that carries the prompt."""
        return _part(self.wait_mean_s, self.wait_variance, self.wait_quantiles_s)


def _part(mean: Array, variance: Array, table: Array) -> Part:
    rows = np.arange(mean.size)

    def quantile(p: Level) -> Array:
        level = np.clip(np.asarray(p, dtype=float), LEVELS[0], LEVELS[-1])
        i = np.clip(np.searchsorted(LEVELS, level, side="right") - 1, 0, LEVELS.size - 2)
        part = (level - LEVELS[i]) / (LEVELS[i + 1] - LEVELS[i])
        low, high = table[rows, i], table[rows, i + 1]
        return np.asarray(low + part * (high - low))

    return Part(mean, variance + 1e-30, quantile)


def prefill_pool(given: PoolLoad) -> PrefillPool:
    """Times of a pool of c workers that share L_all arrivals per second; L = L_all / c at one.

    One worker, Poisson arrivals: exact but for the states (a step that leaves nobody waiting is followed by one with a
    single prompt); above CHAIN_LOAD waits grow as those of GI/G/c. Several workers and bursts: what chance adds to the
    batches waits as in GI/G/c over M/G/1 of the same load (:func:`planner.serving.queues.queue_wait`; QNA, Whitt 1983).
    What the load itself makes of them (:func:`_steady_part`) is the same for any number of workers: all are busy with
    probability r / (1 + r), r = B L S / P0 by the chain of busy workers, B Erlang's formula with c - 1 of them, P0 the
    part of steps that leave nobody waiting; bursts spread over workers within a step.
    """
    steps, n = given.steps, given.steps.budget.size
    lam, c, gaps = (np.broadcast_to(v, (n,)) for v in (given.rate_rps, given.workers, given.arrival_cv))
    work = PromptWork(given.prompts, steps)
    most, full_s = work.full_step()
    load = lam * full_s / (c * most)
    stable = load < 1.0
    offered, lam = lam, lam * np.minimum(CHAIN_LOAD / np.maximum(load, 1e-12), 1.0)
    chain = _chain(work, lam / c, full_s / most, np.ones((n, 1)))
    steady = _steady_part(work, lam / c, chain)
    spread = np.where(steady > 0.0, fano(gaps, lam * chain.step_s) / c, 1.0)
    if np.any(steady > 0.0):
        chain = _chain(work, lam / c, full_s / most, 1.0 + steady[:, None] * (spread[:, None] - 1.0))
    # bursts share steps, so that each of their prompts takes less of one
    bursts = np.maximum(fano(gaps, lam * chain.step_s) / c, 1.0)
    crowded = chain if np.all(bursts == 1.0) else _chain(work, lam / c, full_s / most, bursts[:, None])
    chance, scale, apart = _several_workers(work, lam, c, gaps, (chain, crowded), steady)
    ranks = steps.ranks > 1.0
    # near 1 a longer step brings as much work as it does: the batch then hangs on the last percent of its time
    more = work.step(np.stack([chain.batch, 1.1 * chain.batch], axis=1))[0]
    feedback = lam / c * (more[:, 1] - more[:, 0]) / (0.1 * chain.batch)
    load = np.where(ranks & stable, np.maximum(load, np.minimum(feedback, 0.99)), load)
    wide = [queue_wait(rate, gaps, full_s / most, work.scv, work.third, c).mean for rate in (offered, lam)]
    scale = scale * np.where(stable & (offered > lam), wide[0] / wide[1], 1.0)
    crowd = steady * np.maximum(spread - 1.0, 0.0)
    wait, whole, weight = _mixture(work, chain, lam / c, chance, (scale, apart), crowd)
    # the chain's steps serve all that waits: more workers leave less of it, and a token budget cuts them into several
    each = np.minimum(1.0 + (chain.batch - 1.0) * np.minimum(scale, 1.0), np.maximum(most, steps.ranks))
    mean, variance, quantiles = _summary(whole, weight, stable)
    waited, wait_variance, wait_quantiles = _summary(wait, weight, stable)
    busy = np.where(stable, np.minimum(offered * chain.step_s / (c * chain.batch), 1.0), 1.0)
    return PrefillPool(
        given=replace(given, rate_rps=np.broadcast_to(given.rate_rps, (n,)), arrival_cv=gaps, workers=c),
        mean_s=mean,
        variance=variance,
        quantiles_s=quantiles,
        wait_mean_s=waited,
        wait_variance=wait_variance,
        wait_quantiles_s=wait_quantiles,
        utilisation=busy,
        load=load,
        prompts_per_step=each,
        step_s=work.step(each[:, None])[0][:, 0],
        transfer_s=np.zeros(n),
        transfer_wait_s=np.zeros(n),
    )


@dataclass(frozen=True)
class _Chain:
    prompts: Array
    """States: prompts of a step (n, m)."""
    seconds: Array
    variance: Array
    seen: Array
    """Part of the busy time in steps of each state."""
    empty: Array
    """Part of steps that leave nobody waiting (n,)."""
    batch: Array
    step_s: Array


def _steady_part(work: PromptWork, rate: Array, chain: _Chain) -> Array:
    """Part of the batches that comes from the load itself and not from chance, 0 to 1 (n,).

    N = L S(N) is what a worker settles at if nothing varies: F / (1 - L w) seconds for steps of F + w N. Above one
    prompt workers hardly ever idle, and how long a prompt waits has little to do with how many workers there are. 1 for
    several ranks.
    """
    rows, states = np.arange(rate.size), chain.prompts
    excess = rate[:, None] * chain.seconds - states
    above = np.where(excess > 0.0, np.arange(STATES), 0).max(axis=1)
    ends = [np.minimum(above + k, STATES - 1) for k in (0, 1)]
    low, high = (states[rows, k] for k in ends)
    over, under = (excess[rows, k] for k in ends)
    kept = np.zeros(rate.size)
    for _ in range(SECANTS):  # false position; an end that stays twice counts half (Illinois)
        middle = low + (high - low) * np.clip(over / np.where(over > under, over - under, np.inf), 0.0, 1.0)
        left = rate * work.step(middle[:, None])[0][:, 0] - middle
        more = left > 0.0
        over, under = np.where(more, left, over), np.where(more, under, left)
        under = np.where(more & (kept > 0.0), 0.5 * under, under)
        over = np.where(~more & (kept < 0.0), 0.5 * over, over)
        low, high, kept = np.where(more, middle, low), np.where(more, high, middle), np.where(more, 1.0, -1.0)
    settled = np.where(excess[:, 0] > 0.0, middle, 1.0)
    part = np.clip((settled - 1.0) / np.maximum(chain.batch - 1.0, 1e-9), 0.0, 1.0)
    return np.where(work.steps.ranks > 1.0, 1.0, part)


def _chain(work: PromptWork, rate: Array, each_s: Array, bursts: Array) -> _Chain:
    """Stationary numbers of prompts in a step of one worker at ``rate`` (n,).

    Arrivals of a step have mean L S and variance F L S + L^2 Var(S), F of ``bursts`` (n, 1). Their law is Poisson's
    continued and scaled to that variance (Hayward: counts of D at a time), P(N <= k) = Q((k + 1/2) / D + 1/2, L S / D),
    exact at D = 1.
    """
    from scipy.special import gammaincc

    n = rate.size
    queue = queue_wait(rate, 1.0, each_s, work.scv, work.third).mean
    top = 16.0 + 3.0 * (rate * work.step(np.ones((n, 1)))[0][:, 0] + work.steps.ranks) + 12.0 * rate * queue
    small = np.broadcast_to(np.arange(1.0, SMALL + 1.0), (n, SMALL))
    large = SMALL * (top / SMALL)[:, None] ** (np.arange(1, STATES - SMALL + 1) / (STATES - SMALL))
    states = np.concatenate([small, large], axis=1)
    seconds, variance = work.step(states)
    expected = rate[:, None] * seconds
    spread = bursts + rate[:, None] ** 2 * variance / expected
    ends = 0.5 * (states[:, 1:] + states[:, :-1] - 1.0)
    ends[:, :SMALL] = np.arange(1.0, SMALL + 1.0)
    upto = gammaincc((ends[:, None, :] + 0.5) / spread[..., None] + 0.5, (expected / spread)[..., None])
    upto = np.concatenate([np.zeros((n, STATES, 1)), upto, np.ones((n, STATES, 1))], axis=2)
    equations = np.transpose(np.diff(upto, axis=2), (0, 2, 1)) - np.eye(STATES)
    equations[:, -1, :] = 1.0
    right = np.zeros((n, STATES, 1))
    right[:, -1] = 1.0
    often = np.clip(np.linalg.solve(equations, right)[..., 0], 0.0, None)
    often = often / often.sum(axis=1, keepdims=True)
    empty = np.sum(often * gammaincc(0.5 / spread + 0.5, expected / spread), axis=1)
    step_s, batch = np.sum(often * seconds, axis=1), np.sum(often * states, axis=1)
    return _Chain(states, seconds, variance, often * seconds / step_s[:, None], empty, batch, step_s)


def _several_workers(
    work: PromptWork, lam: Array, c: Array, gaps: Array, chains: tuple[_Chain, _Chain], steady: Array
) -> tuple[Array, Array, Array]:
    """Part of arrivals that wait, their waits over those of one worker with Poisson arrivals, and seconds more (n,).

    GI/G/c is a queue in front of all workers, whose next free one takes its first. Here each has its own: the rest of a
    given step is half of it, not 1 / (c + 1). It shows as far as the others have queues as well (:data:`APART`), and
    less in bursts, which fill all of them.
    """
    chain, crowded = chains
    one_waits = np.clip(1.0 - chain.empty / chain.batch, 1e-9, 1.0)
    each = np.minimum(chain.step_s / chain.batch, 0.999 * c / lam)
    one = queue_wait(lam / c, 1.0, each, work.scv, work.third)
    shared = np.minimum(crowded.step_s / crowded.batch, 0.999 * c / lam)
    several = queue_wait(lam, gaps, shared, work.scv, work.third, c)
    chance = np.clip(one_waits * several.probability / one.probability, 0.0, 1.0)
    scale = several.mean / one.mean * one_waits / np.maximum(chance, 1e-9)
    single = work.step(np.ones((lam.size, 1)))[0][:, 0]
    peak = np.maximum(fano(gaps, lam * single), 1.0)
    ratio = erlang_b((c - 1.0) / peak, lam * single / peak) * lam / c * chain.step_s / np.maximum(chain.empty, 1e-300)
    here = single + np.maximum(chain.step_s - single, 0.0) * np.minimum(scale, 1.0)
    load = np.minimum(lam * each / c, 1.0)
    apart = (1.0 - steady) * here * (0.5 - 1.0 / (c + 1.0)) * load**APART / np.maximum(np.square(gaps), 1.0)
    chance = chance + steady * (ratio / (1.0 + ratio) - chance)
    with np.errstate(invalid="ignore"):
        scale = np.where(steady < 1.0, (1.0 - steady) * scale + steady, 1.0)
    return chance, scale, apart


@lru_cache(maxsize=1)
def _lattice() -> Array:
    """Points in the unit cube, (8, POINTS): multiples of powers of the generalised golden ratio, modulo 1
    (Roberts 2018, "The unreasonable effectiveness of quasirandom sequences")."""
    dimensions, ratio = 8, 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1))
    steps = ratio ** -np.arange(1.0, dimensions + 1.0)
    return np.asarray(np.clip(np.mod(0.5 + steps[:, None] * np.arange(1, POINTS + 1), 1.0), 1e-9, 1.0 - 1e-9))


def _mixture(
    work: PromptWork, chain: _Chain, rate: Array, chance: Array, waits: tuple[Array, Array], crowd: Array
) -> tuple[Array, Array, Array]:
    """Waits, times to the end of the prompt and weights of all points, (n, m) each."""
    n, u = rate.size, _lattice()
    scale, apart = (w[:, None] for w in waits)
    ranks, single = work.steps.ranks[:, None], work.mean[:, None]
    rows = np.arange(n)[:, None]
    upto = np.cumsum(chain.seen, axis=1)
    state = np.minimum(np.stack([np.searchsorted(upto[i], u[0]) for i in range(n)]), STATES - 1)
    under_way = chain.prompts[rows, state]
    lone = ranks == 1.0
    way, bias = np.zeros((n, POINTS)), np.ones((n, POINTS))
    some = np.flatnonzero(lone[:, 0])
    if some.size:
        way[some] = _single_rank(work.take(some), under_way[some], chain.seconds[rows, state][some])
    some = np.flatnonzero(~lone[:, 0])
    if some.size:
        way[some], bias[some] = _many_ranks(work.take(some), under_way[some], chain.seconds[rows, state][some])
    own = work.weight(np.broadcast_to(work.prompts.quantile(u[2]), (n, POINTS)))
    left = u[1] * way
    before = rate[:, None] * (way - left) + crowd[:, None]
    capacity = (work.steps.budget * work.steps.ranks)[:, None]
    room = capacity * (np.floor((before + 1.0) / capacity) + 1.0) - before - 1.0
    others = before + np.minimum(rate[:, None] * left, np.maximum(room, 0.0))
    # those on one's own rank: uniform on 0 to twice the mean as another of them sees it, where there are several ranks
    mine = np.where(lone, others, np.maximum(4.0 * (others + 1.0) / ranks - 2.0, 0.0) / 3.0)
    weight = own + _compound(mine, single, np.square(single) * (1.0 + work.scv[:, None]), u[3])
    if not lone.all():
        besides = others * (ranks - 1.0) / ranks
        busiest = np.where(others > 1e-3, work.sampled_busiest(besides, u[4]), 0.0)
        weight = np.where(lone, weight, np.maximum(weight, busiest / _pieces(work, busiest, others)))
    together = work.steps.seconds(weight, work.rest(1.0 + others))
    alone = work.steps.seconds(own, np.zeros_like(own))
    # every point stands for both: a prompt that finds a worker free, and one that waits
    usual = np.sum(bias * left, axis=1, keepdims=True) / np.maximum(bias.sum(axis=1, keepdims=True), 1e-300)
    wait = (scale + apart / np.maximum(usual, 1e-300)) * left  # ``apart`` is waited for the rest of a step as well
    whole = wait + scale * (together - alone) + alone
    waits = chance[:, None] * bias / np.maximum(bias.sum(axis=1, keepdims=True), 1e-300)
    free = np.broadcast_to((1.0 - chance[:, None]) / POINTS, (n, POINTS))
    return (
        np.concatenate([np.zeros((n, POINTS)), wait], axis=1),
        np.concatenate([alone, whole], axis=1),
        np.concatenate([free, waits], axis=1),
    )


def _single_rank(work: PromptWork, prompts: Array, mean_s: Array) -> Array:
    """Steps of one rank under way as an arrival sees them, in proportion to their time: one of their prompts counts by
    its weight, or none where the time does not depend on them."""
    u, steps = _lattice(), work.steps
    fixed = steps.seconds(np.full_like(prompts, 1e-6), np.zeros_like(prompts)) / mean_s
    q = steps.quadratic[:, None]
    square = (1.0 - fixed) * q * work.prompts.moment(2) / work.mean[:, None]
    lengths = [shape.quantile(u[5]) for shape in _biased(work.prompts)]
    x = np.where(u[7] < fixed, lengths[0], np.where(u[7] < fixed + square, lengths[2], lengths[1]))
    more = np.maximum(prompts - 1.0, 0.0)
    mean = more * work.mean[:, None]
    rest = gamma_quantile(mean, more * (np.square(work.mean) * np.maximum(work.scv, 0.0))[:, None], normal(u[6]))
    return steps.seconds(work.weight(x) + rest, np.zeros_like(rest))


def _many_ranks(work: PromptWork, prompts: Array, mean_s: Array) -> tuple[Array, Array]:
    """Steps of several ranks under way, and how much more often than evenly an arrival finds them: by their time.

    A prompt longer than the budget makes several of them, one after the other.
    """
    above = 1.0 - _lattice()[5]
    # long steps are seen most: levels lie closer towards 1, each point stands for the smaller part
    weight = np.maximum(work.sampled_busiest(prompts, 1.0 - np.square(above)), 1e-6)
    seconds = work.steps.seconds(weight, work.rest(prompts))
    return seconds / _pieces(work, weight, prompts), 2.0 * above * seconds / mean_s


def _pieces(work: PromptWork, weight: Array, prompts: Array) -> Array:
    """Steps that the longest prompt of the busiest rank takes, where a single one makes it so."""
    budget = work.steps.budget[:, None]
    alone = 2.0 * work.queued(prompts) * work.mean[:, None] < work.weight(budget)
    return np.where(alone, np.maximum(work.length(weight) / budget, 1.0), 1.0)


def _compound(count: Array, mean: Array, second: Array, level: Array) -> Array:
    """Quantile of a sum of a Poisson number ``count`` of weights: 0 with exp(-count), else gamma with its moments."""
    none = np.exp(-count)
    some = np.maximum(1.0 - none, 1e-12)
    first = count * mean / some
    variance = np.maximum((count * second + np.square(count * mean)) / some - np.square(first), 0.0)
    within = np.clip((level - none) / some, 1e-6, 1.0 - 1e-9)
    return np.where(level > none, gamma_quantile(first, variance, normal(within)), 0.0)


@lru_cache(maxsize=32)
def _biased_by(mean: float, values: bytes, weights: bytes) -> tuple[LengthShape, ...]:
    x, w = np.frombuffer(values), np.frombuffer(weights)
    return tuple(LengthShape(mean, x, w * x**k / np.sum(w * x**k)) for k in range(3))


def _biased(shape: LengthShape) -> tuple[LengthShape, ...]:
    """Lengths as drawn, in proportion to their length and to its square."""
    return _biased_by(shape.mean, shape.values.tobytes(), shape.weights.tobytes())


def _summary(values: Array, weight: Array, stable: BoolArray) -> tuple[Array, Array, Array]:
    """Mean, variance and quantiles of weighted points; infinite where not stable."""
    order = np.argsort(values, axis=1)
    ordered, share = np.take_along_axis(values, order, axis=1), np.take_along_axis(weight, order, axis=1)
    upto = np.cumsum(share, axis=1) - 0.5 * share
    table = np.stack([np.interp(LEVELS, upto[i], ordered[i]) for i in range(len(values))])
    mean = np.sum(values * weight, axis=1)
    variance = np.sum(np.square(values) * weight, axis=1) - np.square(mean)
    return (
        np.where(stable, mean, np.inf),
        np.where(stable, np.maximum(variance, 0.0), np.inf),
        np.where(stable[:, None], table, np.inf),
    )

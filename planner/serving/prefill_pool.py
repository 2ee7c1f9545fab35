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

import numpy as np
from numpy.typing import NDArray

from planner.serving.length_shape import LengthShape
from planner.serving.prompt_chain import STATES, Chain, batch_chain
from planner.serving.prompt_points import mixture
from planner.serving.prompt_steps import PromptSteps, PromptWork
from planner.serving.quantiles import Level, Part
from planner.serving.queues import erlang_b, fano, queue_wait
from planner.serving.split import KvMoves

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

LEVELS = np.unique(np.concatenate([np.linspace(0.02, 0.98, 25), [0.01, 0.95, 0.97, 0.99, 0.995, 0.999]]))
"""Cumulative probabilities at which quantiles are kept."""
CHAIN_LOAD = 0.92
"""Load of full steps up to which the chain is evaluated: nearer to 1 its states, of equal ratios, are too coarse."""
APART = 4
"""Power of the load with which waiting in separate queues costs more than in one; from stepping through pools of 2 to 8
workers at loads of 0.35 to 0.92."""
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
    ranks = steps.ranks > 1.0
    # Poisson arrivals at several ranks, whose batches all come from the load: 1 / c whatever the chain
    first = np.where(ranks & (gaps == 1.0), 1.0 / c, 1.0)

    def solved(chain: Chain, bursts: Array, before: Array) -> Chain:
        """``chain`` with the workers whose ``bursts`` are not those it was solved for (``before``) solved anew."""
        rows = np.flatnonzero(bursts != before)
        if not rows.size:
            return chain
        each = (full_s / most)[rows]
        return chain.updated(rows, batch_chain(work.take(rows), (lam / c)[rows], each, bursts[rows, None]))

    chain = batch_chain(work, lam / c, full_s / most, first[:, None])
    steady = _steady_part(work, lam / c, chain)
    spread = np.where(steady > 0.0, fano(gaps, lam * chain.step_s) / c, 1.0)
    settled = spread * steady + (1.0 - steady)
    chain = solved(chain, settled, first)
    # bursts share steps, so that each of their prompts takes less of one
    bursts = np.maximum(fano(gaps, lam * chain.step_s) / c, 1.0)
    crowded = chain if np.all(bursts == 1.0) else solved(chain, bursts, settled)
    chance, scale, apart = _several_workers(work, lam, c, gaps, (chain, crowded), steady)
    # near 1 a longer step brings as much work as it does: the batch then hangs on the last percent of its time
    more = work.step(np.stack([chain.batch, 1.1 * chain.batch], axis=1))[0]
    feedback = lam / c * (more[:, 1] - more[:, 0]) / (0.1 * chain.batch)
    load = np.where(ranks & stable, np.maximum(load, np.minimum(feedback, 0.99)), load)
    wide = [queue_wait(rate, gaps, full_s / most, work.scv, work.third, c).mean for rate in (offered, lam)]
    beyond = stable & (offered > lam)
    scale = scale * np.divide(wide[0], wide[1], out=np.ones(n), where=beyond & (wide[1] > 0.0))
    crowd = steady * np.maximum(spread - 1.0, 0.0)
    wait, whole, weight = mixture(work, chain, lam / c, chance, (scale, apart), crowd)
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


def _steady_part(work: PromptWork, rate: Array, chain: Chain) -> Array:
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


def _several_workers(
    work: PromptWork, lam: Array, c: Array, gaps: Array, chains: tuple[Chain, Chain], steady: Array
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

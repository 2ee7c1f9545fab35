"""Waits and times to the end of the prompt of a prefill pool, as weighted points: what an arrival may find.

Every point of a lattice in the unit cube is one arrival: the step under way, what is left of it, its own length, the
prompts beside it. Shape (n, m): m points of each of n pools.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.serving.length_shape import LengthShape
from planner.serving.prompt_chain import STATES, Chain
from planner.serving.prompt_steps import PromptWork
from planner.serving.quantiles import gamma_quantile, normal

Array = NDArray[np.float64]

POINTS = 512
"""Points of the mixture: P99 lies at the fifth from the top."""


@lru_cache(maxsize=1)
def lattice() -> Array:
    """Points in the unit cube, (8, POINTS): multiples of powers of the generalised golden ratio, modulo 1
    (Roberts 2018, "The unreasonable effectiveness of quasirandom sequences")."""
    dimensions, ratio = 8, 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1))
    steps = ratio ** -np.arange(1.0, dimensions + 1.0)
    return np.asarray(np.clip(np.mod(0.5 + steps[:, None] * np.arange(1, POINTS + 1), 1.0), 1e-9, 1.0 - 1e-9))


def mixture(
    work: PromptWork, chain: Chain, rate: Array, chance: Array, waits: tuple[Array, Array], crowd: Array
) -> tuple[Array, Array, Array]:
    """Waits, times to the end of the prompt and weights of all points, (n, m) each."""
    n, u = rate.size, lattice()
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
    u, steps = lattice(), work.steps
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
    above = 1.0 - lattice()[5]
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

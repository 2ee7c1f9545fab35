"""What a step of prompts costs by the lengths in it, and what the prompts of a worker cost together.

Lengths count in prompts of mean length. A prompt of x means costs as much as (1 - q) x + q x^2 prompts of mean length
in a row, q the part of its own work that grows with the square of its length (attention): its weight y.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.layout.layouts import Layouts
from planner.roofline.step import StepContext, StepWork, step_times
from planner.serving.length_shape import LengthShape
from planner.serving.worker import Traffic

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

COLUMNS = 9
"""Tokens of a step that are evaluated, at equal ratios from one to the budget (3.4 for a budget of 16,384)."""
COUNTS = 24
"""Numbers of prompts at which the longest of them is tabulated."""


@dataclass(frozen=True)
class PromptSteps:
    """Seconds of a prefill step of n workers; columns k at equal ratios from ``smallest`` to ``budget``."""

    smallest: Array
    """Weight of the first column, a single token (n,)."""
    budget: Array
    """Weight of the last column: a step of one rank filled to its token budget with prompts of mean length (n,)."""
    alone_s: Array
    """With prompts on one attention-DP rank only (n, k)."""
    shared_s: Array
    """With as many on every rank (n, k)."""
    quadratic: Array
    """q (n,)."""
    ranks: Array
    """Attention-DP ranks of a worker: they step together (n,)."""

    def take(self, rows: IntArray) -> PromptSteps:
        """The workers at positions ``rows``."""
        return PromptSteps(*(getattr(self, f.name)[rows] for f in fields(self)))

    def seconds(self, weight: Array, elsewhere: Array, *, whole: bool = True) -> Array:
        """Steps that carry ``weight`` on the busiest rank and ``elsewhere`` on all others together, (n, m) each.

        What the others hold adds what ``shared_s`` has beyond ``alone_s``. Weights above the budget take further steps,
        each with what does not shrink with its tokens; without ``whole`` in parts of one, as a queue fills them.
        """
        top, columns = self.budget[:, None], self.alone_s.shape[1]
        ratio = (self.budget / self.smallest)[:, None] ** (1.0 / (columns - 1))
        slope = (self.alone_s[:, -1:] - self.alone_s[:, -2:-1]) / (top * (1.0 - 1.0 / ratio))
        held = np.minimum(weight, top)
        further = np.maximum(weight / top, 1.0) - 1.0
        further = np.floor(further) if whole else further
        again = np.maximum(self.alone_s[:, -1:] - slope * top, 0.0)
        time = self._at(held, self.alone_s) + slope * (weight - held) + further * again
        if np.all(self.ranks <= 1.0):
            return np.asarray(time)
        each = elsewhere / np.maximum(self.ranks[:, None] - 1.0, 1.0)
        beside = self._at(each, self.shared_s - self.alone_s) * np.minimum(each / self.smallest[:, None], 1.0)
        return np.asarray(time + np.where(self.ranks[:, None] > 1.0, beside, 0.0))

    def _at(self, weight: Array, table: Array) -> Array:
        columns, first = table.shape[1], self.smallest[:, None]
        ratio = np.log(self.budget / self.smallest)[:, None] / (columns - 1)
        t = np.maximum(weight, first)
        i = np.clip((np.log(t / first) / ratio).astype(np.int64), 0, columns - 2)
        low, high = first * np.exp(i * ratio), first * np.exp((i + 1) * ratio)
        rows = np.arange(table.shape[0])[:, None]
        return np.asarray(table[rows, i] + (t - low) / (high - low) * (table[rows, i + 1] - table[rows, i]))


def prompt_steps(
    ctx: StepContext,
    layouts: Layouts,
    traffic: Traffic,
    token_budget: Array,
    two_batch: NDArray[np.bool_],
    deepep: NDArray[np.bool_],
) -> PromptSteps:
    """Steps of prefill workers with ``layouts`` (n,) and a ``token_budget`` of each rank (n,), by step times.

    Prompts of mean length beside each other, or one chunk in the middle of a prompt longer than the budget. The part q
    is found from what a chunk takes longer behind twice as many tokens: attention reads pairs of tokens, x^2 / 2 of a
    prompt's own.
    """
    n, new = len(layouts), float(traffic.new_tokens)
    budget = np.asarray(token_budget, dtype=float)
    past = float(traffic.cached_tokens) + 0.5 * np.maximum(new - budget, 0.0)
    ranks = layouts.attention_dp.astype(float)
    one, chunk = np.ones(n), np.minimum(new, budget)
    tokens = [budget ** (k / (COLUMNS - 1)) for k in range(COLUMNS)]
    steps = [(t, past, one) for t in tokens]
    if np.any(ranks > 1.0):
        steps += [(t, past, ranks) for t in tokens]
    steps += [(chunk, past + new, ranks), (chunk, past, ranks)]

    # all of them in one evaluation: (k, n), then (n, k)
    of_rank, before, share = (np.stack(column).ravel() for column in zip(*steps, strict=True))
    rows, nothing = np.tile(np.arange(n), len(steps)), np.zeros(of_rank.size)
    work = StepWork(nothing, nothing + 1.0, of_rank, np.maximum(of_rank / new, 1.0), before, of_rank * share)
    times = step_times(ctx, layouts.take(rows), work, two_batch[rows], deepep[rows])
    seconds = np.asarray(times.total).reshape(len(steps), n).T
    alone = seconds[:, :COLUMNS]
    shared = seconds[:, COLUMNS : 2 * COLUMNS] if np.any(ranks > 1.0) else alone
    pair_s = (seconds[:, -2] - seconds[:, -1]) / (chunk * new)
    prompt_s = (alone[:, -1] - alone[:, 0]) / np.maximum(budget - 1.0, 1.0) * new
    quadratic = np.clip(0.5 * pair_s * new * new / np.maximum(prompt_s, 1e-300), 0.0, 1.0)
    return PromptSteps(np.full(n, 1.0 / new), budget / new, alone, np.maximum(shared, alone), quadratic, ranks)


@dataclass(frozen=True)
class PromptWork:
    """Prompts of one length distribution on n workers."""

    prompts: LengthShape
    steps: PromptSteps

    def take(self, rows: IntArray) -> PromptWork:
        return PromptWork(self.prompts, self.steps.take(rows))

    def weight(self, x: Array) -> Array:
        """Weight of lengths ``x`` (n, m)."""
        q = self.steps.quadratic[:, None]
        return np.asarray(x * (1.0 - q + q * x))

    def length(self, weight: Array) -> Array:
        """Length of one prompt of this weight (n, m)."""
        q = np.maximum(self.steps.quadratic[:, None], 1e-9)
        a = 1.0 - q
        return np.asarray((np.sqrt(a * a + 4.0 * q * np.maximum(weight, 0.0)) - a) / (2.0 * q))

    @cached_property
    def mean(self) -> Array:
        """Mean weight of a prompt (n,)."""
        return self._moment(1)

    @cached_property
    def scv(self) -> Array:
        """Squared CV of the weights (n,)."""
        return self._moment(2) / np.square(self.mean) - 1.0

    @cached_property
    def third(self) -> Array:
        """E[y] E[y^3] / E[y^2]^2 (n,)."""
        return self.mean * self._moment(3) / np.square(self._moment(2))

    def _moment(self, order: int) -> Array:
        q, a = self.steps.quadratic, 1.0 - self.steps.quadratic
        binomial = {1: (1, 1), 2: (1, 2, 1), 3: (1, 3, 3, 1)}[order]
        terms = (c * a ** (order - j) * q**j * self.prompts.moment(order + j) for j, c in enumerate(binomial))
        return np.asarray(sum(terms), dtype=float)

    def queued(self, batch: Array) -> Array:
        """Prompts in a row on a busy rank, ``batch`` of the worker in its step; same shape."""
        ranks = _like(self.steps.ranks, batch)
        return np.maximum(batch / ranks, 1.0)

    def uneven(self, batch: Array) -> Array:
        """Weight of the busiest rank beyond what chance lengths of evenly spread prompts give it; shape of ``batch``.

        Ranks are chosen by the prompts they hold, in progress included, so that those who wait are spread as evenly as
        the step before left them: 0 to twice their mean number (uniform; the largest of R is its mean times
        2 R / (R + 1)). Both deviations are independent.
        """
        ranks, row = _like(self.steps.ranks, batch), np.sqrt(self.queued(batch))
        length = row * (self._longest(batch, 1) - _like(self.mean, batch))
        count = np.maximum(batch - 1.0, 0.0) / ranks * _like(self.mean, batch) * (ranks - 1.0) / (ranks + 1.0)
        return np.where(ranks > 1.0, np.hypot(length, count) - length, 0.0)

    def busiest(self, batch: Array) -> tuple[Array, Array]:
        """Mean and variance of the weight on the busiest rank, (n,) or (n, m) as ``batch``."""
        row, single = self.queued(batch), _like(self.mean, batch)
        longest = self._longest(batch, 1)
        variance = row * np.maximum(self._longest(batch, 2) - np.square(longest), 0.0)
        mean = row * single + np.sqrt(row) * (longest - single) + self.uneven(batch)
        return np.where(_like(self.steps.ranks, batch) > 1.0, mean, row * single), variance

    def sampled_busiest(self, batch: Array, level: Array) -> Array:
        """Weight on the busiest rank that a part ``level`` of all steps with ``batch`` prompts stay below, (n, m)."""
        ranks, row = self.steps.ranks[:, None], self.queued(batch)
        one = self.weight(self.prompts.quantile(level ** (1.0 / np.clip(batch, 1e-3, ranks))))
        single = self.mean[:, None]
        return np.maximum(row * single + np.sqrt(row) * (one - single) + self.uneven(batch), 0.0)

    def rest(self, batch: Array) -> Array:
        """Prompts on the other ranks of a step with ``batch`` of them."""
        return np.where(_like(self.steps.ranks, batch) > 1.0, np.maximum(batch - self.queued(batch), 0.0), 0.0)

    def step(self, batch: Array) -> tuple[Array, Array]:
        """Mean and variance of the seconds of a step with ``batch`` prompts of the worker, (n, m)."""
        weight, variance = self.busiest(batch)
        ranks, whole = self.steps.ranks[:, None], self.weight(self.steps.budget[:, None])
        # ranks step on together while one of them takes several steps for a long prompt
        limit = np.maximum(whole, self.queued(batch) * self.mean[:, None])
        weight = np.where(ranks > 1.0, np.minimum(weight, limit), weight)
        variance = np.where(ranks > 1.0, np.minimum(variance, np.square(0.5 * whole)), variance)
        others = self.rest(batch)
        seconds = self.steps.seconds(weight, others, whole=False)
        slope = (self.steps.seconds(1.1 * weight, others, whole=False) - seconds) / (0.1 * weight)
        return seconds, np.square(slope) * variance

    def full_step(self) -> tuple[Array, Array]:
        """Prompts of the worker in steps that fill every rank's token budget, and the seconds of such a step (n,)."""
        weight, others = self.steps.budget * self.mean, (self.steps.ranks - 1.0) * self.steps.budget
        seconds = self.steps.seconds(weight[:, None], others[:, None], whole=False)[:, 0]
        return self.steps.ranks * self.steps.budget, seconds

    def _longest(self, batch: Array, power: int) -> Array:
        """E[y^power] of the heaviest of as many prompts as there are busy ranks; shape of ``batch``."""
        ranks = np.log(np.clip(batch, 1.0, _like(self.steps.ranks, batch)))
        counts, moments = self._orders
        x = [np.interp(ranks, counts, m) for m in moments]
        q = _like(self.steps.quadratic, batch)
        a = 1.0 - q
        if power == 1:
            return np.asarray(a * x[0] + q * x[1])
        return np.asarray(a * a * x[1] + 2.0 * a * q * x[2] + q * q * x[3])

    @cached_property
    def _orders(self) -> tuple[Array, list[Array]]:
        """Logarithms of numbers of prompts, and E[x^k] of the longest of them, k = 1 to 4."""
        most = max(float(np.max(self.steps.ranks, initial=1.0)), 1.0 + 1e-6)
        counts = np.geomspace(1.0, most, COUNTS)
        upto = np.clip(np.cumsum(self.prompts.weights), 0.0, 1.0)
        upto[-1] = 1.0
        reached = np.concatenate([np.zeros((COUNTS, 1)), upto[None, :] ** counts[:, None]], axis=1)
        share = np.diff(reached, axis=1)
        return np.log(counts), [share @ self.prompts.values**k for k in range(1, 5)]


def _like(values: Array, batch: Array) -> Array:
    return values if np.ndim(batch) < 2 else values[:, None]

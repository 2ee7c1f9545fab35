"""Waits and times to first token in a chain of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.serving.length_shape import LengthShape
from planner.serving.step_chain import Chain, Steps

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

ELAPSED = (1 / 6, 0.5, 5 / 6)
"""Part of a step that is over when a request arrives: middles of its thirds. What is left of the step is spread over
the third by the golden ratio, another place for each prompt length."""
GOLDEN = 0.5 * (5.0**0.5 - 1.0)
LEVELS = np.concatenate([np.linspace(0.0, 0.9, 16), [0.93, 0.96, 0.98, 0.99, 0.995, 0.998, 1.0]])
"""Probabilities between which one prompt stands for all, finer in the tail."""
UNSEEN = 1e-5
"""Part of arrivals that a state found by fewer is left out with."""
CELLS = 512
"""Cells of a distribution of times, even in the logarithm."""
GROUPS = np.array([0.0, 0.2, 0.4, 0.6, 0.75, 0.87, 0.95, 0.99, 1.0])
"""Probabilities of the time to first token between which what follows is taken together."""


@dataclass(frozen=True)
class Times:
    """A distribution: seconds in ascending order, and the part of requests at most that late, (m,) each."""

    seconds: Array
    below: Array
    mean: float

    def quantile(self, p: float) -> float:
        return float(np.interp(p, self.below, self.seconds))

    def within(self, limit_s: float) -> float:
        """Part of at most ``limit_s``."""
        return float(np.interp(limit_s, self.seconds, self.below, left=0.0, right=1.0))


@dataclass(frozen=True)
class Group:
    """Requests of like time to first token."""

    share: float
    first_s: float
    """Mean time from arrival to first token, of the worker's steps only."""
    before_s: float
    """Time of the stream that passes (:attr:`Chain.felt`) until the step in which the first token is computed."""
    last_s: float
    """The same of that step."""
    room: float
    """Prompt work of later requests that this step has room for, in mean prompts."""


@dataclass(frozen=True)
class Waits:
    """Times before the first token."""

    first: Times
    start: Times
    """From arrival to the first step that carries the prompt."""
    groups: tuple[Group, ...]
    """Quickest first."""


def waits(chain: Chain, steps: Steps, shape: LengthShape, size: Array) -> Waits:
    """Times before the first token of requests whose prompts take the room ``size`` at the levels :func:`middles`."""
    grid, arrivals = chain.grid, chain.arrivals
    lengths, shares = size, np.diff(LEVELS)
    last = grid.full
    elapsed, weights = [], []
    own_seconds = chain.seconds[: last + 1]
    felt = chain.felt[: last + 1]
    within = chain.work.within(np.concatenate([u * felt for u in ELAPSED]))
    seen = (within * arrivals.rates[:, None]).sum(axis=2).reshape(len(ELAPSED), last + 1, arrivals.rates.size, -1)
    running = chain.running * chain.felt[grid.distinct][:, None]
    for u, look in zip(ELAPSED, seen, strict=True):
        rows = np.einsum("ij,ija->ia", running, look[grid.distinct])
        landed = np.stack([row @ landing for row, landing in zip(rows, grid.landing, strict=True)])
        by_step = np.zeros((last + 1, grid.points.size))
        by_step[:last] = landed[:last]
        by_step[last] = landed[last:].sum(axis=0)
        weights.append(np.maximum(by_step, 0.0))
        elapsed.append((1.0 - u) * own_seconds)
    residual = np.concatenate(elapsed)  # (2 (M + 1),)
    mass = np.concatenate(weights)  # (2 (M + 1), G)
    idle = float(np.sum(chain.starting[0] * chain.idle))
    mass = np.vstack([mass, np.zeros(grid.points.size)])
    mass[-1, 0] = idle * len(ELAPSED)
    residual, passing = np.append(residual, 0.0), np.append(np.tile(felt / own_seconds, len(ELAPSED)), 1.0)
    under_way = np.append(np.tile(own_seconds, len(ELAPSED)), 0.0)
    row, column = np.nonzero(mass > UNSEEN * mass.sum())
    spread = (np.arange(lengths.size) * GOLDEN % 1.0 - 0.5) / len(ELAPSED)
    left, ahead = residual[row][:, None] + under_way[row][:, None] * spread, (grid.points[column] * chain.unit)[:, None]
    weight = mass[row, column][:, None] * shares

    whole = ahead + lengths
    before = np.ceil(whole / steps.budget - 1e-9) - 1.0
    rest = whole - before * steps.budget
    full = float(chain.seconds[last])
    since = left + before * full
    passed = left * passing[row][:, None] + before * chain.felt_full
    table = np.linspace(0.0, float(passed.max()), 200)
    quiet = np.minimum(np.interp(passed, table, arrivals.none(table)), 1.0 - 1e-12)
    room = np.maximum(steps.budget - rest, 1e-9)
    joined = -room * np.expm1(-np.interp(passed, table, arrivals.counts(table)) / room)
    joined = np.minimum(joined / (1.0 - quiet), room)
    # With nobody behind it, and with those that come where somebody does.
    taken = np.stack([rest, rest + joined])
    own, during = steps.of(taken), np.interp(taken, grid.points[: last + 1] * chain.unit, felt)
    first = (since + own).ravel()
    weight = np.stack([weight * quiet, weight * (1.0 - quiet)]).ravel()
    start = left + np.floor(ahead / steps.budget + 1e-9) * full
    first_times, cell = times(first, weight)
    place = np.append(0.0, first_times.below)[cell]
    group = np.clip(np.searchsorted(GROUPS, place, side="right") - 1, 0, GROUPS.size - 2)
    twice = [np.broadcast_to(v, own.shape).ravel() for v in (passed, room, start)]
    kept = (first, twice[0], during.ravel(), twice[1])
    sums = [np.bincount(group, weight * v, GROUPS.size - 1) for v in kept]
    total = np.bincount(group, weight, GROUPS.size - 1)
    groups = tuple(
        Group(float(total[k] / weight.sum()), *(float(s[k] / total[k]) for s in sums))
        for k in range(GROUPS.size - 1)
        if total[k] > 0.0
    )
    return Waits(first_times, times(twice[2], weight)[0], groups)


def middles() -> Array:
    """Levels of the prompts that :func:`waits` looks at."""
    return 0.5 * (LEVELS[1:] + LEVELS[:-1])


def times(seconds: Array, weight: Array) -> tuple[Times, IntArray]:
    """Weighted times as a distribution, and the cell of each."""
    low, high = max(float(seconds.min()), 1e-6), max(float(seconds.max()), 2e-6)
    edges = np.geomspace(low * 0.999, high * 1.001, CELLS + 1)
    cell = np.clip(((np.log(np.maximum(seconds, low)) - np.log(edges[0])) / np.log(edges[1] / edges[0])), 0, CELLS - 1)
    index = cell.astype(np.int64)
    below = np.cumsum(np.bincount(index, weight, CELLS))
    mean = float(seconds @ weight / below[-1])
    return Times(edges[1:], below / below[-1], mean), index

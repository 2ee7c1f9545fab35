"""Waits and times to first token in a chain of steps.

Where a worker has several lanes (:mod:`planner.serving.lanes`), a request waits for what its own lane has before it;
the others share its steps and make them longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.serving.arrival_phases import Arrivals
from planner.serving.length_shape import LengthShape
from planner.serving.step_chain import Chain, Steps

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ELAPSED = (1 / 6, 0.5, 5 / 6)
"""Part of a step that is over when a request arrives: middles of its thirds. What is left of the step is spread over
the third by the golden ratio, another place for each prompt length."""
GOLDEN = 0.5 * (5.0**0.5 - 1.0)
APART = ((2.0**0.5, GOLDEN), (3.0**0.5, 7.0**0.5))
"""Steps from row to row and from column to column of what stands for all kinds of lanes, for each of two turns."""
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
        landed = np.stack([row @ grid.landing(i) for i, row in enumerate(rows)])
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
    left, ahead = (
        residual[row][:, None] + under_way[row][:, None] * spread,
        np.asarray(grid.points[column] * chain.unit, dtype=float)[:, None],
    )
    weight = mass[row, column][:, None] * shares

    lane = _lane(steps, ahead, lengths)
    full = lane.full_s(steps, float(chain.seconds[last]), arrivals)
    since = left + lane.before * full
    passed = left * passing[row][:, None] + lane.before * full * (chain.felt_full / float(chain.seconds[last]))
    if steps.split is not None:
        passed = np.where(lane.alone, full * (chain.felt_full / float(chain.seconds[last])), passed)
    table = np.linspace(0.0, float(passed.max()), 200)
    quiet = np.minimum(np.interp(passed, table, arrivals.none(table)), 1.0 - 1e-12)
    room = np.maximum(steps.budget - lane.rest, 1e-9)
    joined = -room * np.expm1(-np.interp(passed, table, arrivals.counts(table)) / room)
    joined = np.minimum(joined / (1.0 - quiet), room)
    # With nobody behind it, and with those that come where somebody does.
    taken = np.stack([lane.rest, lane.rest + joined])
    own = lane.last_s(steps, taken)
    during = own * np.interp(taken, grid.points[: last + 1] * chain.unit, felt / own_seconds)
    first = (since + own).ravel()
    weight = np.stack([weight * quiet, weight * (1.0 - quiet)]).ravel()
    start = left + lane.unstarted * full
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


@dataclass(frozen=True)
class _Lane:
    """The lane that a request goes to, arrays (m, lengths)."""

    unstarted: Array
    """Whole steps until the one in which its prompt starts, and until that of its last token."""
    before: Array
    last: Array
    """Work that the lane takes in the latter, and that is left of all that was ahead of the request in all lanes."""
    rest: Array
    besides: Array
    """Work ahead in other lanes when it came."""
    alone: BoolArray
    """Other lanes have nothing left of that in the last step: what came meanwhile did not wait for this one."""

    def full_s(self, steps: Steps, all_full: float, arrivals: Arrivals) -> Array | float:
        """Seconds of the steps before the last, in which the lane is full: others take what was there, and what comes
        in a step."""
        split = steps.split
        if split is None:
            return all_full
        most = np.full(self.before.shape, split.budget)
        number = np.maximum(self.before, 1.0)
        coming = float(arrivals.counts(split.pair(most[:1, 0], most[:1, 0]))[0])
        taken = most + (self.besides + (number - 1.0) * coming) / number
        return split.pair(most, np.minimum(taken, steps.budget))

    def last_s(self, steps: Steps, taken: Array) -> Array:
        """Seconds of the last step with ``taken`` (2, m, lengths) work in all lanes, of the same shape."""
        split = steps.split
        if split is None:
            return steps.of(taken)
        most = np.maximum(split.kind(split.busiest, taken, _levels(self.last.shape, 1)), self.last)
        return split.pair(most, np.clip(taken, most, steps.budget))


def _lane(steps: Steps, ahead: Array, lengths: Array) -> _Lane:
    """What a request of ``lengths`` meets that finds ``ahead`` work before it."""
    split = steps.split
    budget = steps.budget if split is None else split.budget
    found = ahead
    if split is not None:
        found = split.kind(split.own, ahead, _levels((ahead.size, lengths.size), 0))
    mine = found + lengths
    before = np.ceil(mine / budget - 1e-9) - 1.0
    last = mine - before * budget
    rest = np.maximum(ahead + lengths - before * steps.budget, last)
    alone = (before > 0.0) & (ahead < before * steps.budget)
    return _Lane(np.floor(found / budget + 1e-9), before, last, rest, ahead - found, alone)


def _levels(shape: tuple[int, ...], turn: int) -> Array:
    """Numbers from 0 to 1, as even over rows as over columns: those of one ``turn`` go with all of another's."""
    row, column = APART[turn]
    return (np.arange(shape[0])[:, None] * row + np.arange(shape[1]) * column) % 1.0


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

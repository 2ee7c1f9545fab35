"""Prompts of one step on the attention-DP ranks of a worker (lanes): how the prompts that wait divide among them.

Lanes step together: a step lasts as long as its busiest lane, and each lane takes prompt tokens up to its own budget.
A request goes to the lane that holds the fewest, waiting ones included. What a chain of steps
(:mod:`planner.serving.step_chain`) knows is the prompt work that waits in the whole worker; here is what it means for
lanes. As the law of many lanes, each filled by what it holds, has no closed form, it is drawn: requests come and go at
lanes that are kept equally full, then prompts come one after the other. The numbers drawn are the same every time.

Work is counted in prompts of mean length, as in the chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.serving.length_shape import LengthShape

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

PATHS, DRAWS = 256, 1 << 16
"""Drawn workers; fewer where they have many lanes: at most DRAWS requests in all of them."""
HELD_EACH = 8.0
"""Requests in each lane that are drawn at most: their differences have 0.8 to 0.9 of the variance that they have with
any more."""
APART = 0.05
"""Step of the logarithm of the mean requests that workers are drawn for."""
LEVELS = (np.arange(1024) + 0.5) / 1024
"""Probabilities of the outputs that stand for all."""
TURNS, SETTLE = 3, 64
"""Times that the requests of a drawn worker are replaced by others, and requests beside that."""
MOST_PROMPTS = 256
"""Prompts that are put into lanes."""
ABOVE = 2.2
"""Work up to which lanes are filled, over what a step takes; beyond it, all of them are full at FAR times that."""
FAR = 4.0
CELL = 1.08
"""Ratio of the edges of cells in which drawn steps with as much work are taken together."""
STEPS = 8
"""Steps in a row that lanes are drawn for."""
QUEUED = 0.01
"""Weight of the draws that fill all lanes: what steps hardly ever have is known from these."""
FEWEST = 12
"""Draws of a cell."""
PARTS, ATOMS = 4, 5
"""Equally frequent kinds of lanes, and of lengths of steps, that stand for all with as much work."""


@dataclass(frozen=True)
class Held:
    """Requests in the lanes of drawn workers."""

    counts: IntArray
    """As an arrival finds them, (paths, lanes)."""
    total: Array
    """Requests in a worker, ascending, (c,), and how many more than the mean the fullest lane then has."""
    above: Array

    def fullest(self, requests: Array) -> Array:
        """Mean requests in the fullest lane of workers that hold so many, of the same shape."""
        lanes = self.counts.shape[1]
        found = requests / lanes + np.interp(requests, self.total, self.above)
        return np.asarray(np.maximum(np.minimum(found, requests), np.minimum(requests, 1.0)))


def held(lanes: int, requests: float, cv: float, outputs: LengthShape) -> Held:
    """Workers of ``lanes`` that hold ``requests`` on average, with gaps of ``cv`` between arrivals.

    Each request stays in proportion to its output and leaves the lane that it went to. With outputs of one length those
    leave in the order in which they came, and lanes differ least.
    """
    mean = float(np.clip(requests, 0.25, HELD_EACH * lanes))
    near = float(np.exp(np.round(np.log(mean) / APART) * APART))
    return _held(lanes, min(near, HELD_EACH * lanes), cv, outputs.quantile(LEVELS).tobytes())


@lru_cache(maxsize=64)
def _held(lanes: int, mean: float, cv: float, stays: bytes) -> Held:
    """:func:`held` for ``stays`` at the probabilities LEVELS: the deployments of a plan have many in common."""
    paths = int(np.clip(DRAWS / (mean + lanes), 32, PATHS))
    arrivals = int(TURNS * mean) + SETTLE
    rng = np.random.default_rng(0)
    gaps = rng.gamma(cv**-2, cv**2 / mean, (paths, arrivals))
    at = np.cumsum(gaps, axis=1)
    ends = at + np.frombuffer(stays)[rng.integers(0, LEVELS.size, (paths, arrivals))]
    leaving = np.stack([np.searchsorted(a, e) for a, e in zip(at, ends, strict=True)])  # before this arrival
    gone = np.zeros((arrivals + 1, paths, lanes), dtype=np.int16)
    rows, counts = np.arange(paths), np.zeros((paths, lanes), dtype=np.int64)
    seen_total, seen_above = [], []
    for k in range(arrivals):
        counts -= gone[k]
        if k >= arrivals // 2:
            total = counts.sum(axis=1)
            seen_total.append(total)
            seen_above.append(counts.max(axis=1) - total / lanes)
        if k == arrivals - 1:
            break
        lane = counts.argmin(axis=1)
        counts[rows, lane] += 1
        gone[leaving[:, k], rows, lane] += 1
    number, above = np.concatenate(seen_total), np.concatenate(seen_above)
    often = np.bincount(number)
    there = np.flatnonzero(often)
    return Held(counts, there.astype(float), np.bincount(number, above)[there] / often[there])


@dataclass(frozen=True)
class Split:
    """Steps of lanes by the prompt work that waits in the worker, ascending, (c,)."""

    lanes: int
    budget: float
    """Prompt work that one lane takes in a step."""
    pair: Callable[[Array, Array], Array]
    """Seconds of a step by the work of its busiest lane and of all lanes."""
    total: Array
    seconds: Array
    """Mean length of a step, (c,)."""
    atoms: Array
    """What it may be instead, (c, ATOMS)."""
    busiest: Array
    """Work that the busiest lane takes, (c, PARTS)."""
    own: Array
    """Work that waits in the lane to which the next request goes, (c, PARTS)."""
    whole: Array
    """Part of steps that take all of it, (c,)."""
    left: Array
    """Work that the others leave, (c,)."""

    def at(self, column: Array, total: Array) -> Array:
        """A column (c,) or (c, k) at amounts of work, of their shape, k last."""
        if column.ndim == 1:
            return np.asarray(np.interp(total, self.total, column), dtype=float)
        return np.stack([np.interp(total, self.total, one) for one in column.T], axis=-1).astype(float, copy=False)

    def kind(self, column: Array, total: Array, level: Array) -> Array:
        """One of the kinds of a column (c, k) at amounts of work each, by a ``level`` from 0 to 1; they broadcast."""
        at = np.minimum(np.interp(total, self.total, np.arange(self.total.size)), self.total.size - 1 - 1e-9)
        row, part, which = at.astype(np.int64), at % 1.0, (level * column.shape[1]).astype(np.int64)
        return np.asarray((1.0 - part) * column[row, which] + part * column[row + 1, which])


def split_of(
    counts: IntArray, budget: float, lengths: Array, batch: float, pair: Callable[[Array, Array], Array]
) -> Split:
    """Lanes that hold ``counts`` (paths, lanes) requests and take up to ``budget`` in a step each, as prompts come.

    ``lengths``: work of a prompt at evenly spaced probabilities, ascending. ``batch``: mean prompts of a step that has
    any; their number is taken as geometric, so that any of them may be the last. What a long prompt leaves stays in its
    lane, which by the next step holds no more requests than others.
    """
    paths, lanes = counts.shape
    whole = lanes * budget
    rng = np.random.default_rng(1)
    drawn: list[tuple[Array, ...]] = []
    more = 1.0 - 1.0 / max(batch, 1.0)
    waiting = np.zeros((paths, lanes))
    for _ in range(STEPS):
        waiting = rng.permuted(waiting, axis=1)
        filled = _Filled(waiting, counts.copy())
        rows = np.flatnonzero((waiting.sum(axis=1) <= 0.0) | (rng.random(paths) < more))
        drawn.append(filled.state(np.flatnonzero(waiting.sum(axis=1) > 0.0), budget))
        for _ in range(MOST_PROMPTS):
            if not rows.size:
                break
            filled.add(rows, lengths[rng.integers(0, lengths.size, rows.size)])
            drawn.append(filled.state(rows, budget))
            rows = rows[rng.random(rows.size) < more]
        waiting = np.maximum(waiting - budget, 0.0)
    often = [np.ones(one[0].size) for one in drawn]
    filled, rows, seen = _Filled(waiting, counts.copy()), np.arange(paths), 0
    most = int(np.clip(np.ceil(ABOVE * whole), 4, MOST_PROMPTS))
    for number in range(1, most + 1):
        filled.add(rows, lengths[rng.integers(0, lengths.size, paths)])
        if number >= CELL * seen or number == most:  # a cell needs no more of them
            drawn.append(filled.state(rows, budget))
            often.append(np.full(paths, QUEUED * (number - seen)))
            seen = number
    total, busiest, taken, own = (np.concatenate(column) for column in zip(*drawn, strict=True))
    inner = _by_cell(np.concatenate(often), total, pair(busiest, taken), busiest, own, total - taken)
    ends = np.array([0.0, FAR * max(whole, float(total.max()))])
    edge = pair(np.array([0.0, budget]), np.array([0.0, whole]))
    outer = (
        ends,
        edge,
        np.repeat(edge[:, None], ATOMS, axis=1),
        np.repeat(np.array([[0.0], [budget]]), PARTS, axis=1),
        np.repeat(ends[:, None] / lanes, PARTS, axis=1),
        np.array([1.0, 0.0]),
        np.maximum(ends - whole, 0.0),
    )
    found = [np.concatenate([o[:1], v, o[1:]]) for v, o in zip(inner, outer, strict=True)]
    return Split(lanes, budget, pair, *found)


@dataclass(frozen=True)
class _Filled:
    """Drawn workers into which prompts come, changed in place: work that waits and requests, (paths, lanes)."""

    work: Array
    present: IntArray

    def add(self, rows: IntArray, prompts: Array) -> None:
        """Another prompt in each of the workers ``rows``."""
        lane = self.present[rows].argmin(axis=1)
        self.work[rows, lane] += prompts
        self.present[rows, lane] += 1

    def state(self, rows: IntArray, budget: float) -> tuple[Array, ...]:
        """Work of all lanes, of the busiest in a step, of all lanes in a step, and in the lane of the next request."""
        work = self.work[rows]
        inside = np.minimum(work, budget)
        own = work[np.arange(rows.size), self.present[rows].argmin(axis=1)]
        return work.sum(axis=1), inside.max(axis=1), inside.sum(axis=1), own


def _by_cell(often: Array, total: Array, seconds: Array, busiest: Array, own: Array, left: Array) -> tuple[Array, ...]:
    """Total, seconds, atoms, busiest, own, whole and left of :class:`Split` by cell, from draws (m,); ``often`` says
    how much each counts.
    """
    order, starts = _cells(total)
    cell = np.repeat(np.arange(starts.size), np.diff(np.append(starts, order.size)))
    share = often[order] / np.add.reduceat(often[order], starts)[cell]

    def mean(values: Array, part: Array = share) -> Array:
        return np.asarray(np.add.reduceat(part * values[order], starts))

    some = share * (left[order] > 1e-9)
    leaves = np.add.reduceat(some, starts)
    return (
        mean(total),
        mean(seconds),
        _kinds(seconds[order], share, cell, ATOMS),
        _kinds(busiest[order], share, cell, PARTS),
        _kinds(own[order], share, cell, PARTS),
        np.maximum(1.0 - leaves, 0.0),
        mean(left, some) / np.maximum(leaves, 1e-300),
    )


def _cells(total: Array) -> tuple[IntArray, IntArray]:
    """Order of draws by their work, and where in it cells with about as much begin; equal amounts are in one cell."""
    order = np.argsort(total, kind="stable")
    values = total[order]
    starts: list[int] = []
    start = 0
    while start < values.size:
        starts.append(start)
        least = min(start + FEWEST, values.size) - 1
        upto = max(values[start] * CELL, values[least]) + 1e-9
        end = int(np.searchsorted(values, upto, side="right"))
        start = values.size if values.size - end < FEWEST else end
    return order, np.array(starts, dtype=np.int64)


def _kinds(values: Array, share: Array, cell: IntArray, count: int) -> Array:
    """Means of ``count`` equally frequent parts of the values of each cell in order, (c, count); the shares (m,) of a
    cell's draws add up to 1, cells follow one another.
    """
    order = np.lexsort((values, cell))
    below = np.concatenate([[0.0], np.cumsum(share[order])])
    upto = np.concatenate([[0.0], np.cumsum((share * values)[order])])
    edges = np.arange(cell[-1] + 1)[:, None] + np.linspace(0.0, 1.0, count + 1)
    return np.diff(np.interp(edges, below, upto), axis=1) * count

"""The steps of a worker as a Markov chain: how much prompt work waits when a step starts.

A step takes the prompt tokens that wait, up to the token budget T, and lasts S(tokens) seconds; what arrives meanwhile
waits for the next one: b' = (b - T)+ + arrivals in S(min(b, T)). This is a queue with bulk service of at most T (Bailey
1954) whose service time depends on the bulk; with gaps that are a mixture of exponentials (:class:`Arrivals`) the state
is (b, kind of the gap under way). It holds for engines that mix prompts with decodes, where S contains the decodes, and
for those that pause decodes, where S(0) is a decode step and the others have prompts alone.

Several lanes (attention-DP ranks) step together and take up to a budget each. b is then the work of all of them, as a
burst comes to all; how it divides (:mod:`planner.serving.lanes`) gives the mean S(b), and what lanes leave of it while
others have room.

Work is counted in prompts of mean length. b lies on a grid, fine below T and coarser above; a landing between its
points is shared among three of them so that mean and variance of a step's change stay (quadratic interpolation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.serving.arrival_phases import Arrivals, WorkArrivals
from planner.serving.lanes import Split
from planner.serving.length_shape import LengthShape
from planner.serving.routed import damping

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

FINE = 512
"""Points of the even grid that arriving work is counted on."""
WIDTH, MOST_IN_BUDGET, MOST_IN_LANES = 0.15, 64, 256
"""Width of a point in mean prompts, and most points below the token budget of one lane and of several."""
HELD = 50.0
"""Mean prompts that the even grid reaches at least."""
REACHES = (12, 40, 120, 360)
"""Token budgets that the coarse grid reaches."""
ALL_FULL = 2.0
"""Work that waits, over what all lanes take, from which on every lane is full."""


@dataclass(frozen=True)
class Grid:
    """Points of b in units of an even grid; the same for all workers of one shape."""

    budget: int
    """Even points of a token budget."""
    points: IntArray
    """(G,), ascending from 0."""
    full: int
    """Index of the point from which on all steps are alike: that at the token budget, or where every lane is full."""
    table: Array
    """Shares of the points in each even point, (even points, G)."""
    left: Array
    """Even points that a step from each point leaves where it does not take all of it, (G,)."""
    whole: Array
    """Part of steps from a point that take all of it, (G,)."""

    @property
    def distinct(self) -> IntArray:
        """Index of each point's step: all above the budget last as long as the one at it, (G,)."""
        return np.minimum(np.arange(self.points.size), self.full)

    def landing(self, i: int) -> Array:
        """Shares of landing at the even points beyond what a step from point ``i`` leaves, (FINE, G)."""
        low, part, whole = int(self.left[i]), float(self.left[i]) % 1.0, float(self.whole[i])
        found = self.table[low : low + FINE]
        if part:
            found = (1.0 - part) * found + part * self.table[low + 1 : low + 1 + FINE]
        return whole * self.table[:FINE] + (1.0 - whole) * found if whole else found


@lru_cache(maxsize=64)
def grid_of(budget: int, reach: int) -> Grid:
    """Grid of a token budget of ``budget`` even points, up to ``reach`` budgets."""
    points = [0]
    while points[-1] < budget:
        points.append(min(points[-1] + max(1, points[-1] // 6), budget))
    full = len(points) - 1
    for upto, step in ((2, budget // 4), (6, budget // 2), (16, budget), (40, 2 * budget), (reach, 4 * budget)):
        while points[-1] < min(upto, reach) * budget:
            points.append(points[-1] + max(1, step))
    found = np.array(points, dtype=np.int64)
    table = _shares(found, int(found[-1]) + FINE + 1)
    return Grid(budget, found, full, table, np.maximum(found - budget, 0.0), np.zeros(found.size))


def lane_grid(budget: int, reach: int, split: Split) -> Grid:
    """Grid of a worker with several lanes, which leave work that others have room for: a step either takes all that
    waits or leaves the mean of what steps leave that do not."""
    even = grid_of(budget, reach)
    unit = split.lanes * split.budget / budget
    at = np.asarray(even.points * unit, dtype=float)
    whole, left = split.at(split.whole, at), np.minimum(split.at(split.left, at) / unit, even.points)
    full = min(int(np.searchsorted(even.points, ALL_FULL * budget)), even.points.size - 1)
    whole[full:], left[full:] = 0.0, even.points[full:] - float(budget)
    return replace(even, full=full, whole=whole, left=left)


def _shares(points: IntArray, size: int) -> Array:
    """Weights of quadratic interpolation of even points 0..size - 1 on ``points``; the last point takes all beyond."""
    at = np.minimum(np.arange(size), points[-1]).astype(float)
    above = np.minimum(np.searchsorted(points, at), points.size - 1)
    below = np.maximum(above - 1, 0)
    nearest = np.where(at - points[below] < points[above] - at, below, above)
    middle = np.clip(nearest, 1, points.size - 2)
    a, b, c = (points[middle + k].astype(float) for k in (-1, 0, 1))
    out = np.zeros((size, points.size))
    rows = np.arange(size)
    out[rows, middle - 1] = (at - b) * (at - c) / ((a - b) * (a - c))
    out[rows, middle] = (at - a) * (at - c) / ((b - a) * (b - c))
    out[rows, middle + 1] = (at - a) * (at - b) / ((c - a) * (c - b))
    return out


@dataclass(frozen=True)
class Steps:
    """What a worker's steps take."""

    budget: float
    """Token budget in mean prompts."""
    tokens: Array
    """Prompt tokens of a step in mean prompts, ascending, (k,), and its seconds."""
    seconds: Array
    decode_s: float
    """A step without prompts."""
    split: Split | None = None
    """How the work divides among several lanes; budget, tokens and seconds are then those of all lanes."""

    def of(self, tokens: Array) -> Array:
        """Seconds of steps with prompt ``tokens``."""
        return np.interp(tokens, self.tokens, self.seconds)


@dataclass(frozen=True)
class Chain:
    """The steps of a worker in steady state. States are (point of b, kind of gap), (G, J)."""

    grid: Grid
    unit: float
    """Mean prompts of an even point."""
    work: WorkArrivals
    seconds: Array
    """Length of the step from each point, (G,)."""
    felt: Array
    """Time of the stream that passes meanwhile: as many requests come as in so many seconds of it, (G,)."""
    moves: Array
    """Chances of the next state where the worker decodes, (G * J, G * J)."""
    starting: Array
    """Part of the steps that start in a state, (G, J)."""
    damped: float
    """Part of the arrivals that follow what leaves the worker instead of time."""
    idle: Array
    """Chance that a step without prompts has no decodes either and the worker waits for an arrival, (J,)."""

    @property
    def arrivals(self) -> Arrivals:
        return self.work.arrivals

    @property
    def running(self) -> Array:
        """``starting`` without the idle ones, (G, J)."""
        out = self.starting.copy()
        out[0] *= 1.0 - self.idle
        return out

    @property
    def busy_s(self) -> float:
        """Time in which having prompt work and having none are forgotten: 1 / (1 / mean time with + 1 / without)."""
        often, kinds = self.running.sum(axis=1), self.idle.size
        starts = float(self.running[0] @ self.moves[:kinds, kinds:].sum(axis=1)) + float(self.starting[0] @ self.idle)
        with_s = float(often[1:] @ self.seconds[1:])
        return with_s * (1.0 - with_s / self.cycle_s) / max(starts, 1e-12)

    @property
    def felt_full(self) -> float:
        """``felt`` of a full step."""
        return float(self.felt[self.grid.full])

    def seen_by_tokens(self, decode_s: float) -> Array:
        """``moves`` with decode steps of ``decode_s``: tokens see longer ones, as more of them are made with more
        requests in the worker."""
        out = self.moves.copy()
        kinds = self.arrivals.rates.size
        felt = self.felt[0] + (decode_s - self.seconds[0]) * (1.0 - self.damped)
        landed = self.work.within(felt)[0] @ self.grid.landing(0)
        out[:kinds] = np.moveaxis(landed, 1, 2).reshape(kinds, -1)
        out[:kinds] /= out[:kinds].sum(axis=1, keepdims=True)
        return out

    @property
    def waiting_s(self) -> float:
        """Mean seconds of waiting for an arrival before a step starts."""
        return float(np.sum(self.starting[0] * self.idle / self.arrivals.rates))

    @property
    def cycle_s(self) -> float:
        """Mean seconds from one start of a step to the next."""
        return float(self.running.sum(axis=1) @ self.seconds) + self.waiting_s

    @property
    def idle_part(self) -> float:
        """Part of the time without a request."""
        return self.waiting_s / self.cycle_s


def even_points(budget: float, lanes: int = 1) -> int:
    """Even points of a token budget of ``budget`` mean prompts over all ``lanes``."""
    wanted = int(np.clip(round(budget / WIDTH), 2, MOST_IN_BUDGET if lanes == 1 else MOST_IN_LANES))
    return max(2, min(wanted, int(budget * FINE / HELD)))


@dataclass(frozen=True)
class Shared:
    """Workers that requests go to by what they hold, as one of them sees the others."""

    workers: float
    occupancy: float
    """Requests in each, waiting ones included."""
    balance_rps: float
    """Rate at which a difference between them goes back (:func:`planner.serving.routed.balance_rps`)."""
    apart: float
    """Part of what varies in one that is not the same in all of them (:func:`planner.serving.routed.apart`)."""
    used: float
    """Load of the prompts on full steps."""
    pause: bool
    """Nothing leaves in steps with prompts."""


ALONE = Shared(1.0, np.inf, 0.0, 0.0, 0.0, False)
SOLUTIONS, EVEN, TINY = 4, 0.01, 1e-300
"""Times that a chain is solved at most until as many requests come as leave, within EVEN; weight of an unmet state."""


def chain_of(
    arrivals: Arrivals, lengths: Array, steps: Steps, alone_s: float, reach: float, shared: Shared = ALONE
) -> Chain:
    """The chain of a worker; ``lengths`` are the probabilities of prompt lengths on its even grid.

    ``alone_s``: time for which a request stays in an otherwise empty worker; where a gap under way has lasted longer,
    the worker is idle. ``reach``: token budgets that may wait.

    One of several workers that are kept equally full (:mod:`planner.serving.routed`): a part d of what comes in a step
    of S seconds follows what leaves the worker in it, as much as comes in (1 - d) S + d s seconds of its stream. s is
    in proportion to the requests that decode, n - b of n, and so large that over all steps nothing is lost.
    """
    split, upto = steps.split, next((r for r in REACHES if r >= reach), REACHES[-1])
    points = even_points(steps.budget, 1 if split is None else split.lanes)
    grid = grid_of(points, upto) if split is None else lane_grid(points, upto, split)
    unit = steps.budget / points
    seconds = steps.of(np.minimum(grid.points, grid.points[grid.full]) * unit)
    seconds[0] = steps.decode_s
    work = WorkArrivals(arrivals, lengths)
    decoding = np.clip(1.0 - grid.points * unit / shared.occupancy, 0.0, 1.0)
    if shared.pause:
        decoding[1:] = 0.0
    step_s, damped = steps.decode_s, np.zeros(seconds.size)
    queue_s = seconds[grid.full] * grid.points / grid.budget
    for _ in range(SOLUTIONS):
        felt = seconds + damped * (step_s * decoding - seconds)
        chain = _solved(grid, unit, work, (seconds, felt), (lengths, steps.decode_s, alone_s), damped)
        if shared.workers == 1.0:
            break
        often = chain.running.sum(axis=1)
        lasting = chain.busy_s + queue_s
        leaving = min(step_s * float(decoding[grid.full]) / float(seconds[grid.full]), 1.0)
        now = damping(shared.workers, shared.balance_rps, lasting, shared.apart, shared.used, leaving)
        if not now.any():
            break
        found_s = float(often * now @ seconds) / float(often * now @ decoding)
        if damped.any() and abs(found_s / step_s - 1.0) < EVEN and abs(now - damped).max() < EVEN:
            break
        step_s, damped = found_s, now
        beyond = often[grid.full :] + TINY
        damped[grid.full :] = beyond @ damped[grid.full :] / beyond.sum()
        decoding[grid.full :] = beyond @ decoding[grid.full :] / beyond.sum()
    return chain


def _solved(
    grid: Grid,
    unit: float,
    work: WorkArrivals,
    times: tuple[Array, Array],
    given: tuple[Array, float, float],
    damped: Array,
) -> Chain:
    (seconds, felt), (lengths, decode_s, alone_s) = times, given
    arrivals = work.arrivals
    kinds, size = arrivals.rates.size, grid.points.size
    within = work.within(felt[: grid.full + 1])
    moves = np.empty((size, kinds, size, kinds))
    for i in range(size):
        moves[i] = np.moveaxis(within[min(i, grid.full)] @ grid.landing(i), 1, 2)
    # In steady state a gap of kind j has lasted longer than ``alone_s`` with this probability.
    empty = np.exp(-arrivals.rates * alone_s)
    idle = empty * decode_s / (empty * decode_s + (1.0 - empty) / arrivals.rates)
    decoding = moves.reshape(size * kinds, size * kinds)
    decoding /= decoding.sum(axis=1, keepdims=True)
    whole = decoding.copy()
    arriving = (lengths @ grid.landing(0))[:, None] * arrivals.shares
    whole[:kinds] = (1.0 - idle)[:, None] * whole[:kinds] + idle[:, None] * arriving.ravel() / arriving.sum()
    starting = np.maximum(_steady(whole), 0.0).reshape(size, kinds)
    return Chain(grid, unit, work, seconds, felt, decoding, starting / starting.sum(), float(damped[0]), idle)


def _steady(moves: Array) -> Array:
    """Stationary probabilities of a chain."""
    system = moves.T - np.eye(moves.shape[0])
    system[-1] = 1.0
    wanted = np.zeros(moves.shape[0])
    wanted[-1] = 1.0
    return np.asarray(np.linalg.solve(system, wanted), dtype=float)


def spread_lengths(shape: LengthShape, size: Array, unit: float) -> Array:
    """Probabilities of the lengths ``size`` (one for each value of ``shape``) on the even grid, means kept, (FINE,).

    What is longer than the grid counts at its end, so much more often that the second moment stays: that is what waits
    depend on.
    """
    end = FINE - 1.0
    at = size / unit
    low = np.minimum(at.astype(np.int64), FINE - 2)
    part = np.minimum(at - low, 1.0)
    found = np.zeros(FINE)
    np.add.at(found, low, shape.weights * (1.0 - part))
    np.add.at(found, low + 1, shape.weights * part)
    beyond = float(np.sum(shape.weights * (np.square(np.maximum(at, end) / end) - 1.0)))
    found[:-1] *= 1.0 - beyond / float(found[:-1].sum())
    found[-1] += beyond
    return found

"""Gaps between tokens in a chain of steps: all of them pooled (TBT), and the mean gap of a request (TPOT).

A request that has its first token meets the work that came behind it. From there the chain goes on step by step, each
of which is a gap where prompts ride along. Where decodes pause, a gap is a decode step and the steps with prompts until
none waits: a first passage of the chain to b = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.serving.chain_waits import Group, Times, times
from planner.serving.length_shape import LengthShape
from planner.serving.step_chain import FINE, Chain

Array = NDArray[np.float64]

FOLLOWED = 96
"""Steps after the first token that are followed one by one; then the chain has settled."""
SETTLED = 16
"""Last of them, from which the growth of a long request's variance is taken."""
LONGEST_PASSAGE = 400
"""Steps with prompts of one pause that are followed."""
SEPARATE = 3
"""First of them after which the work that waited is told apart."""
LENGTHS = np.array([0.0, 0.02, 0.06, 0.12, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 1.0])
"""Probabilities between which one output stands for all."""
PIECES = 8
"""Outputs that stand for those of one mean gap in the time of a whole request, which grows with their length."""
POINTS = 48
"""Times that a distribution of mean gaps is evaluated at."""
ATOMS = np.array([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.925, 0.965, 0.99])
ATOM_SHARES = np.diff(np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0]))


@dataclass(frozen=True)
class DecodeSpread:
    """How decode steps vary with the requests in the worker, as its tokens see them."""

    seconds: Array
    shares: Array
    mean_s: float
    step_s: float
    """Mean over the steps themselves."""
    variance: float
    """Of a request's own mean gap, from the drift of the requests beside it, in seconds^2."""
    shared: float
    """Correlation of that drift with the prompts that interrupt: the part of both that bursts of arrivals cause."""


@dataclass(frozen=True)
class MeanGaps:
    """TPOT by group of requests and output length."""

    seconds: Array
    """(POINTS,)."""
    below: Array
    """Part at most that slow, (groups, lengths, POINTS)."""
    gaps: Array
    """Gaps of a request, (lengths,)."""
    pieces: Array
    """The same in equal parts of each length's probability, (lengths, PIECES)."""
    shares: Array
    """(groups, lengths), 1 in all."""
    mean_s: float

    def quantile(self, p: float) -> float:
        return float(np.interp(p, np.tensordot(self.shares, self.below, 2), self.seconds))

    def within(self, limit_s: float) -> Array:
        """Part of each kind of request that keeps to a limit, (groups, lengths)."""
        at = np.clip(np.interp(limit_s, self.seconds, np.arange(POINTS)), 0, POINTS - 1)
        low = min(int(at), POINTS - 2)
        return np.asarray(self.below[..., low] + (at - low) * (self.below[..., low + 1] - self.below[..., low]))

    def atoms(self) -> Array:
        """Mean gaps at the probabilities ATOMS, (groups, lengths, atoms)."""
        flat = self.below.reshape(-1, POINTS)
        return np.stack([np.interp(ATOMS, row, self.seconds) for row in flat]).reshape(*self.below.shape[:2], -1)


@dataclass(frozen=True)
class Gaps:
    """Gaps between tokens."""

    every: Times
    """All gaps, pooled."""
    by_request: MeanGaps
    interrupted: float
    """Part of all gaps that prompts prolong."""


def after_first_token(chain: Chain, groups: Sequence[Group]) -> Array:
    """Chances of the state in which the next step starts, (groups, G * J).

    What arrived since the request did waits behind it; the step of its last prompt token takes along what it has room
    for, and more arrives during it.
    """
    before = chain.work.within([g.before_s for g in groups])
    during = chain.work.within([g.last_s for g in groups])
    out = []
    for k, group in enumerate(groups):
        behind = np.maximum(chain.arrivals.shares @ np.moveaxis(before[k], 0, 1), 0.0)  # (J, N)
        taken = group.room / chain.unit
        whole = min(int(taken), FINE - 2)
        left = (1.0 - (taken - int(taken))) * _less(behind, whole) + (taken - int(taken)) * _less(behind, whole + 1)
        spectrum = np.fft.rfft(left, 2 * FINE), np.fft.rfft(during[k], 2 * FINE)
        found = np.fft.irfft(np.einsum("jf,jkf->kf", *spectrum), 2 * FINE)[:, :FINE]
        state = np.maximum(found @ chain.grid.landing(0), 0.0).T.ravel()
        out.append(state / state.sum())
    return np.stack(out)


def _less(amounts: Array, taken: int) -> Array:
    """Probabilities of what is left of ``amounts`` (..., N) when ``taken`` points are taken away, none below 0."""
    out = np.zeros_like(amounts)
    out[..., : FINE - taken] = amounts[..., taken:]
    out[..., 0] += amounts[..., :taken].sum(axis=-1)
    return out


def gaps(
    chain: Chain,
    groups: Sequence[Group],
    outputs: LengthShape,
    decode: DecodeSpread,
    spread: Sequence[Array],
    pause: bool,
) -> Gaps:
    """Gaps of a worker; ``spread``: seconds by which steps from each distinct point of the grid differ from their
    mean, equally often each."""
    starts = after_first_token(chain, groups)
    sizes = np.array([g.share for g in groups])
    alive = _alive(outputs)
    further = float(outputs.weights @ np.maximum(outputs.values * outputs.mean - 1.0 - FOLLOWED, 0.0))
    riding = 0.0 if pause else decode.mean_s - float(chain.seconds[0])
    lasting = chain.seconds + riding
    lasting[0] = decode.mean_s
    chain = replace(chain, seconds=lasting, moves=chain.seen_by_tokens(decode.mean_s))
    if pause:
        sums, first, rest = _paused(chain, starts, sizes, alive, further)
        atoms, chances = _pauses(chain, sizes @ first[0], rest, sizes @ first[1])
        seconds = [decode.seconds, *(decode.seconds + a for a in atoms)]
        weights = [decode.shares * chances[0], *(decode.shares * c for c in chances[1:])]
        plain = chances[0] / sum(chances)
        highest = np.inf
    else:
        sums, seen = _mixed(chain, starts, sizes, alive, further)
        by_step = np.bincount(chain.grid.distinct, seen, chain.grid.full + 1)
        seconds, weights = [], []
        for i, offset in enumerate(spread):
            seconds.append((decode.seconds[:, None] + (chain.seconds[i] - chain.seconds[0]) + offset).ravel())
            weights.append(np.repeat(decode.shares * by_step[i] / offset.size, offset.size))
        plain = float(by_step[0])
        highest = float(chain.seconds[-1])
    every, _ = times(np.concatenate(seconds), np.concatenate(weights))
    return Gaps(every, _mean_gaps(sums, outputs, sizes, decode, highest), 1.0 - plain)


def _alive(outputs: LengthShape) -> Array:
    """Part of requests with more than k gaps, k = 0 to FOLLOWED, (FOLLOWED + 1,)."""
    tokens = np.sort(outputs.values) * outputs.mean
    above = 1.0 - np.concatenate([[0.0], np.cumsum(outputs.weights[np.argsort(outputs.values, kind="stable")])])
    return np.asarray(above[np.searchsorted(tokens, np.arange(1, FOLLOWED + 2) + 0.5)])


Sums = tuple[Array, Array]
"""Mean and variance of the time of the first k gaps, (k + 1, groups) each."""


def _mixed(chain: Chain, starts: Array, sizes: Array, alive: Array, further: float) -> tuple[Sums, Array]:
    """Times of the first gaps, and the part of all gaps in a step from each point, (G,)."""
    kinds = chain.arrivals.rates.size
    lasting = np.repeat(chain.seconds, kinds)
    chance, first, second = starts, np.zeros_like(starts), np.zeros_like(starts)
    means, squares = [np.zeros(sizes.size)], [np.zeros(sizes.size)]
    seen = np.zeros(starts.shape[1])
    for k in range(FOLLOWED):
        seen += alive[k] * (sizes @ chance)
        second = (second + 2.0 * lasting * first + lasting**2 * chance) @ chain.moves
        first = (first + lasting * chance) @ chain.moves
        chance = chance @ chain.moves
        means.append(first.sum(axis=1))
        squares.append(second.sum(axis=1))
    seen = np.maximum(seen + further * (sizes @ chance), 0.0)
    mean = np.array(means)
    by_point = seen.reshape(-1, kinds).sum(axis=1)
    return (mean, np.array(squares) - mean**2), by_point / by_point.sum()


def _paused(
    chain: Chain, starts: Array, sizes: Array, alive: Array, further: float
) -> tuple[Sums, tuple[Array, Array], Array]:
    """Times of the first gaps; chances (no work, work) at the start of the first gap; and those after a decode step
    weighted by later gaps, (G * J,)."""
    kinds = chain.arrivals.rates.size
    lasting = np.repeat(chain.seconds, kinds)[kinds:, None]
    busy, out = chain.moves[kinds:, kinds:], chain.moves[kinds:, :kinds]
    decode_s = float(chain.seconds[0])
    solved = np.linalg.inv(np.eye(busy.shape[0]) - busy)
    exits = solved @ out
    once = solved @ (lasting * exits)
    twice = solved @ (2.0 * lasting * once - lasting**2 * exits)
    after = chain.moves[:kinds]
    turn = after[:, :kinds] + after[:, kinds:] @ exits
    turn_once = decode_s * turn + after[:, kinds:] @ once
    turn_twice = decode_s**2 * turn + 2.0 * decode_s * (after[:, kinds:] @ once) + after[:, kinds:] @ twice
    empty, loaded = starts[:, :kinds], starts[:, kinds:]
    chance, first, second = empty + loaded @ exits, loaded @ once, loaded @ twice
    means, squares = [np.zeros(sizes.size)], [np.zeros(sizes.size)]
    later = np.zeros(kinds)
    for k in range(FOLLOWED):
        means.append(first.sum(axis=1) + decode_s * chance.sum(axis=1))
        squares.append((second + 2.0 * decode_s * first + decode_s**2 * chance).sum(axis=1))
        later += alive[k + 1] * (sizes @ chance)
        second = second @ turn + 2.0 * (first @ turn_once) + chance @ turn_twice
        first = first @ turn + chance @ turn_once
        chance = chance @ turn
    later += further * (sizes @ chance)
    mean = np.array(means)
    return (mean, np.array(squares) - mean**2), (alive[0] * empty, alive[0] * loaded), later @ after


def _pauses(chain: Chain, empty: Array, later: Array, loaded: Array) -> tuple[list[Array], list[float]]:
    """Lengths of pauses before a decode step (arrays of one), and the weight of no pause and of each of them."""
    kinds = chain.arrivals.rates.size
    lasting = np.repeat(chain.seconds, kinds)[kinds:]
    busy, out = chain.moves[kinds:, kinds:], chain.moves[kinds:, :kinds]
    ends = out.sum(axis=1)
    chance = loaded + later[kinds:]
    total = np.zeros_like(chance)
    lengths, weights = [], [float(empty.sum() + later[:kinds].sum())]
    whole = float(chance.sum())
    for k in range(LONGEST_PASSAGE):
        total = total + lasting * chance
        ending, spent = chance * ends, total * ends
        if k < SEPARATE:
            by_point = ending.reshape(-1, kinds).sum(axis=1), spent.reshape(-1, kinds).sum(axis=1)
            there = by_point[0] > 1e-7 * whole
            lengths += [np.array([b / a]) for a, b in zip(by_point[0][there], by_point[1][there], strict=True)]
            weights += by_point[0][there].tolist()
        elif ending.sum() > 1e-7 * whole:
            lengths.append(np.array([spent.sum() / ending.sum()]))
            weights.append(float(ending.sum()))
        total, chance = total @ busy, chance @ busy
        if chance.sum() < 1e-6 * whole:
            break
    return lengths, weights


def _mean_gaps(sums: Sums, outputs: LengthShape, sizes: Array, decode: DecodeSpread, highest: float) -> MeanGaps:
    """Mean gaps by group and length: gamma laws above a plain decode step, beta laws where no gap exceeds ``highest``;
    both of the mean and variance of the sums."""
    from scipy.special import betainc, gammainc

    means, variances = sums
    middle = 0.5 * (LENGTHS[1:] + LENGTHS[:-1])
    inside = LENGTHS[:-1, None] + np.diff(LENGTHS)[:, None] * ((np.arange(PIECES) + 0.5) / PIECES)
    count, pieces = (np.maximum(outputs.quantile(p) * outputs.mean - 1.0, 1.0) for p in (middle, inside))
    known = np.minimum(count, float(FOLLOWED))
    low = np.minimum(known.astype(np.int64), FOLLOWED - 1)
    part = (known - low)[:, None]
    beyond = np.maximum(count - FOLLOWED, 0.0)[:, None]

    def at(values: Array, growth: Array) -> Array:
        return np.asarray(values[low] * (1.0 - part) + values[low + 1] * part + beyond * growth)

    mean = at(means, means[-1] - means[-2]) / count[:, None]
    growth = np.maximum(variances[-1] - variances[-1 - SETTLED], 0.0) / SETTLED
    own = np.maximum(at(variances, growth), 0.0) / count[:, None] ** 2
    variance = own + decode.variance + 2.0 * decode.shared * np.sqrt(own * decode.variance)
    mean, variance = mean.T, np.maximum(variance.T, 1e-18)  # (groups, lengths)

    floor = 0.97 * float(decode.seconds[0])
    deviation = np.sqrt(variance)
    top = float(np.max(mean + 6.0 * deviation))
    if np.isfinite(highest):
        top = highest + 3.0 * float(np.sqrt(decode.variance))
    seconds = np.geomspace(floor, top, POINTS)
    over = np.maximum(mean - floor, 1e-9)
    if np.isfinite(highest):
        width = top - floor
        centre = np.minimum(over / width, 0.999)
        spread = np.minimum(variance / width**2, 0.98 * centre * (1.0 - centre))
        degrees = centre * (1.0 - centre) / spread - 1.0
        x = np.clip((seconds - floor) / width, 0.0, 1.0)
        below = betainc((centre * degrees)[..., None], ((1.0 - centre) * degrees)[..., None], x)
    else:
        shape, scale = over**2 / variance, variance / over
        below = gammainc(shape[..., None], (seconds - floor) / scale[..., None])
    shares = sizes[:, None] * np.diff(LENGTHS)
    return MeanGaps(seconds, below, count, pieces, shares, float(np.sum(shares * mean)))

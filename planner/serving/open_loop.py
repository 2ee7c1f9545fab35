"""One worker under an open stream of requests: how many are in it, how its time divides between prompts and tokens.

Notation of the formulas: arrival rate L (requests/s), O mean output tokens, D(b) = D0 + slope b seconds of a decode
step with b requests, w seconds that the tokens of a prompt add to the worker's steps, x a length over
its mean. Arrays broadcast over candidates, shape (n,); seconds and requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.serving.length_shape import LengthShape
from planner.serving.queues import Wait, batch_of, fano, queue_wait
from planner.serving.routed import apart, balance_rps, busy_rate, damping, left_in
from planner.serving.side_by_side import counted

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class WorkerLoad:
    """A worker and what arrives at it: scalars or arrays (n,) of one candidate each.

    Step times are those of planner.roofline.step at ``reference_occupancy`` requests.
    """

    rate_rps: Array
    arrival_cv: Array
    """CV of the gaps between arrivals at this worker (:func:`planner.serving.queues.worker_cv`)."""
    prompts: LengthShape
    outputs: LengthShape
    decode_step_s: Array
    reference_occupancy: Array
    decode_step_slope_s: Array
    """Seconds that one more request adds to a decode step."""
    prefill_step_s: Array
    """A step with ``prompts_per_step`` prompts of mean length in it (or a chunk of one), decodes included where they
    ride along."""
    prefill_fixed_s: Array
    """Part of what prompts add to such a step that does not grow with their tokens."""
    prompts_per_step: Array
    chunks: Array
    """Steps that a prompt of mean length takes (1 or more)."""
    most_prompts: Array
    """Prompts of mean length that one step's token budget holds over all ranks."""
    lanes: Array
    """Attention-DP ranks: prompts that a step processes side by side."""
    decodes_pause: BoolArray
    """Decodes wait while a step with prompts runs (prefill first), or ride along (mixed)."""
    quadratic_share: Array
    """Part of a mean prompt's added time that grows with the square of its length (attention)."""
    slots: Array
    """Requests of mean length that the KV cache and the engine hold at once."""
    request_s: Array
    """Fixed time of a request outside the steps, before its first token."""
    poll_steps: Array
    shared_part: Array = field(default_factory=lambda: np.array(0.0))
    """Part of a prompt's added time that counts for prompts of all attention-DP ranks (experts), not of its own."""
    acceptance: tuple[float, ...] = ()
    """Speculative decoding: chance by position that a draft token is accepted; ``outputs`` then count decode steps."""
    sharing: Array = field(default_factory=lambda: np.array(1.0))
    """Workers that share a stream, each request going to the one with the fewest; 1 for a stream of its own."""
    stream_cv: Array = field(default_factory=lambda: np.array(1.0))
    """CV of the gaps of the stream that they share."""

    def take(self, rows: NDArray[np.int64]) -> WorkerLoad:
        """The candidates at positions ``rows``; scalars stay."""
        kept: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        rowwise: dict[str, Any] = {k: v[rows] for k, v in kept.items() if isinstance(v, np.ndarray) and v.ndim}
        return replace(self, **rowwise)

    def at_rate(self, rate_rps: Array, arrival_cv: Array, sharing: Array | None = None) -> WorkerLoad:
        """The same workers at other rates, in other numbers where ``sharing`` is given."""
        shared = self.sharing if sharing is None else np.where(self.sharing > 1.0, sharing, self.sharing)
        return replace(self, rate_rps=rate_rps, arrival_cv=arrival_cv, sharing=shared)

    def present_dispersion(self, arrivals: Array) -> Array:
        """Variance over mean of the requests present whose stay expects ``arrivals``, whatever their stays' law.

        Workers that take from one stream by what they hold are as good as equally full: the requests in all of them
        vary as in one pool, and those in one of N as 1 / N of that.
        """
        pooled = fano(self.stream_cv, self.sharing * arrivals)
        whole = np.where(self.sharing > 1.0, pooled, fano(self.arrival_cv, arrivals))
        return np.asarray((1.0 + (whole - 1.0) * self.outputs.overlap) / self.sharing)

    @property
    def balance_rps(self) -> Array:
        """Rate at which a difference in requests between workers of one stream goes back."""
        return balance_rps(self.rate_rps, self.sharing)

    @property
    def budget(self) -> Array:
        """Token budget of a step on one rank, in prompts of mean length."""
        return np.where(self.chunks > 1.0, 1.0 / self.chunks, self.most_prompts / self.lanes)


@dataclass(frozen=True)
class Flow:
    """Steady state of a worker at its rate, arrays (n,)."""

    occupancy: Array
    """Mean requests holding KV (prompt under way or decoding)."""
    occupancy_variance: Array
    residence_s: Array
    """Mean time a request holds KV, by Little's law occupancy / rate."""
    tpot_s: Array
    """Mean gap over all tokens."""
    decode_s: Array
    """Mean decode step as tokens see it."""
    feedback: Array
    """L B: how much one more request prolongs the stay of all, in requests (0 to 1)."""
    prefill_share: Array
    """Part of all time that prompts add (0 to 1)."""
    batch: Array
    """Prompts in a step that has any."""
    counted: Array
    """The same in prompts that take time one after the other (:mod:`planner.serving.side_by_side`)."""
    counted_several: Array
    """Of steps with more than one."""
    counted_each: Array
    """Part of its own time that one more prompt adds to a step (0 to 1; 1 with one rank)."""
    alone: Array
    """Part of such steps with a single prompt."""
    added_s: Array
    """Seconds that prompts add to such a step."""
    interrupted: Array
    """Part of gaps between tokens that prompts prolong, over all time."""
    interruption_s: Array
    """Mean seconds added to such a gap."""
    after_own_s: Array
    """Time that prompts behind one's own add to its decode beyond the average: work left in the queue then."""
    fixed_s: Array
    """Seconds that any step with prompts has more, whatever their tokens."""
    prompt_work_s: Array
    """E[s]: seconds that the tokens of one prompt take."""
    own_prompt_s: Array
    """Mean time from the first step of a prompt to its first token."""
    steps_per_prompt: Array
    full_step_s: Array
    """A step whose token budget is full."""
    utilisation: Array
    """Load of the prompts on the token budget of full steps (0 to 1)."""
    backlog: Wait
    """Prompt work found by an arrival, in seconds of full steps: GI/G/1."""
    dispersion: Array
    """Variance over mean of the requests that come during one's stay and are still there, each worker by itself; each
    prolongs the stay and brings on others."""
    first_gaps: Array
    """Gaps of a request that ``after_own_s`` falls into, on average."""
    slots: Array
    damped: Array
    """Part of the arrivals that follow what leaves the worker instead of time (:mod:`planner.serving.routed`)."""
    apart: Array
    """Part of what varies in a worker that is not the same in all that share its stream."""
    relaxation_tokens: Array
    """Tokens of a request until ``after_own_s`` is spent."""
    stable: BoolArray

    def take(self, rows: NDArray[np.int64]) -> Flow:
        """The candidates at positions ``rows``."""
        kept: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        backlog = Wait(*(getattr(kept["backlog"], f.name)[rows] for f in fields(Wait)))
        return Flow(**{**{name: v[rows] for name, v in kept.items() if name != "backlog"}, "backlog": backlog})


ROUNDS = 5
"""Rounds of the fixed point between occupancy, step time and prompts per step: it contracts by the prefill share."""


CARRIED_DOWN = 2.0 / 3.0
"""Part of the reference occupancy, a step of the grid, down to which step times follow their slope; then they stay."""


def flow(load: WorkerLoad) -> Flow:
    """Occupancy fixed point of a worker: concurrency follows from TBT and TBT from concurrency.

    A token waits D(b) / (1 - theta), theta the share of time that prompts add. A request stays
    T(b) = own + after + (O - 1) D(b) / (1 - theta) = a + B b. With service slowing down in proportion to b the number
    present is negative binomial, whatever the law of the outputs (symmetric queue, Kelly 1979, section 3.3; weights
    prod L (a + B j) / j): mean L (a + B z) / (1 - L B), variance mean z / (1 - L B). z = 1 for Poisson arrivals, else
    the peakedness 1 + (F - 1) E[min(S, S')] / E[S] with F the variance over mean of arrivals during T. The time that a
    prompt adds delays all that are there, and theta more prompts come in it, which add theirs: a request counts for all
    that its own brings on, a Borel distributed number C with E[C^2] / E[C] = 1 / (1 - theta)^2, and the variance grows
    by that (Borel 1942, of those served in one busy period).

    Not stable: theta >= 1, prompts above the token budget, L B >= 1 (more requests slow the worker down more than they
    leave), or more requests than KV slots.
    """
    lam, pause = np.asarray(load.rate_rps, dtype=float), load.decodes_pause
    further = max(load.outputs.mean - 1.0, 1.0)
    ref, slope = load.decode_step_s, load.decode_step_slope_s
    base = np.maximum(ref - slope * load.reference_occupancy, 0.0)
    least = CARRIED_DOWN * load.reference_occupancy
    least_s = base + slope * least
    convex = 1.0 + load.quadratic_share * load.prompts.scv
    lanes, most = load.lanes, np.maximum(load.most_prompts, 1.0)
    alone_s = np.maximum(load.prefill_step_s - np.where(pause, 0.0, ref), 0.0)
    start_s = np.minimum(load.prefill_fixed_s, alone_s)
    shared, a_rank = load.shared_part, np.maximum(most / lanes, 1.0)
    in_step = np.maximum(load.prompts_per_step, 1.0)
    in_step = (1.0 - shared) * np.maximum(in_step / lanes, 1.0) + shared * in_step
    work = load.chunks * (alone_s - start_s) / in_step * convex
    in_full = (1.0 - shared) * most / lanes + shared * most
    steps = load.prompts.steps(load.budget)
    second, third = work_moments(load)
    longest = (load.prompts.longest(2.0, load.budget), load.prompts.longest(np.maximum(lanes, 1.0), load.budget))

    shape = np.broadcast(lam, ref, most).shape
    decode = np.broadcast_to(np.asarray(ref, dtype=float), shape)
    batch = np.broadcast_to(np.minimum(lanes, most), shape)  # from the side of a small prefill share
    occupancy = np.broadcast_to(np.asarray(load.reference_occupancy, dtype=float), shape)
    after, delayed, alone = np.zeros(shape), np.zeros(shape), np.ones(shape)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(ROUNDS):
            riding = np.where(pause, 0.0, decode)
            taken = counted(batch, alone, lanes, a_rank, shared, longest)
            added = start_s + work / steps * taken.mean
            busy = np.minimum(lam * steps / batch * (riding + added), 1.0)
            window = lam * ((1.0 - busy) * decode + busy * (riding + added))
            dispersion = fano(load.arrival_cv, window)
            # The geometric mean damps the iteration: more prompts in a step leave less time in which they gather.
            batch = np.sqrt(batch * np.minimum(batch_of(window, dispersion), most))
            alone = _single(window, dispersion)
            taken = counted(batch, alone, lanes, a_rank, shared, longest)
            added = start_s + work / steps * taken.mean
            often = lam * steps / batch
            theta = np.minimum(often * added, 1.0 - 1e-9)
            full = riding + start_s + work / load.chunks * in_full
            used = lam * load.chunks / most * full
            # Paused decodes leave nothing to gain but fuller steps; a queue fills them if they hold several prompts.
            served = np.where(pause, used + np.maximum(theta - used, 0.0) / most, used)
            stream = fano(load.stream_cv, load.sharing * lam * full / np.maximum(1.0 - used, 1e-9))
            own_part = apart(load.sharing, stream, second - 1.0)
            lasting = busy * decode / -np.expm1(-lam * decode) + delayed
            leaving = left_in(decode / (1.0 - theta), full, pause)
            damped = damping(load.sharing, load.balance_rps, lasting, own_part, used, leaving)
            fewer = busy_rate(damped, leaving)
            backlog = queue_wait(lam * fewer, load.arrival_cv, served / lam, second - 1.0, third / np.square(second))
            delayed = np.minimum(backlog.mean / np.maximum(backlog.probability, 1e-12), 1e9)
            part = _interrupted_part(pause, lam * (1.0 - backlog.probability), decode, theta, often, added)
            gap = theta * decode / ((1.0 - theta) * part)
            residence = np.maximum(occupancy / lam, work)
            present = fano(load.arrival_cv, lam * residence)
            after, first, relaxed = _behind(
                pause, backlog, used * fewer, part, gap, decode, further, (present - 1.0) * work * taken.mean / batch
            )
            own = work + (start_s + np.where(pause, 0.0, decode)) * np.maximum(load.chunks, 1.0)
            grow = further * slope / (1.0 - theta)
            fixed = own + after + further * base / (1.0 - theta)
            z = load.present_dispersion(lam * residence)
            occupancy = lam * (fixed + grow * z) / (1.0 - lam * grow)
            occupancy = np.where(occupancy >= 0.0, occupancy, np.inf)
            # Where experts touched grow with the batch the line is steep and its far end too fast: not below ``least``.
            held = lam * (own + after + further * least_s / (1.0 - theta))
            occupancy = np.where(occupancy < least, np.clip(held, occupancy, least), occupancy)
            tpot = (occupancy / lam - own) / further
            most_held = np.maximum(load.slots, load.reference_occupancy)
            decode = base + slope * np.clip(occupancy + z, least, most_held)
        stable = (lam * grow < 1.0) & (theta < 1.0 - 1e-6) & (used < 1.0) & (occupancy <= load.slots)
    found = {
        "occupancy": occupancy,
        "occupancy_variance": occupancy * z / np.maximum((1.0 - lam * grow) * np.square(1.0 - theta), 1e-9),
        "residence_s": occupancy / lam,
        "tpot_s": tpot,
        "decode_s": decode,
        "feedback": lam * grow,
        "prefill_share": theta,
        "batch": batch,
        "counted": taken.mean,
        "counted_several": taken.several,
        "counted_each": taken.each,
        "alone": alone,
        "added_s": added,
        "interrupted": part,
        "interruption_s": gap,
        "after_own_s": after,
        "fixed_s": start_s,
        "prompt_work_s": work,
        "own_prompt_s": own,
        "steps_per_prompt": steps,
        "full_step_s": full,
        "utilisation": used,
        "dispersion": (1.0 + (present - 1.0) * load.outputs.overlap) / np.square(1.0 - theta),
        "first_gaps": first,
        "slots": load.slots,
        "relaxation_tokens": relaxed,
        "damped": damped,
        "apart": own_part,
    }
    rows = {name: np.broadcast_to(np.asarray(value, dtype=float), shape) for name, value in found.items()}
    known = np.broadcast_to(stable & np.isfinite(tpot), shape)
    queue = Wait(*(np.broadcast_to(v, shape) for v in (backlog.mean, backlog.probability, backlog.delayed_scv)))
    return Flow(**rows, backlog=queue, stable=known)


def _single(window: Array, dispersion: Array) -> Array:
    """Part of the windows with arrivals that have exactly one: y e^-y / (1 - e^-y) clusters of one, y = window / m,
    a cluster of mean m geometric: one with probability 1 / m."""
    m = np.maximum(0.5 * (dispersion + 1.0), 1.0)
    y = np.maximum(window / m, 1e-12)
    return np.asarray(y * np.exp(-y) / -np.expm1(-y) / m)


def _interrupted_part(pause: BoolArray, runs: Array, decode: Array, theta: Array, often: Array, added: Array) -> Array:
    """Part of gaps that prompts prolong.

    Mixed: r D / (1 - r A) of the steps, r steps with prompts per second of A seconds more. Prefill first: a run of
    prompts starts with an arrival that finds none, ``runs`` = L (1 - P(W > 0)) per second against (1 - theta) / D
    decode steps.
    """
    mixed = np.minimum(often * decode / np.maximum(1.0 - often * added, 1e-9), 1.0)
    part = np.where(pause, -np.expm1(-runs * decode / (1.0 - theta)), mixed)
    return np.where(added > 0.0, np.clip(part, 1e-12, 1.0), 1e-12)


def _behind(
    pause: BoolArray,
    backlog: Wait,
    used: Array,
    part: Array,
    gap: Array,
    decode: Array,
    further: float,
    burst_s: Array,
) -> tuple[Array, Array, Array]:
    """Time that the prompts behind one's own add to its decode, beyond the average; the part of requests whose first
    gap they prolong (prefill first); and the tokens it takes.

    A departure leaves the queue that an arrival finds: with the probability of waiting, work of W / P(W > 0), which new
    arrivals prolong to R = W / P(W > 0) / (1 - rho). Mixed: gaps of D + A instead of the average D + f A until then,
    n = R / (D + A) (1 - f) tokens, A (P - f) n (1 - exp(-O / n)) in all; at least half of the prompts that a burst has
    beyond the average (``burst_s`` seconds of work). Prefill first: all of it in the first gap.
    """
    chance = np.maximum(backlog.probability, 1e-12)
    rest = backlog.mean / chance / np.maximum(1.0 - used, 1e-9)
    tokens = np.where(pause, 1.0, np.maximum(rest / (decode + gap) * (1.0 - part), 1e-9))
    mixed = gap * np.maximum(chance - part, 0.0) * tokens * -np.expm1(-further / tokens)
    paused = np.maximum(chance * rest - part * gap, 0.0)
    after = np.maximum(np.where(pause, paused, mixed), 0.5 * np.maximum(burst_s, 0.0))
    return after, np.where(pause, chance, after / np.maximum(gap, 1e-300)), tokens


def work_moments(load: WorkerLoad) -> tuple[Array, Array]:
    """Second and third moment of a prompt's work over its mean; work is a x + b x^2 (:func:`work_shares`)."""
    a, b = work_shares(load)
    m = [load.prompts.moment(k) for k in range(7)]
    second = a * a * m[2] + 2.0 * a * b * m[3] + b * b * m[4]
    third = a**3 * m[3] + 3.0 * a * a * b * m[4] + 3.0 * a * b * b * m[5] + b**3 * m[6]
    return second, third


def work_shares(load: WorkerLoad) -> tuple[Array, Array]:
    """Factors of x and x^2 in a prompt's work over its mean work."""
    sigma = np.asarray(load.quadratic_share, dtype=float)
    whole = 1.0 + sigma * load.prompts.scv
    return (1.0 - sigma) / whole, sigma / whole

"""Step times of one layout looked up instead of computed: a replay asks for millions of them, one at a time.

The table holds :func:`planner.roofline.step.step_times` on a grid and interpolates linearly in the logarithms; it
stays within 1 % of the formula (tests). A step with prompt tokens is put together from attention of its decodes,
attention of its prompts and everything else, because attention alone depends on how long the contexts are.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from planner.layout.layouts import Layouts
from planner.roofline.step import COMPUTE_TERMS, StepContext, StepTimes, StepWork, launch_excess, step_times
from planner.roofline.verify import reads_each_query, verify_times

Array = NDArray[np.float64]

RATIO = 1.1
"""Largest step between two grid points of decodes, prompt tokens and context."""
PAST_OFFSET = 256.0
"""Added to cached tokens before the logarithm is taken, so that none is a grid point like others."""

SHORTEST_S, LONGEST_S = 1e-5, 1e3
"""Range of a step's time on the accelerator over which launch times are tabulated."""


@dataclass(frozen=True)
class Prompts:
    """Prompt tokens of a step on the busiest attention-DP rank, and over all ranks of the worker."""

    tokens: float
    sequences: int
    past: float
    """Cached tokens per sequence that give the same attention work as the chunks' own (see :func:`equal_past`)."""
    group_tokens: float


def equal_past(chunks: list[tuple[int, int]]) -> tuple[float, int, float]:
    """(tokens, sequences, past) of chunks (new tokens, tokens before them) on one rank.

    A chunk of c tokens after h reads c (h + c / 2) pairs; s equal chunks of T / s tokens each after ``past`` read
    T (past + T / (2 s)). Equal pairs give ``past`` = sum c (h + c / 2) / T - T / (2 s), which is never negative.
    """
    total = sum(c for c, _ in chunks)
    pairs = sum(c * (h + 0.5 * c) for c, h in chunks)
    return float(total), len(chunks), max(pairs / total - 0.5 * total / len(chunks), 0.0)


class StepTable:
    """Seconds of a step of one worker (one layout, one setting of overlap and dispatch)."""

    def __init__(
        self,
        ctx: StepContext,
        layout: Layouts,
        *,
        two_batch: bool = False,
        deepep: bool = False,
        most_sequences: int,
        most_tokens: int,
        longest_context: int,
        drafts: int = 0,
    ) -> None:
        """``most_sequences`` and ``most_tokens`` (prompt tokens of a step) of one rank; ``longest_context`` tokens.

        ``drafts`` tokens of each sequence are checked in a step beside its own (:mod:`planner.roofline.verify`).
        """
        self._ctx, self._layout = ctx, layout
        self._two_batch, self._deepep = two_batch, deepep
        self._ranks = int(layout.attention_dp[0])
        self._seq_s = ctx.coefficients.host_seq_s
        self._launch_s = self._launch_seconds(most_tokens)
        self._queries = 1 + drafts
        n = _whole_grid(max(most_sequences, 2))
        kv = _grid(16.0, max(longest_context, 32))
        tokens = _whole_grid(max(most_tokens, 2), start=1)
        share = np.unique(np.concatenate([_grid(1.0, self._ranks), [float(self._ranks)]]))
        self._decode = _Surface(np.log(n), np.log(kv), self._decode_grid(n, kv))
        self._decode_core = _Surface(np.log(n), np.log(kv), self._decode_core_grid(n, kv))
        beside = np.concatenate([[0.0], n if not drafts else _whole_grid(max(most_sequences, 2) * self._queries)])
        parts = self._fixed_grid(beside, tokens, share)
        axes = (np.log(beside + 1.0), np.log(tokens), np.log(share))
        self._compute, self._moving, self._sends, self._host = (_Volume(*axes, part) for part in parts)
        busy = _grid(SHORTEST_S, LONGEST_S)
        self._busy = np.log(busy).tolist()
        self._launches: list[float] = launch_excess(busy, self._launch_s).tolist()
        seqs = np.unique(np.concatenate([[1.0], _grid(1.0, max(most_sequences, 2), 1.5)]))
        past = _grid(PAST_OFFSET, longest_context + PAST_OFFSET) - PAST_OFFSET
        self._prompt_core = _Volume(
            np.log(seqs), np.log(tokens), np.log(past + PAST_OFFSET), self._prompt_core_grid(seqs, tokens, past)
        )

    def decode(self, sequences: int, kv_tokens: float) -> float:
        """A step in which ``sequences`` on the busiest rank, with ``kv_tokens`` each, make a token."""
        return self._decode.at(sequences, log(max(kv_tokens, 16.0)))

    def mixed(self, sequences: int, kv_tokens: float, prompts: Prompts) -> float:
        """A step with prompt tokens beside ``sequences`` decodes on the busiest rank (0: prompts alone)."""
        beside, tokens = sequences * self._queries, log(prompts.tokens)
        share = log(max(prompts.group_tokens / prompts.tokens, 1.0))
        core = self._prompt_core.at(prompts.sequences, tokens, log(prompts.past + PAST_OFFSET))
        if sequences:
            core += self._decode_core.at(sequences, log(max(kv_tokens, 16.0)))
        compute = self._compute.at(beside, tokens, share) + core
        moving = self._moving.at(beside, tokens, share)
        busy = max(compute, moving) if self._two_batch else compute + moving
        busy += self._sends.at(beside, tokens, share)
        host = self._host.at(beside, tokens, share) + self._seq_s * (prompts.sequences - 1)
        return busy + host + _inside(self._busy, self._launches, log(busy))

    def formula(self, sequences: float, kv_tokens: float, prompts: Prompts | None = None) -> float:
        """The same step from the formula itself: what the table is checked against."""
        one = np.ones(1)
        if prompts is None:
            return float(self._times(StepWork(one * sequences, one * kv_tokens)).total[0])
        work = StepWork(
            one * sequences,
            one * kv_tokens,
            one * prompts.tokens,
            one * prompts.sequences,
            one * prompts.past,
            one * prompts.group_tokens,
        )
        return float(self._times(work).total[0])

    def _times(self, work: StepWork) -> StepTimes:
        rows = work.decode_seqs.size
        flags = np.ones(rows, dtype=bool)
        repeated = self._layout.take(np.zeros(rows, dtype=np.int64))
        return step_times(self._ctx, repeated, work, flags & self._two_batch, flags & self._deepep)

    def _launch_seconds(self, most_tokens: int) -> float:
        """Time to launch all kernels of a step with prompts, found from what a short and a long step wait for it.

        Both have the same host time otherwise, so the difference of their host times is that of
        :func:`planner.roofline.step.launch_excess`; its root is bisected.
        """
        tokens = np.array([1.0, float(most_tokens)])
        times = self._times(_with_prompts(0.0 * tokens, 16.0 + 0.0 * tokens, tokens))
        host = times.exposed["host"]
        busy = times.total - host
        low, high = 0.0, float(host[0] + busy[0])
        for _ in range(60):
            middle = 0.5 * (low + high)
            waits = launch_excess(busy, middle)
            low, high = (middle, high) if waits[0] - waits[1] < host[0] - host[1] else (low, middle)
        return low

    def _decode_grid(self, n: Array, kv: Array) -> Array:
        a, b = (v.ravel() for v in np.meshgrid(n, kv, indexing="ij"))
        rows = self._layout.take(np.zeros(a.size, dtype=np.int64))
        flags = np.ones(a.size, dtype=bool)
        how = (flags & self._two_batch, flags & self._deepep)
        times = verify_times(self._ctx, rows, StepWork(a, b), self._queries - 1, *how)
        return times.total.reshape(n.size, kv.size)

    def _decode_core_grid(self, n: Array, kv: Array) -> Array:
        """Attention of decodes in a step that also has a prompt token, less the attention of that token."""
        a, b = (v.ravel() for v in np.meshgrid(n, kv, indexing="ij"))
        seen = (0.0 * a, a, a * self._queries)
        alone, once, each = (self._times(_with_prompts(s, b)).exposed["attention_core"] for s in seen)
        return np.asarray(self._attention(once, each) - alone).reshape(n.size, kv.size)

    def _attention(self, once: Array, each: Array) -> Array:
        """Attention of all queries: as one where the cache is read once, as ``each`` in turn for MLA."""
        return each if reads_each_query(self._ctx) else once

    def _fixed_grid(self, n: Array, tokens: Array, share: Array) -> tuple[Array, ...]:
        """Everything but attention: compute, communication that may hide, sends, host time without what it waits for
        launches (that depends on all the others together); each (n, tokens, share)."""
        a, p, g = (v.ravel() for v in np.meshgrid(n, tokens, share, indexing="ij"))
        times = self._times(_with_prompts(a, 16.0 + 0.0 * a, p, group=p * g))
        compute = sum(times.exposed[t] for t in COMPUTE_TERMS if t != "attention_core")
        moving = [times.exposed[t] + times.hidden.get(t, 0.0) for t in ("collectives", "dispatch", "combine")]
        sends, host = times.exposed["pp_send"], times.exposed["host"]
        host = host - launch_excess(times.total - host, self._launch_s)
        return tuple(np.reshape(v, (n.size, tokens.size, share.size)) for v in (compute, sum(moving), sends, host))

    def _prompt_core_grid(self, seqs: Array, tokens: Array, past: Array) -> Array:
        s, p, h = (v.ravel() for v in np.meshgrid(seqs, tokens, past, indexing="ij"))
        work = _with_prompts(0.0 * s, 16.0 + 0.0 * s, np.maximum(p, s), seqs=s, past=h)
        return self._times(work).exposed["attention_core"].reshape(seqs.size, tokens.size, past.size)


def _with_prompts(
    decodes: Array,
    kv: Array,
    tokens: Array | None = None,
    seqs: Array | None = None,
    past: Array | None = None,
    group: Array | None = None,
) -> StepWork:
    one = np.ones_like(decodes)
    p = one if tokens is None else tokens
    return StepWork(
        decodes,
        kv,
        p,
        one if seqs is None else seqs,
        0.0 * one if past is None else past,
        p if group is None else group,
    )


def _grid(low: float, high: float, ratio: float = RATIO) -> Array:
    """Points from ``low`` to ``high`` in equal steps of the logarithm, none larger than ``ratio``."""
    if high <= low:
        return np.array([low])
    return np.geomspace(low, high, int(np.ceil(np.log(high / low) / np.log(ratio))) + 1)


def _whole_grid(high: int, start: int = 1) -> Array:
    """Whole numbers from ``start`` to ``high``: each up to 8, then steps of RATIO."""
    return np.unique(np.rint(np.concatenate([np.arange(start, min(8, high) + 1), _grid(float(start), float(high))])))


class _Surface:
    """f(whole number, logarithm): rows of the whole number are interpolated once and kept."""

    def __init__(self, first: Array, second: Array, values: Array) -> None:
        self._first, self._second = first, second.tolist()
        self._logs = np.log(np.maximum(values, 1e-30))
        self._rows: dict[int, list[float]] = {}

    def at(self, n: int, y: float) -> float:
        row = self._rows.get(n)
        if row is None:
            row = self._rows[n] = _between(self._first, self._logs, log(n)).tolist()
        return exp(_inside(self._second, row, y))


class _Volume:
    """f(whole number, logarithm, logarithm), like :class:`_Surface`; the whole number's axis may start at 0."""

    def __init__(self, first: Array, second: Array, third: Array, values: Array) -> None:
        self._first, self._second, self._third = first, second.tolist(), third.tolist()
        self._shift = 1.0 if first[0] == 0.0 and len(first) > 1 and abs(first[1] - log(2.0)) < 1e-9 else 0.0
        self._zero = not np.any(values)
        self._logs = np.log(np.maximum(values, 1e-30))
        self._rows: dict[int, list[list[float]]] = {}

    def at(self, n: int, y: float, z: float) -> float:
        if self._zero:
            return 0.0
        row = self._rows.get(n)
        if row is None:
            row = self._rows[n] = _between(self._first, self._logs, log(n + self._shift)).tolist()
        second = self._second
        i = min(max(bisect_right(second, y) - 1, 0), len(second) - 2)
        w = (y - second[i]) / (second[i + 1] - second[i])
        third = self._third
        if len(third) == 1:
            return exp(row[i][0] + w * (row[i + 1][0] - row[i][0]))
        low, high = _inside(third, row[i], z), _inside(third, row[i + 1], z)
        return exp(low + w * (high - low))


def _between(axis: Array, values: Array, x: float) -> Array:
    """``values`` along its first axis at ``x``; beyond the ends the last slope goes on."""
    i = min(max(int(np.searchsorted(axis, x, side="right")) - 1, 0), axis.size - 2)
    w = (x - axis[i]) / (axis[i + 1] - axis[i])
    return np.asarray(values[i] + w * (values[i + 1] - values[i]))


def _inside(axis: list[float], row: list[float], x: float) -> float:
    i = bisect_right(axis, x) - 1
    if i < 0:
        i = 0
    elif i > len(axis) - 2:
        i = len(axis) - 2
    return row[i] + (row[i + 1] - row[i]) * (x - axis[i]) / (axis[i + 1] - axis[i])

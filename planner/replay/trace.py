"""A request trace in one form, whatever file it came from: arrays, seconds, tokens, prefix blocks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError
from planner.scenario.base import MAX_RATE_RPS, MIN_RATE_RPS
from planner.units import MILLISECOND
from planner.writing import whole_file

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trace:
    """``n`` requests in order of arrival.

    Prefix blocks are ragged: request i's ids are ``block_ids[block_starts[i]:block_starts[i + 1]]``, one per
    ``block_tokens`` prompt tokens, the last one possibly partial; equal leading ids mean an equal prefix. A trace that
    says nothing of prefixes has ``block_tokens`` 0 and no ids.
    """

    name: str
    arrival_s: FloatArray
    """Seconds after the first arrival, (n,), ascending."""
    input_tokens: IntArray
    """(n,), at least 1."""
    output_tokens: IntArray
    """Tokens generated, or the cut-off where a trace states one, (n,), at least 1."""
    priority: IntArray
    """(n,); a lower number is served first."""
    block_ids: IntArray
    block_starts: IntArray
    """(n + 1,)."""
    block_tokens: int = 0
    dropped: int = 0
    """Rows of the file that are no served request (failed ones, empty prompts)."""

    @classmethod
    def of(
        cls,
        name: str,
        arrival_s: ArrayLike,
        input_tokens: ArrayLike,
        output_tokens: ArrayLike,
        *,
        priority: ArrayLike | None = None,
        blocks: tuple[IntArray, IntArray] | None = None,
        block_tokens: int = 0,
        dropped: int = 0,
    ) -> Trace:
        """A trace from columns in any order of arrival; ``blocks`` is (ids, starts) in the given order."""
        at = np.asarray(arrival_s, dtype=np.float64)
        if not at.size:
            raise InputError("trace", name, "at least one request")
        order = np.argsort(at, kind="stable")
        columns = [np.asarray(c, dtype=np.int64)[order] for c in (input_tokens, output_tokens)]
        for what, column in zip(("input_tokens", "output_tokens"), columns, strict=True):
            if int(column.min()) < 1:
                raise InputError(f"trace.{what}", int(column.min()), "at least 1 token in every request")
        rank = np.zeros(at.size, dtype=np.int64) if priority is None else np.asarray(priority, dtype=np.int64)[order]
        ids, starts = _reordered(blocks, order) if blocks is not None else _no_blocks(at.size)
        if ids.size and block_tokens < 1:
            raise InputError("trace.block_tokens", block_tokens, "the tokens of one prefix block, at least 1")
        inputs, outputs = columns
        size = block_tokens if ids.size else 0
        return cls(name, at[order] - at.min(), inputs, outputs, rank, ids, starts, size, dropped)

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    @property
    def rate_rps(self) -> float:
        """Mean arrival rate: gaps over time span; infinite where all arrive at once."""
        span = float(self.arrival_s[-1])
        return (len(self) - 1) / span if span > 0 else float("inf")

    @property
    def gap_cv(self) -> float:
        """Coefficient of variation of the gaps between arrivals; 0 below three requests."""
        gaps = np.diff(self.arrival_s)
        return float(gaps.std() / gaps.mean()) if gaps.size > 1 and gaps.mean() > 0 else 0.0

    def blocks_of(self, i: int) -> IntArray:
        """Prefix block ids of request ``i``."""
        return self.block_ids[self.block_starts[i] : self.block_starts[i + 1]]

    def head(self, n: int) -> Trace:
        """The first ``n`` requests."""
        if n < 1:
            raise InputError("requests", n, "at least 1")
        return self.where(np.arange(len(self)) < n)

    def where(self, keep: NDArray[np.bool_]) -> Trace:
        """The requests of a mask (n,), at their times."""
        if keep.all():
            return self
        rows = np.flatnonzero(keep)
        if not rows.size:
            raise InputError("trace", self.name, "at least one request")
        columns = {c: getattr(self, c)[rows] for c in ("arrival_s", "input_tokens", "output_tokens", "priority")}
        ids, starts = _reordered((self.block_ids, self.block_starts), rows)
        return replace(self, **columns, block_ids=ids, block_starts=starts)

    def repeated(self, times: int) -> Trace:
        """The trace ``times`` over, one after the other; copies share no prefix blocks with each other."""
        n, ids = len(self), int(self.block_ids.max(initial=-1)) + 1
        period = float(self.arrival_s[-1]) * n / max(n - 1, 1)
        copy = np.repeat(np.arange(times), n)
        blocks = np.concatenate([self.block_ids + ids * k for k in range(times)])
        ends = [self.block_starts[1:] + self.block_ids.size * k for k in range(times)]
        return replace(
            self,
            arrival_s=np.tile(self.arrival_s, times) + period * copy,
            input_tokens=np.tile(self.input_tokens, times),
            output_tokens=np.tile(self.output_tokens, times),
            priority=np.tile(self.priority, times),
            block_ids=blocks,
            block_starts=np.concatenate([[0], *ends]).astype(np.int64),
        )

    def at_rate(self, rate_rps: float) -> Trace:
        """The same requests with their gaps stretched so that the mean rate is ``rate_rps``."""
        if not MIN_RATE_RPS <= rate_rps <= MAX_RATE_RPS:
            raise InputError("rate", rate_rps, f"{MIN_RATE_RPS:g} to {MAX_RATE_RPS:,.0f} requests/s")
        if len(self) == 1:
            return self
        if not np.isfinite(self.rate_rps):
            raise InputError("rate", rate_rps, f"only for requests that arrive at different times, not for {self.name}")
        return replace(self, arrival_s=self.arrival_s * (self.rate_rps / rate_rps))

    def infinite_cache_hit_rate(self) -> float:
        """Share of prompt tokens that a cache of unlimited size would hold: whole blocks seen before."""
        return float(self.infinite_cache_tokens().sum()) / float(self.input_tokens.sum())

    def infinite_cache_tokens(self) -> IntArray:
        """Tokens of each prompt that it would hold, (n,)."""
        hit = np.zeros(len(self), dtype=np.int64)
        if not self.block_tokens:
            return hit
        seen: set[int] = set()
        for i, tokens in enumerate(self.input_tokens.tolist()):
            whole = self.blocks_of(i)[: tokens // self.block_tokens].tolist()
            known = next((k for k, b in enumerate(whole) if b not in seen), len(whole))
            hit[i] = known * self.block_tokens
            seen.update(whole)
        return hit

    def write_jsonl(self, path: Path) -> None:
        """One JSON object a request in the keys of the Mooncake traces (milliseconds; 512-token blocks there, stated
        here in ``block_tokens`` where another size is used); ``priority`` only where classes differ.
        """
        ranked = bool(np.any(self.priority != self.priority[0]))
        with whole_file(path) as part, part.open("w", encoding="utf-8") as out:
            for i in range(len(self)):
                row: dict[str, object] = {
                    "timestamp": round(float(self.arrival_s[i]) / MILLISECOND),
                    "input_length": int(self.input_tokens[i]),
                    "output_length": int(self.output_tokens[i]),
                }
                if self.block_tokens:
                    row["hash_ids"] = self.blocks_of(i).tolist()
                    if self.block_tokens != MOONCAKE_BLOCK_TOKENS:
                        row["block_tokens"] = self.block_tokens
                if ranked:
                    row["priority"] = int(self.priority[i])
                out.write(json.dumps(row) + "\n")


MOONCAKE_BLOCK_TOKENS = 512
"""Tokens of one prefix block in the Mooncake traces (kvcache-ai/Mooncake, FAST25-release/traces)."""


def ragged(rows: list[list[int]]) -> tuple[IntArray, IntArray]:
    """(ids, starts) of rows of block ids."""
    sizes = np.fromiter((len(r) for r in rows), dtype=np.int64, count=len(rows))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    flat = np.fromiter((v for r in rows for v in r), dtype=np.int64, count=int(starts[-1]))
    return flat, starts


def _no_blocks(n: int) -> tuple[IntArray, IntArray]:
    return np.empty(0, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)


def _reordered(blocks: tuple[IntArray, IntArray], order: IntArray) -> tuple[IntArray, IntArray]:
    ids, starts = blocks
    if np.array_equal(order, np.arange(order.size)):
        return ids, starts
    return ragged([ids[starts[i] : starts[i + 1]].tolist() for i in order])

"""Paged KV allocation: rounding to blocks, fragmentation, prefix sharing, and how many sequences fit.

Reservation by maximum length (one contiguous slot for prompt and longest output) stands beside paging, because
the two explain the commonest surprise: out of memory at low load. Tokens and bytes; every function broadcasts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError
from planner.memory.budget import MemoryBudget

Array = NDArray[np.float64]


def blocks_of(tokens: ArrayLike, block_tokens: ArrayLike) -> Array:
    """Blocks of a sequence of exactly ``tokens``: ceil(tokens / block)."""
    return np.asarray(np.ceil(np.asarray(tokens, dtype=float) / np.asarray(block_tokens)))


def expected_blocks(mean_tokens: ArrayLike, block_tokens: ArrayLike) -> Array:
    """Mean blocks of a sequence whose length is spread over more than a block: (mean + (block - 1) / 2) / block.

    E[ceil(T / b)] for integer T whose remainder modulo b is uniform; exact for b = 1.
    """
    block = np.asarray(block_tokens, dtype=float)
    return np.asarray((np.asarray(mean_tokens, dtype=float) + (block - 1) / 2) / block)


def fragmentation(mean_tokens: ArrayLike, block_tokens: ArrayLike) -> Array:
    """Share of allocated slots that hold no token: 1 - mean / (block x expected blocks)."""
    mean = np.asarray(mean_tokens, dtype=float)
    return np.asarray(1.0 - mean / (np.asarray(block_tokens) * expected_blocks(mean, block_tokens)))


def resident_tokens(input_mean: ArrayLike, output_mean: ArrayLike, output_second_moment: ArrayLike) -> Array:
    """Mean cached tokens of a running sequence: E[input] + E[output^2] / (2 E[output]).

    A sequence stays in proportion to its output, so a look at a random moment finds long outputs more often, halfway
    through (length-biased sampling, inspection paradox). Equal outputs: input + output / 2.
    """
    mean = np.asarray(output_mean, dtype=float)
    return np.asarray(np.asarray(input_mean, dtype=float) + np.asarray(output_second_moment, dtype=float) / (2 * mean))


def shared_prefix_tokens_saved(prefix_tokens: ArrayLike, sharers: ArrayLike, block_tokens: ArrayLike) -> Array:
    """Tokens a sequence does not store of its own because ``sharers`` sequences hold one copy of a common prefix.

    Whole blocks only: floor(prefix / block) x block x (1 - 1 / sharers).
    """
    block = np.asarray(block_tokens, dtype=float)
    whole = np.floor(np.asarray(prefix_tokens, dtype=float) / block) * block
    return np.asarray(whole * (1.0 - 1.0 / np.asarray(sharers, dtype=float)))


@dataclass(frozen=True)
class SequenceNeed:
    """Cache of one sequence on the tightest rank of each candidate, bytes (n,)."""

    mean: Array
    std: Array


def paged_need(
    budget: MemoryBudget,
    mean_tokens: ArrayLike,
    std_tokens: ArrayLike = 0.0,
    *,
    prefix_tokens: ArrayLike = 0.0,
    sharers: ArrayLike = 1.0,
) -> SequenceNeed:
    """Mean and standard deviation of the pages of a running sequence.

    ``mean_tokens`` and ``std_tokens`` are of the tokens resident at a random moment (:func:`resident_tokens`); with
    std 0 the length is exact and rounds up to whole blocks. Windowed layers hold at most their window, recurrent
    states a page each. A common prefix is stored once per ``sharers``.
    """
    mean_, std_ = np.asarray(mean_tokens, dtype=float), np.asarray(std_tokens, dtype=float)
    if np.any(std_ < 0) or np.any(np.asarray(sharers) < 1):
        raise InputError(
            "std_tokens, sharers", (std_.tolist(), np.asarray(sharers).tolist()), "std at least 0, sharers at least 1"
        )
    mean = np.zeros_like(budget.kv)
    spread = np.zeros_like(budget.kv)
    for g in budget.groups:
        page, block = budget.at(g.page_bytes), budget.at(g.block_tokens)
        if g.kind == "full":
            saved = shared_prefix_tokens_saved(prefix_tokens, sharers, block)
            pages = np.where(std_ > 0, expected_blocks(mean_ - saved, block), blocks_of(mean_ - saved, block))
            spread = spread + g.copies * page * std_ / block
        else:
            pages = g.at(budget.row, budget.stage).pages(mean_)
        mean = mean + g.copies * page * pages
    return SequenceNeed(mean, spread)


def reserved_need(budget: MemoryBudget, max_tokens: ArrayLike) -> SequenceNeed:
    """Cache of a sequence that reserves its maximum length (prompt plus longest output) in every layer, bytes (n,)."""
    per_token = np.zeros_like(budget.kv)
    constant = np.zeros_like(budget.kv)
    for g in budget.groups:
        page = g.copies * budget.at(g.page_bytes)
        if g.kind == "state":
            constant = constant + page
        else:
            per_token = per_token + page / budget.at(g.block_tokens)
    need = per_token * np.asarray(max_tokens, dtype=float) + constant
    return SequenceNeed(need, np.zeros_like(need))


def sequences_that_fit(budget: MemoryBudget, need: SequenceNeed, *, z: float = 0.0) -> Array:
    """Whole sequences the cache holds per attention-DP rank, (n,); 0 where there is no cache.

    ``z`` standard deviations of head-room on the sum of N independent lengths: the largest N with
    N mean + z sqrt(N) std <= cache (z = 0: mean occupancy; 2.33: overflows in one moment of a hundred).
    """
    pool = np.maximum(budget.pool, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = z * need.std
        root = (-spread + np.sqrt(spread**2 + 4.0 * need.mean * pool)) / (2.0 * need.mean)
    # The square undoes a square root: a whole number may come back a rounding error short of itself.
    return np.asarray(np.floor(root**2 * (1 + 1e-12)))

"""Tokens of a step: the largest budget for which the gaps between tokens hold, and its price in TTFT; and static
batching, which has no steps to share, for contrast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.serving.latency import LoadResult, percentiles
from planner.serving.length_shape import LengthShape
from planner.serving.open_loop import WorkerLoad

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BudgetChoice:
    """Token budgets of one worker under one load, ascending, (k,), and the one to take."""

    budgets: Array
    result: LoadResult
    chosen: int | None
    """Position of the largest budget whose gaps hold; None where none does."""

    def price_s(self, level: str = "p99") -> float:
        """Seconds of TTFT at ``level`` that the chosen budget costs over the best one; NaN where none is chosen."""
        if self.chosen is None:
            return float("nan")
        times = self.result.ttft[level]
        return float(times[self.chosen] - np.min(times))


def largest_budget(load: WorkerLoad, budgets: ArrayLike, limit_s: float, level: str = "p99") -> BudgetChoice:
    """The largest token budget whose TBT at ``level`` is within ``limit_s``.

    ``load``: one worker, a row for each of ``budgets`` (tokens of a step per rank): chunks, prompts per step and the
    step with prompts depend on them. A smaller budget makes shorter interruptions and more of them, so TTFT pays.
    """
    tokens = np.asarray(budgets, dtype=float)
    result = percentiles(load)
    holds = np.flatnonzero(result.stable & (result.tbt[level] <= limit_s))
    chosen = int(holds[np.argmax(tokens[holds])]) if holds.size else None
    return BudgetChoice(tokens, result, chosen)


@dataclass(frozen=True)
class StaticBatch:
    """Batches that start and end together, arrays (n,)."""

    throughput_rps: Array
    batch_s: Array
    """From the start of a batch to its last token."""
    ttft_s: Array
    """Mean: half a batch until the next one starts, and its prompts; without a queue of whole batches."""
    idle_share: Array
    """Part of the slot-steps in which a request of the batch is finished already."""


def static_batching(
    batch: ArrayLike, outputs: LengthShape, prefill_s: ArrayLike, decode_step_s: ArrayLike
) -> StaticBatch:
    """``batch`` requests are processed together until the longest is done; no request joins meanwhile. All broadcast.

    batch_s = prefill + E[max of b outputs] x step; a slot is used E[O] of E[max] steps. Yu et al. (Orca, 2022,
    section 2) on why engines batch by step instead.
    """
    b = np.asarray(batch, dtype=float)
    longest = expected_maximum(outputs, b) * outputs.mean
    total = np.asarray(prefill_s, dtype=float) + longest * np.asarray(decode_step_s, dtype=float)
    wait = 0.5 * total + np.asarray(prefill_s, dtype=float)
    return StaticBatch(b / total, total, wait, 1.0 - outputs.mean / longest)


def expected_maximum(shape: LengthShape, count: ArrayLike) -> Array:
    """E[max] of ``count`` independent lengths, in means: sum of x d(F^count)."""
    n = np.atleast_1d(np.asarray(count, dtype=float))
    cumulated = np.minimum(np.cumsum(shape.weights), 1.0)
    powers = cumulated[None, :] ** n[:, None]
    steps = np.diff(powers, axis=1, prepend=0.0)
    return np.asarray((steps @ shape.values).reshape(np.shape(count)))

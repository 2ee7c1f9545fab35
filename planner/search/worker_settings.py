"""Engine settings that a plan writes for its workers, and the memory of workers that run with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.memory.budget import MemoryBudget
from planner.search.evaluation import budget_of, kv_slots, most_sequences
from planner.search.plan_schema import OperatingPoint
from planner.search.setup import Setup
from planner.search.table import Workers
from planner.serving.latency import LoadResult

Array = NDArray[np.float64]

ROOM = 2.0
"""Sequences that settings allow over those of a rare peak (decode) or of a full step of mean prompts (prefill): a
setting must not bind in bursts."""


def decode_sequences(s: Setup, w: Workers, result: LoadResult, share: float = 1.0) -> tuple[Array, MemoryBudget]:
    """Sequences of one attention-DP rank that the settings allow, (n,), and the memory of workers that run with them.

    Twice a rare peak, as far as the cache holds them once their own workspace is taken from it; at least the mean
    occupancy, which was judged to fit.
    """
    ranks, least = w.layouts.attention_dp, np.maximum(np.ceil(w.concurrency / w.layouts.attention_dp), 1.0)
    peak = np.where(np.isfinite(result.peak_occupancy), ROOM * result.peak_occupancy, np.inf)
    plain = budget_of(s, w.hardware, w.layouts, w.concurrency, w.token_budget)
    per_rank = np.maximum(np.ceil(np.minimum(peak, kv_slots(s, w, plain, share)) / ranks), 1.0)
    wide = budget_of(s, w.hardware, w.layouts, w.concurrency, w.token_budget, per_rank)
    held = np.where(wide.fits, np.floor(kv_slots(s, w, wide, share) / ranks), 0.0)
    per_rank = np.where(held < per_rank, np.maximum(held, least), per_rank)
    return per_rank, budget_of(s, w.hardware, w.layouts, w.concurrency, w.token_budget, per_rank)


def prefill_sequences(s: Setup, w: Workers) -> Array:
    """Sequences of one rank of prefill workers that the settings allow, (n,)."""
    full = np.ceil(ROOM * w.token_budget / float(s.traffic.new_tokens))
    return np.clip(full, 1.0, float(most_sequences(s)))


def prefill_held(s: Setup, w: Workers) -> Array:
    """Prompts that the cache of one of the prefill workers must hold, (n,): those of a step filled to its token
    budget.
    """
    full = np.maximum(np.ceil(w.token_budget / float(s.traffic.new_tokens)), 1.0)
    return np.asarray(full * w.layouts.attention_dp.astype(float))


def prefill_budget(s: Setup, w: Workers) -> MemoryBudget:
    """Memory of prefill workers."""
    held, sequences = prefill_held(s, w), prefill_sequences(s, w)
    return budget_of(s, w.hardware, w.layouts, held, w.token_budget, sequences, decodes=False)


def operating_point(s: Setup, w: Workers, per_rank: Array, i: int, *, drafts: bool = True) -> OperatingPoint:
    """Settings of the workers in row ``i`` with ``per_rank`` (n,) sequences; prefill workers make no drafts."""
    budget = int(w.token_budget[i])
    return OperatingPoint(
        max_num_seqs=int(per_rank[i]),
        max_num_batched_tokens=budget,
        prefill_chunk_tokens=int(min(budget, np.ceil(float(s.traffic.new_tokens)))),
        gpu_memory_utilization=s.scenario.engine.options.gpu_memory_utilization,
        max_model_len=s.longest_request,
        two_batch_overlap=bool(w.two_batch[i]),
        draft_tokens=len(s.acceptance) or None if drafts else None,
    )

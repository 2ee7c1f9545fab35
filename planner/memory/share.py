"""The memory share an engine takes when the user names none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.layout.layouts import Layouts
from planner.memory.coefficients import EngineMemory, Reserve
from planner.units import GIB, MIB

Array = NDArray[np.float64]


def default_share(memory: EngineMemory, version: str | None, capacity: float, layouts: Layouts, tokens: Array) -> Array:
    """Default share for each layout, (n,) or scalar; a fixed number or, for SGLang, 1 - reserve / memory.

    ``capacity`` in bytes, ``tokens`` of a prefill chunk.
    """
    fixed = memory.share(version).share
    if fixed is not None:
        return np.asarray(fixed)
    assert memory.default_reserve is not None
    reserve = reserve_bytes(memory.default_reserve, memory.graph_capture.largest, capacity, layouts, tokens)
    return np.round((capacity - reserve) / capacity, 3)


def reserve_bytes(rule: Reserve, graph_sequences: int, capacity: float, layouts: Layouts, tokens: Array) -> Array:
    """SGLang's automatic reserve in bytes, (n,) (server_args.py _handle_gpu_memory_settings).

    constant + 1.5 MiB per prefill token + 2 MiB per graph sequence + 128 MiB per rank + 3 MiB per (graph sequence, DP
    rank) under attention DP; at least 10 GiB on large accelerators.
    """
    mib = rule.constant_mib + rule.per_prefill_token_mib * np.maximum(tokens, rule.min_prefill_tokens)
    mib = mib + rule.per_graph_sequence_mib * graph_sequences + rule.per_rank_mib * layouts.gpus
    split = rule.per_graph_sequence_and_dp_rank_mib * graph_sequences * layouts.attention_dp
    mib = mib + np.where(layouts.attention_dp > 1, split, 0.0)
    if capacity > rule.floor_from_memory_gib * GIB:
        mib = np.maximum(mib, rule.floor_mib)
    return np.asarray(mib * MIB)

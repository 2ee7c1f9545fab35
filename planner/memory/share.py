"""The memory share an engine takes when the user names none."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.memory.coefficients import EngineMemory, Reserve
from planner.units import GIB, MIB

Array = NDArray[np.float64]


def default_share(
    memory: EngineMemory, version: str | None, capacity: float, layouts: Layouts, seqs: Array, tokens: Array
) -> Array:
    """Default share for each layout, (n,) or scalar; a fixed number or, for SGLang, 1 - reserve / memory.

    ``capacity`` in bytes, ``seqs`` sequences and ``tokens`` of a prefill chunk per attention-DP rank.
    """
    fixed = memory.share(version).share
    if fixed is not None:
        return np.asarray(fixed)
    if memory.default_reserve is None:
        raise InputError(f"{memory.id}: default_reserve", None, "a reserve where the default share is not a number")
    graphs = np.minimum(memory.graph_capture.largest, seqs)
    reserve = reserve_bytes(memory.default_reserve, capacity, gpus=layouts.gpus, graph_sequences=graphs, tokens=tokens)
    return np.asarray(np.round((capacity - reserve) / capacity, 3))


def reserve_bytes(
    rule: Reserve, capacity: float, *, gpus: ArrayLike, graph_sequences: ArrayLike, tokens: ArrayLike
) -> Array:
    """SGLang's automatic reserve in bytes, (n,) (server_args.py _handle_gpu_memory_settings).

    constant + 1.5 MiB per prefill token + 2 MiB per graph sequence + 128 MiB per rank; at least 10 GiB on large
    accelerators. The engine's further 3 MiB per (graph sequence, DP rank) is left out, see the engine's file.
    """
    mib = rule.constant_mib + rule.per_prefill_token_mib * np.maximum(tokens, rule.min_prefill_tokens)
    mib = mib + rule.per_graph_sequence_mib * np.asarray(graph_sequences) + rule.per_rank_mib * np.asarray(gpus)
    if capacity > rule.floor_from_memory_gib * GIB:
        mib = np.maximum(mib, rule.floor_mib)
    return np.asarray(mib * MIB)

"""How the layers of a model fall on pipeline stages."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError

Remainder = Literal["before_last", "first"]


@lru_cache(maxsize=4096)
def layers_per_stage(layers: int, pp: int, remainder: Remainder) -> tuple[int, ...]:
    """Decoder layers of each of ``pp`` stages; the ``layers % pp`` left over go one each to some stages.

    before_last: from the stage before the last backwards, because the last one also holds the head
    (vllm/distributed/utils.py get_pp_indices, SGLang alike); first: to the first stages (TensorRT-LLM
    Mapping.pp_layers). Raises InputError where there are more stages than layers.
    """
    if pp > layers:
        raise InputError("layout.pp", pp, f"at most the {layers} layers of the model")
    counts = [layers // pp] * pp
    left = layers % pp
    for i in range(left):
        counts[i if remainder == "first" else pp - 2 - i] += 1
    return tuple(counts)


@lru_cache(maxsize=4096)
def group_layers_per_stage(
    order: tuple[int, ...], groups: int, pp: int, remainder: Remainder, given: tuple[int, ...] | None = None
) -> NDArray[np.int64]:
    """Layers of each layer group on each stage, (pp, groups); ``order`` is the group of every layer in depth.

    ``given`` are the layers of every stage where they were chosen by hand (vLLM's VLLM_PP_LAYER_PARTITION,
    TensorRT-LLM's pp_partition). Raises InputError where they do not make the model.
    """
    if given is not None and (len(given) != pp or sum(given) != len(order) or min(given) < 1):
        raise InputError("stage_layers", list(given), f"{pp} whole numbers from 1 that add up to {len(order)} layers")
    table = np.zeros((pp, groups), dtype=np.int64)
    start = 0
    for stage, count in enumerate(given or layers_per_stage(len(order), pp, remainder)):
        table[stage] = np.bincount(order[start : start + count], minlength=groups)
        start += count
    table.setflags(write=False)
    return table

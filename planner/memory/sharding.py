"""The share of a weight tensor that one rank holds: rows and columns after splitting, largest rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.model.tensors import Tensor

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Shards:
    """Split factors of one set of layouts, int64 arrays (u,)."""

    tp: IntArray
    """Ranks that split attention, shared experts, head and the router's neighbours."""
    dense: IntArray
    """Ranks that split dense MLPs and embedding (1 where an engine keeps them whole under attention DP)."""
    vision: IntArray
    moe_tp: IntArray
    ep: IntArray
    redundant_experts: IntArray
    vocab_padding_rows: int


@dataclass(frozen=True)
class RankTensor:
    """Rows, columns and copies of a tensor on its fullest rank, arrays (u,)."""

    rows: IntArray
    cols: IntArray
    copies: IntArray


def ceil_div(a: IntArray | int, b: IntArray | int) -> IntArray:
    """Whole number division rounded up."""
    return -(-np.asarray(a) // np.asarray(b))


def padded(rows: int, multiple: int) -> int:
    """Rows of a vocabulary table as an engine lays it out: a multiple of its padding."""
    return -(-rows // multiple) * multiple


def rank_tensor(tensor: Tensor, shards: Shards) -> RankTensor:
    """What the fullest rank holds of one copy (one layer) of ``tensor``.

    column / row split rows / columns over the ranks in whole units (heads); kv_column stops splitting at
    its KV heads and replicates; vocab rows are first padded as the engine does; experts_* place
    ceil((experts + redundant) / ep) whole experts on a rank and split each over moe_tp.
    """
    one = np.ones_like(shards.tp)
    rows, cols, copies = tensor.rows * one, tensor.cols * one, tensor.copies * one
    if tensor.part == "vision":
        return RankTensor(ceil_div(rows, shards.vision), cols, copies)
    wide = shards.dense if tensor.tensor_class in ("dense_mlp", "embedding") else shards.tp
    if tensor.shard == "column":
        rows = _units(tensor.rows, tensor.granularity, wide)
    elif tensor.shard == "kv_column":
        rows = ceil_div(tensor.granularity, wide) * (tensor.rows // tensor.granularity)
    elif tensor.shard == "row":
        cols = _units(tensor.cols, tensor.granularity, wide)
    elif tensor.shard == "vocab":
        rows = ceil_div(padded(tensor.rows, shards.vocab_padding_rows), wide) * one
    elif tensor.shard in ("experts_column", "experts_row"):
        copies = ceil_div(tensor.copies + shards.redundant_experts, shards.ep)
        if tensor.shard == "experts_column":
            rows = ceil_div(rows, shards.moe_tp)
        else:
            cols = ceil_div(cols, shards.moe_tp)
    return RankTensor(rows, cols, copies)


def _units(size: int, granularity: int, ranks: IntArray) -> IntArray:
    """``size`` split over ``ranks`` without cutting a unit; a unit is a single row where granularity is 1."""
    if granularity <= 1:
        return ceil_div(size, ranks)
    return ceil_div(granularity, ranks) * (size // granularity)

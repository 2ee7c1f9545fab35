"""Weights of the ranks of a worker, from the tensor list: TP, EP with redundant experts, PP stages, vocabulary,
scales.

Ranks of one stage differ only in rounding, so the fullest one stands for the stage; stages differ, so three are
kept: the first (embedding), the heaviest in the middle, and the last (head, MTP block).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.arrays import distinct_rows
from planner.catalog.model_spec import GqaAttention, LinearAttention, MlaAttention, ModelSpec
from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.memory.coefficients import EngineMemory
from planner.memory.sharding import RankTensor, Shards, ceil_div, rank_tensor
from planner.memory.stages import group_layers_per_stage
from planner.model.builder import tensors
from planner.model.precision import FORMATS, PrecisionPlan, matrix_bytes
from planner.model.tensors import Tensor

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

ROLES = ("first", "middle", "last")
"""Columns of the stage tables. A single stage is ``first``; ``middle`` and ``last`` then do not exist."""


@dataclass(frozen=True)
class StageTable:
    """Per distinct layout and stage role, arrays (u, 3); ``of`` maps every given layout to its row, (n,)."""

    of: IntArray
    exists: NDArray[np.bool_]
    weights: Array
    """Bytes of the fullest rank; 0 where the role does not exist."""
    group_layers: IntArray
    """Layers of each layer group on the stage, (u, 3, groups)."""
    by_class: dict[str, Array]
    """Bytes by tensor class, (u, 3); sums to ``weights`` where the role exists (``rope_cache`` included)."""
    shards: Shards
    attention_dp: IntArray

    @property
    def layers(self) -> IntArray:
        """Layers of each stage, (u, 3)."""
        return np.asarray(self.group_layers.sum(axis=2))

    def mtp_layers(self, blocks: int) -> IntArray:
        """``blocks`` prediction blocks on the stage that holds the head, (u, 3)."""
        layers = np.zeros(self.exists.shape, dtype=np.int64)
        layers[np.arange(self.attention_dp.size), np.where(self.exists[:, 2], 2, 0)] = blocks
        return layers


def stage_table(
    spec: ModelSpec,
    precision: PrecisionPlan,
    layouts: Layouts,
    memory: EngineMemory,
    *,
    mtp: bool = False,
    stage_layers: tuple[int, ...] | None = None,
) -> StageTable:
    """Weights of ``layouts`` (n,) by stage role, worst rank of each stage.

    ``mtp`` keeps the multi-token-prediction blocks resident on the last stage (embedding and head are shared with the
    model, as engines do). ``stage_layers`` are the layers of every stage where they were chosen by hand. Raises
    InputError where a layout has more stages than layers or other stages than those, or ``mtp`` without such blocks.
    """
    if mtp and spec.mtp is None:
        raise InputError("engine.options.mtp", True, f"{spec.id} has no multi-token-prediction block")
    columns = (layouts.tp, layouts.pp, layouts.attention_dp, layouts.moe_tp, layouts.ep, layouts.redundant_experts)
    first, of = distinct_rows(columns)
    tp, pp, dp, moe_tp, ep, redundant = (column[first] for column in columns)
    shards = Shards(
        tp=tp,
        dense=np.where((dp > 1) & memory.whole_dense, 1, tp),
        vision=tp if memory.vision_split == "tp" else np.ones_like(tp),
        moe_tp=moe_tp,
        ep=ep,
        redundant_experts=redundant,
        vocab_padding_rows=memory.vocab_padding_rows,
    )
    return _assemble(spec, precision, memory, shards, pp, dp, of, mtp, stage_layers)


def rank_bytes(tensor: Tensor, precision: PrecisionPlan, shards: Shards, memory: EngineMemory) -> Array:
    """Bytes of one layer's ``tensor`` (all its copies) on the fullest rank, scales included, (u,)."""
    held = rank_tensor(tensor, shards)
    name = getattr(precision, tensor.tensor_class)
    if name == "mxfp4" and tensor.tensor_class == "routed_experts" and memory.mxfp4_padding is not None:
        held = _padded(tensor, held, memory)
    return np.asarray(matrix_bytes(FORMATS[name], held.rows, held.cols) * held.copies)


def _padded(tensor: Tensor, held: RankTensor, memory: EngineMemory) -> RankTensor:
    """Expert width and hidden size rounded up to what the MXFP4 kernels read."""
    assert memory.mxfp4_padding is not None
    width, hidden = memory.mxfp4_padding.expert_width, memory.mxfp4_padding.hidden
    by_rows, by_cols = (width, hidden) if tensor.shard == "experts_column" else (hidden, width)
    return RankTensor(ceil_div(held.rows, by_rows) * by_rows, ceil_div(held.cols, by_cols) * by_cols, held.copies)


def rope_cache_bytes(spec: ModelSpec, memory: EngineMemory) -> float:
    """cos/sin tables a rank keeps: positions x rotary dimension x bytes, one for each distinct kind of attention.

    Engines allocate them with the model, so a measured weight size contains them.
    """
    rule = memory.rope_cache
    if rule is None:
        return 0.0
    stretch = rule.position_factor_by_family.get(spec.family, 1.0)
    tables: set[tuple[float, int]] = set()
    for attention in spec.attentions.values():
        if isinstance(attention, LinearAttention):
            continue
        if isinstance(attention, MlaAttention):
            tables.add((float(spec.max_context_tokens), attention.qk_rope_head_dim))
        elif isinstance(attention, GqaAttention):
            local = attention.window_tokens is not None and stretch != 1.0
            tables.add((spec.max_context_tokens * (1.0 if local else stretch), attention.head_dim))
    return sum(positions * dim * rule.bytes_per_value for positions, dim in tables)


def _assemble(
    spec: ModelSpec,
    precision: PrecisionPlan,
    memory: EngineMemory,
    shards: Shards,
    pp: IntArray,
    dp: IntArray,
    of: IntArray,
    mtp: bool,
    stage_layers: tuple[int, ...] | None,
) -> StageTable:
    count, groups = pp.size, len(spec.layers)
    classes = sorted({t.tensor_class for t in tensors(spec)}) + ["rope_cache"]
    per_layer = {c: np.zeros((count, groups)) for c in classes}
    ends = {c: np.zeros((count, len(ROLES))) for c in classes}
    last = np.where(pp > 1, 2, 0)
    rows = np.arange(count)
    for tensor in tensors(spec):
        if tensor.part == "mtp_duplicate" or (tensor.part == "mtp" and not mtp):
            continue
        size = rank_bytes(tensor, precision, shards, memory)
        if tensor.group >= 0:
            per_layer[tensor.tensor_class][:, tensor.group] += size
            continue
        size = size * tensor.layers
        on_first = tensor.part == "vision" or tensor.tensor_class == "embedding"
        if on_first:
            ends[tensor.tensor_class][:, 0] += size
        if not on_first or (tensor.gemm == "head" and tensor.tensor_class == "embedding"):
            # A tied table serves both ends: with several stages the last one holds a copy of its own.
            again = np.where(pp > 1, size, 0.0) if on_first else size
            ends[tensor.tensor_class][rows, last] += again
    ends["rope_cache"][:] = rope_cache_bytes(spec, memory)

    layer_total = np.sum([per_layer[c] for c in classes], axis=0)
    group_layers = _stage_roles(spec, memory, pp, layer_total, stage_layers)
    exists = np.stack([np.ones(count, dtype=bool), pp > 2, pp > 1], axis=1)
    by_class = {c: np.einsum("urg,ug->ur", group_layers, per_layer[c]) + ends[c] for c in classes}
    weights = np.where(exists, np.sum(list(by_class.values()), axis=0), 0.0)
    return StageTable(of, exists, weights, group_layers, by_class, shards, dp)


def _stage_roles(
    spec: ModelSpec, memory: EngineMemory, pp: IntArray, layer_bytes: Array, stage_layers: tuple[int, ...] | None
) -> IntArray:
    """Layers by group on the first, the heaviest middle and the last stage, (u, 3, groups)."""
    groups = len(spec.layers)
    roles = np.zeros((pp.size, len(ROLES), groups), dtype=np.int64)
    for stages in np.unique(pp):
        mine = np.flatnonzero(pp == stages)
        table = group_layers_per_stage(spec.layer_order, groups, int(stages), memory.pipeline_remainder, stage_layers)
        roles[mine, 0] = table[0]
        if stages > 1:
            roles[mine, 2] = table[-1]
        if stages > 2:
            middle = table[1:-1]
            roles[mine, 1] = middle[np.argmax(layer_bytes[mine] @ middle.T, axis=1)]
    return roles

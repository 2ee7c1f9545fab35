"""A model as a short list of operators with layer counts: what one forward step executes.

Derived from the tensor list alone, so GEMM shapes, parameter counts and weight bytes cannot disagree. Equal operators
of different layer groups are merged (DeepSeek-V3's dense and MoE layers share their attention), which keeps a step at
a dozen evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import (
    DenseFeedForward,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    MoeFeedForward,
)
from planner.model.builder import tensors
from planner.model.tensors import Tensor, TensorClass

Array = NDArray[np.float64]

TERM_OF_CLASS: dict[TensorClass, str] = {
    "attention": "attention_projections",
    "indexer": "attention_projections",
    "router": "router",
    "dense_mlp": "dense_mlp",
    "shared_experts": "shared_experts",
    "head": "head",
}
"""Breakdown term of a GEMM by the class of its weights; routed experts run as grouped GEMMs instead."""

ABSORBED_GEMMS = frozenset({"kv_b"})
"""MLA up-projections: a GEMM in prefill, two batched products with the absorbed weights in decode."""


@dataclass(frozen=True)
class GemmOp:
    """A (fused) linear layer run in ``layers`` layers: y[m, n] = x[m, k] w[k, n]."""

    key: str
    term: str
    tensor_class: TensorClass
    layers: int
    parts: tuple[tuple[int, str, int], ...]
    """(rows, shard, granularity) of each fused tensor."""
    cols: int

    def n(self, tp: Array) -> Array:
        """Output features per rank; a kv_column part stops splitting at its number of KV heads."""
        total: Array | float = 0.0
        for rows, shard, granularity in self.parts:
            if shard in ("column", "vocab"):
                total = total + np.ceil(rows / tp)
            elif shard == "kv_column":
                total = total + rows / np.minimum(tp, granularity)
            else:
                total = total + rows
        return np.asarray(total, dtype=float)

    def k(self, tp: Array) -> Array:
        """Input features per rank: split where the weight is row-parallel."""
        return self.cols / tp if self.parts[0][1] == "row" else np.full_like(tp, float(self.cols))


@dataclass(frozen=True)
class AttentionOp:
    spec: GqaAttention | MlaAttention | LinearAttention
    layers: int


@dataclass(frozen=True)
class MoeOp:
    spec: MoeFeedForward
    layers: int


@dataclass(frozen=True)
class Program:
    hidden: int
    layers: int
    gemms: tuple[GemmOp, ...]
    attentions: tuple[AttentionOp, ...]
    moes: tuple[MoeOp, ...]
    dense_layers: int

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.layers - self.dense_layers


def _term(tensor: Tensor) -> str | None:
    """Breakdown term of a tensor's GEMM; a tied embedding multiplies as the head. None: no dense GEMM of its own."""
    return "head" if tensor.gemm == "head" else TERM_OF_CLASS.get(tensor.tensor_class)


@cache
def program(spec: ModelSpec) -> Program:
    """The operators of one forward pass through the main model (no MTP block, no vision tower)."""
    gemms: dict[tuple[object, ...], GemmOp] = {}
    fused: dict[tuple[int, str], list[Tensor]] = {}
    for tensor in tensors(spec):
        if tensor.part == "main" and tensor.gemm is not None and _term(tensor) is not None:
            fused.setdefault((tensor.group, tensor.gemm), []).append(tensor)
    for (_, key), members in fused.items():
        first = members[0]
        op = GemmOp(
            key=key,
            term=_term(first) or "",
            tensor_class=first.tensor_class,
            layers=first.layers,
            parts=tuple((t.rows, t.shard, t.granularity) for t in members),
            cols=first.cols,
        )
        same = (op.key, op.tensor_class, op.parts, op.cols)
        gemms[same] = replace(op, layers=gemms[same].layers + op.layers) if same in gemms else op

    attentions: dict[str, AttentionOp] = {}
    moes: dict[str, MoeOp] = {}
    dense_layers = 0
    for group in spec.layers:
        attention = spec.attentions[group.attention]
        known = attentions.get(group.attention)
        attentions[group.attention] = AttentionOp(attention, group.count + (known.layers if known else 0))
        feed_forward = spec.feed_forwards[group.feed_forward]
        if isinstance(feed_forward, DenseFeedForward):
            dense_layers += group.count
        else:
            seen = moes.get(group.feed_forward)
            moes[group.feed_forward] = MoeOp(feed_forward, group.count + (seen.layers if seen else 0))
    return Program(
        hidden=spec.hidden_size,
        layers=sum(group.count for group in spec.layers),
        gemms=tuple(gemms.values()),
        attentions=tuple(attentions.values()),
        moes=tuple(moes.values()),
        dense_layers=dense_layers,
    )

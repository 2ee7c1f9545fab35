"""The weight tensors of a model: one list from which parameters, bytes per rank and GEMM shapes all follow.

Every linear layer is a row here. Parameter counts sum it, the memory budget shards it, the step time turns its rows
into GEMMs, so the three can never disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TensorClass = Literal[
    "attention",
    "indexer",
    "router",
    "dense_mlp",
    "shared_experts",
    "routed_experts",
    "embedding",
    "head",
    "norm",
    "vision",
]
Part = Literal["main", "mtp", "mtp_duplicate", "vision"]
Shard = Literal["replicated", "column", "row", "kv_column", "vocab", "experts_column", "experts_row"]
"""How a tensor splits over a worker's ranks.

column / row: rows / columns over tp, in units of ``granularity`` (whole heads). kv_column: as column over
min(tp, granularity), then replicated. vocab: vocabulary rows over tp. experts_*: copies over ep, rows / columns of
each copy over moe_tp.
"""


@dataclass(frozen=True)
class Tensor:
    """A weight of ``rows`` x ``cols`` (out x in features), ``copies`` per layer, in ``layers`` layers of a group."""

    name: str
    tensor_class: TensorClass
    part: Part
    group: int
    """Index of the layer group in ModelSpec.layers; -1 outside the decoder layers."""
    rows: int
    cols: int
    layers: int = 1
    copies: int = 1
    active_copies: float = 1.0
    """Copies one token passes through: experts_per_token for routed experts, 0 for an input embedding."""
    shard: Shard = "replicated"
    granularity: int = 1
    """Units that stay whole when the tensor is split (heads, kv heads)."""
    gemm: str | None = None
    """Tensors of one layer group with the same key run as one GEMM (rows add up); None is not a GEMM."""

    @property
    def parameters(self) -> int:
        return self.rows * self.cols * self.copies * self.layers

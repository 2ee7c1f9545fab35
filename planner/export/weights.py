"""Bytes of weights that exports speak of: the checkpoint on disk, and what an engine's flags make a rank hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.catalog.model_spec import DenseFeedForward, ModelSpec
from planner.export.roles import Deployment, Role
from planner.memory.coefficients import engine_memory
from planner.memory.sharding import Shards
from planner.memory.weights import rank_bytes
from planner.model.builder import tensors
from planner.model.precision import PrecisionPlan, tensor_bytes
from planner.units import GIB


def checkpoint_gib(d: Deployment) -> float:
    """Weights of the checkpoint, each held once, in GiB; as published or as planned, whichever is more."""
    own = PrecisionPlan.from_checkpoint(d.spec).as_dict()
    planned = {**own, **d.plan.identity.precision}
    sizes = [
        sum(tensor_bytes(tensor, formats[tensor.tensor_class]) for tensor in tensors(d.spec))
        for formats in (own, planned)
    ]
    return max(sizes) / GIB


def has_dense_layers(spec: ModelSpec) -> bool:
    """Whether some layers have a dense MLP."""
    return any(isinstance(f, DenseFeedForward) for f in spec.feed_forwards.values())


def whole_dense_gib(d: Deployment, role: Role) -> float:
    """GiB by which a rank of SGLang under attention DP exceeds the plan's memory, with the flags that exports give it.

    Dense MLPs are whole (--moe-dense-tp-size 1), the head is split over attention TP (--enable-dp-lm-head), and the
    embedding is whole anyway (sglang/srt/models: VocabParallelEmbedding(enable_tp=not is_dp_attention_enabled())).
    0 where the memory of the plan's engine holds them so. Of a pipeline, all stages together.
    """
    memory = engine_memory(d.plan.scenario.engine.name)
    if memory.dense_split == "tp":
        return 0.0
    precision = PrecisionPlan(**{**PrecisionPlan.from_checkpoint(d.spec).as_dict(), **d.plan.identity.precision})
    one = np.ones(1, dtype=np.int64)
    planned = Shards(
        tp=one * role.layout.tp,
        dense=one * role.ranks,
        vision=one,
        moe_tp=one * role.layout.moe_tp,
        ep=one * role.layout.ep,
        redundant_experts=one * role.layout.redundant_experts,
        vocab_padding_rows=memory.vocab_padding_rows,
    )
    alone = replace(planned, dense=one)
    whole = {"dense_mlp": alone, "embedding": alone, "head": replace(planned, dense=planned.tp)}
    more = 0.0
    for tensor in tensors(d.spec):
        if tensor.part == "main" and tensor.tensor_class in whole:
            held = rank_bytes(tensor, precision, whole[tensor.tensor_class], memory)
            more += float((held - rank_bytes(tensor, precision, planned, memory))[0]) * tensor.layers
    return more / GIB

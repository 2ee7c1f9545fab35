"""What a rank needs beside weights and KV: activation peak, sampler, graphs, collective buffers. Bytes, arrays
that broadcast.

The forms are physical, their coefficients fitted (measured/README.md and hardware_db/engines/memory): the
profiled torch peak is the larger of the widest layer and the sampler, plus whatever the expert kernels and a
vision encoder keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.model_spec import DenseFeedForward, GqaAttention, MlaAttention, ModelSpec, MoeFeedForward
from planner.memory.coefficients import EngineMemory, Fitted
from planner.model.precision import FORMATS, PrecisionPlan
from planner.units import GIB, KIB

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LayerWidths:
    """Values per batched token at the widest point of a layer, from the model specification."""

    hidden: int
    dense: float
    """Gate, up and their product of the widest dense MLP (fc1 and its activation where it is not gated)."""
    dense_input_bytes: float
    """Bytes per token of the quantised copy of the down-projection's input."""
    experts: float
    """The same for the experts of one token (summed over experts_per_token), 0 without routed experts."""
    attention: float
    """Projections and output of the widest attention."""
    mla_context: float
    """Keys and values per cached token expanded by an MLA prefill, 0 without MLA."""
    experts_per_token: int
    expert_width: int
    expert_layers: bool
    vision: bool


def layer_widths(spec: ModelSpec, precision: PrecisionPlan) -> LayerWidths:
    """Widths of ``spec``; quantised inputs count where the dense format computes in 8 or 4 bits."""
    dense = dense_input = experts = attention = context = 0.0
    per_token = width = 0
    compute = FORMATS[precision.dense_mlp].compute
    input_bytes = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5}.get(compute, 0.0)
    for feed_forward in spec.feed_forwards.values():
        if isinstance(feed_forward, DenseFeedForward):
            inner, gated = feed_forward.intermediate_size, feed_forward.gated
        else:
            inner, gated = feed_forward.shared_intermediate_size, True
            experts = max(experts, 3.0 * feed_forward.experts_per_token * feed_forward.expert_intermediate_size)
            per_token = max(per_token, feed_forward.experts_per_token)
            width = max(width, feed_forward.expert_intermediate_size)
        dense = max(dense, (3.0 if gated else 2.0) * inner)
        dense_input = max(dense_input, input_bytes * inner)
    for layer in spec.attentions.values():
        if isinstance(layer, MlaAttention):
            key = layer.qk_nope_head_dim + layer.qk_rope_head_dim
            wide = layer.heads * (key + layer.qk_nope_head_dim + 2.0 * layer.v_head_dim)
            context = max(context, float(layer.heads * (layer.qk_nope_head_dim + layer.v_head_dim)))
        elif isinstance(layer, GqaAttention):
            wide = 2.0 * layer.head_dim * (layer.heads + layer.kv_heads)
        else:
            wide = 2.0 * (layer.key_heads * layer.key_head_dim + layer.value_heads * layer.value_head_dim)
        attention = max(attention, wide)
    return LayerWidths(
        hidden=spec.hidden_size,
        dense=dense,
        dense_input_bytes=dense_input,
        experts=experts,
        attention=attention,
        mla_context=context,
        experts_per_token=per_token,
        expert_width=width,
        expert_layers=any(isinstance(f, MoeFeedForward) for f in spec.feed_forwards.values()),
        vision=spec.vision is not None,
    )


def forward_peak(widths: LayerWidths, fitted: Fitted, *, tokens: ArrayLike, tp: ArrayLike, value_bytes: float) -> Array:
    """Torch peak of one layer, bytes: tokens x (widest intermediate / tp + c x hidden) x bytes per value.

    c = ``forward_hidden_values`` (residual, hidden states, output of the previous projection). A dense MLP that ranks
    hold whole works on 1/tp of the tokens instead: the same.
    """
    tokens_, ranks = np.asarray(tokens, dtype=float), np.asarray(tp)
    wide = max(widths.dense, widths.attention) / ranks
    quantised = widths.dense_input_bytes / ranks
    return np.asarray(tokens_ * ((wide + fitted.forward_hidden_values * widths.hidden) * value_bytes + quantised))


def sampler_peak(
    fitted: Fitted, *, max_num_seqs: ArrayLike, vocab: int, tokens: ArrayLike, hidden: int, value_bytes: float
) -> Array:
    """Torch peak of sampling, bytes: (a + bytes per value) x sequences x vocabulary + b x tokens x hidden x
    bytes per value.

    a is what the sampler keeps per logit beside the logits themselves; with the fused sampler a + 2 = 14.6, with
    the native sort 38.2 (measured/README.md). Independent of TP: every rank gathers the whole vocabulary.
    """
    logits = (fitted.sampler_bytes_per_logit + value_bytes) * np.asarray(max_num_seqs, dtype=float) * vocab
    return np.asarray(logits + fitted.sampler_hidden_values * np.asarray(tokens, dtype=float) * hidden * value_bytes)


def expert_workspace(
    widths: LayerWidths,
    *,
    tokens: ArrayLike,
    moe_tp: ArrayLike,
    ep: ArrayLike,
    attention_dp: ArrayLike,
    value_bytes: float,
) -> Array:
    """Workspace that fused expert kernels keep between layers, bytes.

    rows = tokens x experts_per_token (x attention_dp / ep where more DP ranks than EP ranks feed them); two buffers,
    rows x max(width, hidden) and rows x max(2 width, hidden) (vllm fused_moe workspace_shapes). Balanced
    dispatch is assumed across attention-DP ranks.
    """
    rows = np.asarray(tokens, dtype=float) * widths.experts_per_token
    rows = rows * _replicas_per_rank(attention_dp, ep)
    width = widths.expert_width / np.asarray(moe_tp, dtype=float)
    values = np.maximum(width, widths.hidden) + np.maximum(2.0 * width, widths.hidden)
    return np.asarray(rows * values * value_bytes)


def _replicas_per_rank(attention_dp: ArrayLike, ep: ArrayLike) -> Array:
    """Attention-DP ranks that feed one EP rank, at least its own."""
    return np.maximum(1.0, np.asarray(attention_dp) / np.asarray(ep))


def largest_graph(max_num_seqs: ArrayLike, memory: EngineMemory, *, planned: bool = False) -> Array:
    """Sequences of the largest decode step that is captured in a CUDA graph.

    ``planned``: of a launch by the plan's scripts, which set the limit for engines whose own is below their batches.
    """
    rule = memory.graph_capture
    limit = rule.largest_planned if planned and rule.largest_planned is not None else rule.largest
    return np.minimum(limit, np.floor(rule.sequences_factor * np.asarray(max_num_seqs, dtype=float)))


def captured_graphs(max_num_seqs: ArrayLike, memory: EngineMemory, *, planned: bool = False) -> Array:
    """CUDA graphs captured: sizes 1, 2, 4, every 8 below ``fine_until``, every ``coarse_step`` from there, times graphs
    per size. ``planned`` as in :func:`largest_graph`.
    """
    rule, largest = memory.graph_capture, largest_graph(max_num_seqs, memory, planned=planned)
    small = (largest >= 1).astype(float) + (largest >= 2) + (largest >= 4)
    steps = np.floor(np.minimum(largest, rule.fine_until - 8) / 8)
    beyond = np.floor((largest - rule.fine_until) / rule.coarse_step) + 1
    return np.asarray(rule.graphs_per_size * (small + steps + np.where(largest >= rule.fine_until, beyond, 0)))


GRAPH_TERMS = ("graph_base_gib", "graph_layer_kib", "graph_dense_bytes", "graph_expert_bytes")
"""Coefficients of the graph pool, in the order of :func:`graph_terms`."""


def graph_terms(
    widths: LayerWidths,
    memory: EngineMemory,
    *,
    max_num_seqs: ArrayLike,
    layers: ArrayLike,
    tp: ArrayLike,
    moe_tp: ArrayLike,
    ep: ArrayLike,
    attention_dp: ArrayLike,
    planned: bool = False,
) -> tuple[Array, ...]:
    """Bytes of a rank's CUDA graph pool per unit of each of GRAPH_TERMS.

    A base; the nodes of every (graph, layer); and what one layer's dense MLP and experts write in the largest graph,
    on the rank's share of their widths: graphs share buffers, but not all of them. ``planned`` as in
    :func:`largest_graph`.
    """
    largest = largest_graph(max_num_seqs, memory, planned=planned)
    nodes = captured_graphs(max_num_seqs, memory, planned=planned) * np.asarray(layers, dtype=float)
    fed = largest * _replicas_per_rank(attention_dp, ep)
    dense, experts = largest * (widths.dense / np.asarray(tp)), fed * (widths.experts / np.asarray(moe_tp))
    return np.asarray(float(GIB)), nodes * KIB, np.asarray(dense), np.asarray(experts)


def graph_pool(fitted: Fitted, terms: Sequence[Array]) -> Array:
    """CUDA graph pool of a rank, bytes: :func:`graph_terms` times their coefficients."""
    parts = [getattr(fitted, name) * term for name, term in zip(GRAPH_TERMS, terms, strict=True)]
    return np.asarray(sum(parts))


def tensor_collectives(fitted: Fitted, *, tp: ArrayLike, scale_up: bool) -> Array:
    """All-reduce buffers of a TP group, bytes; 0 for one rank and, beyond NCCL's own, without a scale-up fabric."""
    ranks = np.asarray(tp, dtype=float)
    fixed = fitted.collectives_gib if scale_up else 0.0
    return np.where(ranks > 1, (fixed + fitted.collectives_per_rank_gib * (ranks - 2)) * GIB, 0.0)


def dispatch_tokens(memory: EngineMemory, *, sequences: ArrayLike, queries: ArrayLike, tp: ArrayLike) -> Array:
    """Tokens of a rank's decode step that low-latency dispatch buffers must hold: ``sequences`` of the attention
    replica x ``queries`` of each (1 and its drafts), shared by the replica's ``tp`` ranks where the engine does so.
    """
    share = np.asarray(tp, dtype=float) if memory.deepep_split_over_tp else 1.0
    return np.asarray(np.ceil(np.multiply(sequences, queries, dtype=float) / share))


def dispatch_sequences(memory: EngineMemory, *, queries: ArrayLike, tp: ArrayLike) -> Array:
    """Most sequences of an attention replica whose :func:`dispatch_tokens` buffers can hold; inf without a bound."""
    share = np.asarray(tp, dtype=float) if memory.deepep_split_over_tp else np.ones_like(tp, dtype=float)
    most = np.inf if memory.deepep_most_tokens_per_rank is None else float(memory.deepep_most_tokens_per_rank)
    return np.asarray(np.floor(most * share / np.asarray(queries, dtype=float)))


def expert_collectives(
    widths: LayerWidths,
    memory: EngineMemory,
    *,
    experts: int,
    ep: ArrayLike,
    attention_dp: ArrayLike,
    redundant: ArrayLike,
    tokens: ArrayLike = 0.0,
) -> Array:
    """Dispatch and combine buffers of experts fed by attention-DP ranks, bytes; 0 elsewhere.

    DeepEP low latency keeps send and receive buffers, doubled, of tokens per rank x experts x hidden in bf16 (DeepEP
    csrc/config.hpp LowLatencyLayout); the normal mode a fixed NVLink buffer. ``tokens`` are those of a rank's step
    (:func:`dispatch_tokens`): room for the engine's own number of them is made anyway.
    """
    slots = np.asarray(redundant, dtype=float) + experts
    rows = np.maximum(tokens, memory.deepep_tokens_per_rank)
    low_latency = 4.0 * rows * slots * widths.hidden * FORMATS["bf16"].bytes_per_value
    buffers = np.maximum(low_latency, memory.deepep_normal_buffer_gib * GIB)
    return np.where((np.asarray(ep) > 1) & (np.asarray(attention_dp) > 1), buffers, 0.0)

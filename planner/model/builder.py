"""Builds the tensor list of a model from its specification.

Shapes follow the Hugging Face implementations (transformers models/*/modeling_*.py); the parameter counts of 39
published checkpoints come out of them exactly (tests/model/test_parameters.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from planner.catalog.model_spec import (
    AttentionSpec,
    DenseFeedForward,
    FeedForwardSpec,
    GqaAttention,
    LayerGroup,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    MoeFeedForward,
)
from planner.model.tensors import Part, Tensor

OUTSIDE = -1
"""``Tensor.group`` of what belongs to no layer group: embedding, head, final norms, MTP blocks, vision."""


@cache
def tensors(spec: ModelSpec) -> tuple[Tensor, ...]:
    """Every weight tensor of ``spec``, layer groups in order, then embedding and head, MTP, vision.

    A GEMM over tokens is the tensors of one group and part that share ``gemm``: rows add up, cols are equal. Keys:
    qkv, o (GQA); qkv_a, q_b, kv_b, o, or q, kv_a, kv_b, o without a query rank (MLA; kv_b is a GEMM in prefill and,
    absorbed as W_UK and W_UV, a batched product per head in decode); index_q, index_k; linear_in, linear_ba,
    linear_out; gate_up, down; router, shared_gate, shared_gate_up, shared_down, experts_gate_up, experts_down;
    mtp_proj; head.
    """
    return tuple(_all(spec))


def _all(spec: ModelSpec) -> Iterator[Tensor]:
    for index, group in enumerate(spec.layers):
        for tensor in _layer(spec, group):
            yield replace(tensor, group=index, layers=group.count)
    yield from _ends(spec)
    yield from _mtp(spec)
    if spec.vision is not None:
        yield Tensor("vision", "vision", "vision", OUTSIDE, spec.vision.parameters, 1, active_copies=0.0)


def _tensor(name: str, tensor_class: str, rows: int, cols: int, **kwargs: object) -> Tensor:
    return Tensor(name, tensor_class, "main", OUTSIDE, rows, cols, **kwargs)  # type: ignore[arg-type]


def _vector(name: str, rows: int, **kwargs: object) -> Tensor:
    """Norm weights, biases and other vectors: class norm, never quantised."""
    return _tensor(name, "norm", rows, 1, **kwargs)


def _layer(spec: ModelSpec, group: LayerGroup) -> Iterator[Tensor]:
    yield from _attention(spec.attentions[group.attention], spec.hidden_size)
    yield from _feed_forward(spec.feed_forwards[group.feed_forward], spec.hidden_size)
    yield from _norms("layer_norms", group.norms, spec)


def _norms(name: str, count: int, spec: ModelSpec) -> Iterator[Tensor]:
    if count:
        yield _vector(name, count * spec.hidden_size)
        if spec.norm_bias:
            yield _vector(f"{name}_bias", count * spec.hidden_size)


def _ends(spec: ModelSpec) -> Iterator[Tensor]:
    vocab, hidden = spec.vocab_size, spec.hidden_size
    if spec.tie_word_embeddings:
        # One tensor, read as a table and multiplied as the head: it is active like a head.
        yield _tensor("embed_tokens", "embedding", vocab, hidden, shard="vocab", granularity=vocab, gemm="head")
    else:
        table = {"shard": "vocab", "granularity": vocab}
        yield _tensor("embed_tokens", "embedding", vocab, hidden, active_copies=0.0, **table)
        yield _tensor("lm_head", "head", vocab, hidden, gemm="head", **table)
    if spec.head_bias:
        yield _vector("lm_head_bias", vocab, shard="vocab", granularity=vocab)
    yield from _norms("final_norms", spec.final_norms, spec)


def _mtp(spec: ModelSpec) -> Iterator[Tensor]:
    if spec.mtp is None:
        return
    blocks, hidden = spec.mtp.blocks, spec.hidden_size
    block: list[Tensor] = [
        # Joins hidden state and embedding; stored in high precision like the head, hence its class.
        _tensor("mtp_proj", "head", hidden, 2 * hidden, gemm="mtp_proj"),
        *_attention(spec.attentions[spec.mtp.attention], hidden),
        *_feed_forward(spec.feed_forwards[spec.mtp.feed_forward], hidden),
        _vector("mtp_norms", spec.mtp.norms * hidden),
    ]
    part: Part = "mtp"
    for tensor in block:
        yield replace(tensor, part=part, layers=blocks)
    if spec.mtp.own_embedding:
        table = {"shard": "vocab", "granularity": spec.vocab_size, "active_copies": 0.0}
        for name, tensor_class in (("mtp_embed_tokens", "embedding"), ("mtp_lm_head", "head")):
            tensor = _tensor(name, tensor_class, spec.vocab_size, hidden, **table)
            yield replace(tensor, part="mtp_duplicate", layers=blocks)


def _attention(attention: AttentionSpec, hidden: int) -> Iterator[Tensor]:
    if isinstance(attention, GqaAttention):
        yield from _gqa(attention, hidden)
    elif isinstance(attention, MlaAttention):
        yield from _mla(attention, hidden)
    else:
        yield from _linear(attention, hidden)


def _gqa(a: GqaAttention, hidden: int) -> Iterator[Tensor]:
    q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    by_head = {"shard": "column", "granularity": a.heads}
    by_kv_head = {"shard": "kv_column", "granularity": a.kv_heads}
    yield _tensor("q_proj", "attention", q, hidden, gemm="qkv", **by_head)
    if a.output_gate:
        yield _tensor("q_gate_proj", "attention", q, hidden, gemm="qkv", **by_head)
    yield _tensor("k_proj", "attention", kv, hidden, gemm="qkv", **by_kv_head)
    yield _tensor("v_proj", "attention", kv, hidden, gemm="qkv", **by_kv_head)
    yield _tensor("o_proj", "attention", hidden, q, gemm="o", shard="row", granularity=a.heads)
    if a.qkv_bias:
        yield _vector("q_bias", q * (2 if a.output_gate else 1), **by_head)
        yield _vector("kv_bias", 2 * kv, **by_kv_head)
    if a.o_bias:
        yield _vector("o_bias", hidden)
    if a.qk_norm == "per_head":
        yield _vector("qk_norm", 2 * a.head_dim)
    elif a.qk_norm == "full":
        yield _vector("q_norm", q, **by_head)
        yield _vector("k_norm", kv, **by_kv_head)
    if a.sinks:
        yield _vector("sinks", a.heads, **by_head)


def _mla(a: MlaAttention, hidden: int) -> Iterator[Tensor]:
    q = a.heads * (a.qk_nope_head_dim + a.qk_rope_head_dim)
    kv_a = a.kv_lora_rank + a.qk_rope_head_dim
    by_head = {"shard": "column", "granularity": a.heads}
    if a.q_lora_rank:
        # Engines run q_a and kv_a as one GEMM, replicated over tp: both make latents shared by all heads.
        yield _tensor("q_a_proj", "attention", a.q_lora_rank, hidden, gemm="qkv_a")
        yield _tensor("kv_a_proj", "attention", kv_a, hidden, gemm="qkv_a")
        yield _vector("q_a_norm", a.q_lora_rank)
        yield _tensor("q_b_proj", "attention", q, a.q_lora_rank, gemm="q_b", **by_head)
    else:
        yield _tensor("q_proj", "attention", q, hidden, gemm="q", **by_head)
        yield _tensor("kv_a_proj", "attention", kv_a, hidden, gemm="kv_a")
    yield _vector("kv_a_norm", a.kv_lora_rank)
    kv_b = a.heads * (a.qk_nope_head_dim + a.v_head_dim)
    yield _tensor("kv_b_proj", "attention", kv_b, a.kv_lora_rank, gemm="kv_b", **by_head)
    values = a.heads * a.v_head_dim
    yield _tensor("o_proj", "attention", hidden, values, gemm="o", shard="row", granularity=a.heads)
    if a.indexer is not None:
        query_in = a.q_lora_rank or hidden
        wide = a.indexer.heads * a.indexer.head_dim
        yield _tensor("indexer_wq_b", "indexer", wide, query_in, gemm="index_q")
        yield _tensor("indexer_wk", "indexer", a.indexer.head_dim, hidden, gemm="index_k")
        yield _tensor("indexer_weights_proj", "indexer", a.indexer.heads, hidden, gemm="index_k")
        yield _vector("indexer_k_norm", 2 * a.indexer.head_dim)


def _linear(a: LinearAttention, hidden: int) -> Iterator[Tensor]:
    key, value = a.key_heads * a.key_head_dim, a.value_heads * a.value_head_dim
    by_head = {"shard": "column", "granularity": a.key_heads}
    by_value_head = {"shard": "column", "granularity": a.value_heads}
    yield _tensor("in_proj_qk", "attention", 2 * key, hidden, gemm="linear_in", **by_head)
    yield _tensor("in_proj_vz", "attention", 2 * value, hidden, gemm="linear_in", **by_value_head)
    yield _tensor("in_proj_ba", "attention", 2 * a.value_heads, hidden, gemm="linear_ba", **by_value_head)
    yield _tensor("out_proj", "attention", hidden, value, gemm="linear_out", shard="row", granularity=a.value_heads)
    yield _vector("conv1d", (2 * key + value) * a.conv_kernel, **by_head)
    yield _vector("a_log_dt_bias", 2 * a.value_heads, **by_value_head)
    yield _vector("linear_norm", a.value_head_dim)


def _feed_forward(feed_forward: FeedForwardSpec, hidden: int) -> Iterator[Tensor]:
    if isinstance(feed_forward, DenseFeedForward):
        yield from _mlp(feed_forward, hidden)
    else:
        yield from _moe(feed_forward, hidden)


def _mlp(f: DenseFeedForward, hidden: int) -> Iterator[Tensor]:
    width = f.intermediate_size
    column = {"shard": "column", "granularity": width}
    names = ("gate_proj", "up_proj") if f.gated else ("up_proj",)
    for name in names:
        yield _tensor(name, "dense_mlp", width, hidden, gemm="gate_up", **column)
    yield _tensor("down_proj", "dense_mlp", hidden, width, gemm="down", shard="row", granularity=width)
    if f.bias:
        yield _vector("mlp_up_bias", len(names) * width, **column)
        yield _vector("mlp_down_bias", hidden)


def _moe(f: MoeFeedForward, hidden: int) -> Iterator[Tensor]:
    width, shared = f.expert_intermediate_size, f.shared_intermediate_size
    yield _tensor("router", "router", f.experts, hidden, gemm="router")
    if f.router_bias:
        yield _vector("router_bias", f.experts)
    if f.router_correction_bias:
        yield _vector("router_correction_bias", f.experts)
    experts = {"copies": f.experts, "active_copies": float(f.experts_per_token), "granularity": width}
    column, row = {**experts, "shard": "experts_column"}, {**experts, "shard": "experts_row"}
    for name in ("gate_proj", "up_proj"):
        yield _tensor(f"experts_{name}", "routed_experts", width, hidden, gemm="experts_gate_up", **column)
    yield _tensor("experts_down_proj", "routed_experts", hidden, width, gemm="experts_down", **row)
    if f.expert_bias:
        yield _vector("experts_up_bias", 2 * width, **column)
        yield _vector("experts_down_bias", hidden, **{**row, "granularity": 1})
    if shared:
        by_width = {"shard": "column", "granularity": shared}
        for name in ("gate_proj", "up_proj"):
            yield _tensor(f"shared_{name}", "shared_experts", shared, hidden, gemm="shared_gate_up", **by_width)
        yield _tensor(
            "shared_down_proj",
            "shared_experts",
            hidden,
            shared,
            gemm="shared_down",
            shard="row",
            granularity=shared,
        )
    if f.shared_gate:
        yield _tensor("shared_gate", "router", 1, hidden, gemm="shared_gate")

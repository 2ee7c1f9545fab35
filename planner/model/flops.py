"""Forward FLOPs: linear layers by tensor class, attention cores by context. A multiply-add is two FLOPs.

Causal attention is counted exactly: a token sees its predecessors and itself, no more of them than a window or the
tokens that a sparse indexer selects.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.model_spec import AttentionSpec, GqaAttention, LinearAttention, MlaAttention, ModelSpec
from planner.errors import InputError
from planner.model.builder import tensors
from planner.model.parameters import active_parameters

Array = NDArray[np.float64]
Phase = Literal["prefill", "decode"]

_DELTA_RULE_FLOPS = 7.0
"""Per cell of the state and token: decay 1, read by the key 2, rank-one update 2, read by the query 2 (gated delta
rule, arXiv:2412.06464, equation 10)."""


def linear_flops_per_token(spec: ModelSpec, *, mtp: bool = False) -> dict[str, float]:
    """FLOPs of the matrix products one token passes through, by tensor class (2 x active parameters).

    The head counts once a token, which is decode; a prefill needs it on its last token only. ``mtp`` adds one pass
    through each multi-token-prediction block, head included.
    """
    total: dict[str, float] = {}
    blocks = spec.mtp.blocks if mtp and spec.mtp is not None else 0
    for tensor in tensors(spec):
        counted = tensor.part == "main" or (blocks and tensor.part == "mtp")
        if tensor.gemm is None or not counted:
            continue
        flops = 2.0 * active_parameters(tensor)
        if tensor.gemm == "head":
            flops *= 1 + blocks
        total[tensor.tensor_class] = total.get(tensor.tensor_class, 0.0) + flops
    return total


def attention_flops(spec: ModelSpec, new_tokens: ArrayLike, past_tokens: ArrayLike, phase: Phase = "prefill") -> Array:
    """FLOPs of all attention cores when a sequence with ``past_tokens`` cached gets ``new_tokens`` more; broadcasts.

    MLA differs by phase: prefill expands K and V per head (2 x heads x (qk_nope + qk_rope + v) a pair of tokens),
    decode works on the latent (2 x heads x (2 x kv_lora_rank + qk_rope)). Raises InputError for negative counts.
    """
    new, past = np.asarray(new_tokens, dtype=float), np.asarray(past_tokens, dtype=float)
    if np.any(new < 0) or np.any(past < 0):
        raise InputError("tokens", (new_tokens, past_tokens), "at least 0")
    total: Array = np.zeros(np.broadcast_shapes(new.shape, past.shape))
    for group in spec.layers:
        total = total + group.count * _core_flops(spec.attentions[group.attention], new, past, phase)
    return total


def seen_pairs(new: ArrayLike, past: ArrayLike, limit: float | None = None) -> Array:
    """Pairs (query, visible key) of a causal pass: sum over new tokens of min(tokens up to it, limit)."""
    new, past = np.asarray(new, dtype=float), np.asarray(past, dtype=float)
    if limit is None:
        return np.asarray(new * past + new * (new + 1) / 2)
    growing = np.clip(limit - past, 0.0, new)  # tokens that still see everything
    return np.asarray(growing * past + growing * (growing + 1) / 2 + (new - growing) * limit)


def chunk_pairs(new: ArrayLike, past: ArrayLike, chunk: float) -> Array:
    """As :func:`seen_pairs` for chunked local attention: a token sees its own chunk up to itself."""

    def up_to(count: Array) -> Array:
        whole = np.floor(count / chunk)
        rest = count - whole * chunk
        return np.asarray(whole * chunk * (chunk + 1) / 2 + rest * (rest + 1) / 2)

    new, past = np.asarray(new, dtype=float), np.asarray(past, dtype=float)
    return up_to(past + new) - up_to(past)


def _core_flops(attention: AttentionSpec, new: Array, past: Array, phase: Phase) -> Array:
    if isinstance(attention, LinearAttention):
        cells = attention.value_heads * attention.value_head_dim * attention.key_head_dim
        return np.asarray(_DELTA_RULE_FLOPS * cells * new + 0.0 * past)
    if isinstance(attention, MlaAttention):
        return _mla_flops(attention, new, past, phase)
    return _gqa_flops(attention, new, past)


def _gqa_flops(a: GqaAttention, new: Array, past: Array) -> Array:
    per_pair = 4.0 * a.heads * a.head_dim
    if a.chunk_tokens is not None:
        return per_pair * chunk_pairs(new, past, a.chunk_tokens)
    return per_pair * seen_pairs(new, past, a.window_tokens)


def _mla_flops(a: MlaAttention, new: Array, past: Array, phase: Phase) -> Array:
    if phase == "prefill":
        width = a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim
    else:
        width = 2 * a.kv_lora_rank + a.qk_rope_head_dim
    limit = None if a.indexer is None else a.indexer.topk_tokens
    flops = 2.0 * a.heads * width * seen_pairs(new, past, limit)
    if a.indexer is not None:
        flops = flops + 2.0 * a.indexer.heads * a.indexer.head_dim * seen_pairs(new, past)
    return flops


def forward_flops_per_token(spec: ModelSpec, context_tokens: ArrayLike, phase: Phase = "decode") -> Array:
    """FLOPs of one token with ``context_tokens`` predecessors: linear layers and attention cores; shape of context."""
    linear = sum(linear_flops_per_token(spec).values())
    return linear + attention_flops(spec, 1, context_tokens, phase)

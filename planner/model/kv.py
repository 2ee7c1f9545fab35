"""The KV cache: bytes per token and per sequence, for every kind of attention.

Per layer and token on one rank of ``tp``:

* GQA (MHA, MQA): 2 x ceil(kv_heads / tp) x head_dim values; with more ranks than KV heads, heads are replicated.
* MLA: kv_lora_rank + qk_rope_head_dim values whatever tp is: heads share the latent, each rank holds it whole.
* Sparse-attention indexer (DeepSeek-V3.2): index_head_dim fp8 values and an fp32 scale for each 128 of them,
  replicated.
* Window or chunk layers: as GQA, but no more tokens than the window.
* Linear attention: nothing per token; per sequence a delta-rule state and the last conv_kernel - 1 inputs of the
  convolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.model_spec import AttentionSpec, GqaAttention, LinearAttention, MlaAttention, ModelSpec
from planner.errors import InputError
from planner.model.formats import FORMATS, Format, resolve_kv_format

Array = NDArray[np.float64]
Kind = Literal["gqa", "mla", "linear"]

_INDEXER_SCALE_BLOCK = 128
_INDEXER_SCALE_BYTES = 4


@dataclass(frozen=True)
class LayerKv:
    """Cache of one layer on one rank, arrays with the shape of ``tp``."""

    token_bytes: Array
    """Per token, scales and indexer included."""
    state_bytes: Array
    """Per sequence, whatever its length."""


@dataclass(frozen=True)
class KvGroup:
    """Layers of one layer group, which cache alike."""

    kind: Kind
    layers: int
    attention: AttentionSpec
    window_tokens: int | None
    """Most tokens a sequence keeps in these layers; None keeps all."""

    def values_per_token_per_rank(self, tp: ArrayLike = 1) -> Array:
        """Cached values per token and layer on one rank, without the indexer; shape of ``tp``."""
        return _values(self.attention, tp)

    def layer(self, kv_format: str, tp: ArrayLike = 1) -> LayerKv:
        return layer_kv(self.attention, kv_format, tp)


def layer_kv(attention: AttentionSpec, kv_format: str, tp: ArrayLike = 1) -> LayerKv:
    """Cache bytes of one layer of ``attention`` on one of ``tp`` ranks.

    Raises InputError where ``kv_format`` is no cache format or ``tp`` is below 1.
    """
    fmt = resolve_kv_format(kv_format)
    ranks = np.asarray(tp)
    if np.any(ranks < 1):
        raise InputError("tp", tp, "at least 1")
    if isinstance(attention, LinearAttention):
        return LayerKv(np.zeros(ranks.shape), _state_bytes(attention, ranks))
    token = _values(attention, ranks) * (fmt.bytes_per_value + fmt.kv_scale_bytes_per_value)
    if isinstance(attention, MlaAttention) and attention.indexer is not None:
        token = token + indexer_bytes_per_token(attention.indexer.head_dim)
    return LayerKv(token, np.zeros(ranks.shape))


def indexer_bytes_per_token(head_dim: int) -> float:
    """One key of the sparse-attention indexer: fp8 values, an fp32 scale every 128 (132 bytes for 128)."""
    return head_dim + _INDEXER_SCALE_BYTES * -(-head_dim // _INDEXER_SCALE_BLOCK)


def kv_groups(spec: ModelSpec, *, mtp: bool = False) -> tuple[KvGroup, ...]:
    """The layer groups of ``spec`` in order as cache owners; ``mtp`` appends the multi-token-prediction blocks."""
    owners = [(group.attention, group.count) for group in spec.layers]
    if mtp and spec.mtp is not None:
        owners.append((spec.mtp.attention, spec.mtp.blocks))
    return tuple(_group(spec.attentions[name], layers) for name, layers in owners)


def kv_bytes_per_token(
    spec: ModelSpec, kv_format: str, tp: ArrayLike = 1, held_tokens: ArrayLike = 0, *, mtp: bool = False
) -> Array:
    """Bytes that one more token adds on one rank to a sequence that holds ``held_tokens``; both broadcast.

    Layers whose window is full add nothing: with 0 held tokens every layer counts. For all of a sequence use
    :func:`kv_bytes_per_sequence`.
    """
    held = np.asarray(held_tokens, dtype=float)
    total: Array = np.zeros(np.broadcast_shapes(held.shape, np.shape(tp)))
    for group in kv_groups(spec, mtp=mtp):
        grows = 1.0 if group.window_tokens is None else held < group.window_tokens
        total = total + group.layers * group.layer(kv_format, tp).token_bytes * grows
    return np.asarray(total)


def kv_bytes_per_sequence(
    spec: ModelSpec,
    kv_format: str,
    tokens: ArrayLike,
    tp: ArrayLike = 1,
    block_tokens: ArrayLike = 1,
    *,
    mtp: bool = False,
) -> Array:
    """Bytes of one sequence of ``tokens`` on one rank, whole blocks of ``block_tokens``; all broadcast.

    Windowed layers keep the window rounded up to blocks; linear layers their state. Padding of hybrid page groups is
    the engine's and stands in :mod:`planner.memory`.
    """
    length, block = np.asarray(tokens, dtype=float), np.asarray(block_tokens, dtype=float)
    if np.any(length < 0) or np.any(block < 1):
        raise InputError("tokens", tokens, "tokens of at least 0 in blocks of at least 1")
    total: Array = np.zeros(np.broadcast_shapes(length.shape, np.shape(tp), block.shape))
    for group in kv_groups(spec, mtp=mtp):
        one = group.layer(kv_format, tp)
        kept = length if group.window_tokens is None else np.minimum(length, group.window_tokens)
        held = np.ceil(kept / block) * block * one.token_bytes + np.where(length > 0, one.state_bytes, 0.0)
        total = total + group.layers * held
    return total


def uncompressed_mla_bytes_per_token(spec: ModelSpec, kv_format: str = "bf16") -> float:
    """What the same MLA heads would cache as plain multi-head attention: the honest base of a compression ratio.

    heads x (qk_nope + qk_rope + v) values a layer. Raises InputError where a layer is not MLA.
    """
    fmt = resolve_kv_format(kv_format)
    total = 0.0
    for group in kv_groups(spec):
        a = group.attention
        if not isinstance(a, MlaAttention):
            raise InputError("model", spec.id, "a model whose layers are all MLA")
        total += group.layers * a.heads * (a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim)
    return total * fmt.bytes_per_value


def _group(attention: AttentionSpec, layers: int) -> KvGroup:
    window = None
    if isinstance(attention, GqaAttention):
        window = attention.window_tokens or attention.chunk_tokens
    return KvGroup(attention.kind, layers, attention, window)


def _values(attention: AttentionSpec, tp: ArrayLike) -> Array:
    ranks = np.asarray(tp, dtype=float)
    if isinstance(attention, GqaAttention):
        return np.asarray(2.0 * attention.head_dim * np.ceil(attention.kv_heads / ranks))
    if isinstance(attention, MlaAttention):
        return np.full(ranks.shape, float(attention.kv_lora_rank + attention.qk_rope_head_dim))
    return np.zeros(ranks.shape)


def _state_bytes(a: LinearAttention, tp: NDArray[np.int64]) -> Array:
    """Delta-rule state (value heads x value dim x key dim) in its own format, convolution inputs in 16 bits."""
    state: Format = FORMATS[a.state_format]
    value_heads, key_heads = np.ceil(a.value_heads / tp), np.ceil(a.key_heads / tp)
    delta = value_heads * a.value_head_dim * a.key_head_dim * state.bytes_per_value
    channels = 2 * key_heads * a.key_head_dim + value_heads * a.value_head_dim
    return np.asarray(delta + channels * (a.conv_kernel - 1) * FORMATS["bf16"].bytes_per_value)

"""Times of attention cores: GQA (MHA, MQA, windows) and MLA, in prefill and decode."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.hardware.curves import Curve
from planner.roofline.op_common import Array, as_array, smooth_max

QUERY_BYTES = 2.0
"""Queries and outputs are 16-bit whatever the cache's data type."""

MLA_QK_DIM, MLA_V_DIM, MLA_LATENT_DIM, MLA_ROPE_DIM = 192, 128, 512, 64
"""DeepSeek-V2/V3 and Kimi-K2: per-head key (128 + 64) and value dimensions, cached latent and rope (config.json)."""


def causal_pairs(new_tokens: ArrayLike, past_tokens: ArrayLike, window: ArrayLike = 0) -> Array:
    """Query-key pairs one head computes for ``new_tokens`` after ``past_tokens``, causal, window 0 meaning none.

    Position i (counted from 1) sees min(i, window) keys: Σ_{i=past+1}^{past+new} min(i, window).
    """
    new, past, window = as_array(new_tokens), as_array(past_tokens), as_array(window)
    full = new * (past + 0.5 * (new + 1.0))
    if not np.any(window):
        return full
    ramp = np.clip(window - past, 0.0, new)
    limited = ramp * (past + 0.5 * (ramp + 1.0)) + (new - ramp) * window
    return np.where(window > 0, limited, full)


def keys_read(kv_tokens: ArrayLike, window: ArrayLike = 0) -> Array:
    """Keys a decode step reads of a sequence of ``kv_tokens``: all, or the window where there is one (> 0)."""
    kv, window = as_array(kv_tokens), as_array(window)
    return np.where(window > 0, np.minimum(kv, window), kv) if np.any(window) else kv


def prefill_attention(
    curve: Curve,
    batch: ArrayLike,
    new_tokens: ArrayLike,
    past_tokens: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    head_dim: ArrayLike,
    window: ArrayLike = 0,
) -> Array:
    """Seconds of one layer's causal attention over ``batch`` sequences of ``new_tokens`` after ``past_tokens``.

    ``heads`` and ``kv_heads`` per rank. FLOPs: 4 · heads · head_dim per causal pair (scores and values).
    """
    b, new, past = as_array(batch), as_array(new_tokens), as_array(past_tokens)
    h, g, d = as_array(heads), as_array(kv_heads), as_array(head_dim)
    pairs = b * h * causal_pairs(new, past, window)
    compute = pairs * (d * (4.0 / (curve["compute_efficiency"] * curve.peak_flops)))
    moved = b * d * (2.0 * new * h * QUERY_BYTES + 2.0 * (past + new) * g * curve.activation_bytes)
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    return curve["floor_s"] + smooth_max(compute, memory, curve["exponent"])


def decode_attention(
    curve: Curve,
    batch: ArrayLike,
    kv_tokens: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    head_dim: ArrayLike,
    window: ArrayLike = 0,
    kv_bytes: ArrayLike | None = None,
) -> Array:
    """Seconds of one layer's attention of one new token for each of ``batch`` sequences with ``kv_tokens`` cached.

    ``kv_bytes`` per cached value (default: the curve's data type). Streaming K and V once is the memory term; the
    compute term counts each key against its group of queries padded to the tensor core's rows.
    """
    b, h, g, d = as_array(batch), as_array(heads), as_array(kv_heads), as_array(head_dim)
    kv = keys_read(kv_tokens, window)
    size = curve.activation_bytes if kv_bytes is None else kv_bytes
    cache = b * kv * g * d * (2.0 * as_array(size))
    memory = cache * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    compute = b * kv * h * d * (4.0 / (curve["compute_efficiency"] * curve.peak_flops))
    return curve["floor_s"] + smooth_max(compute, memory, curve["exponent"])


def prefill_mla(
    curve: Curve, batch: ArrayLike, new_tokens: ArrayLike, past_tokens: ArrayLike, heads: ArrayLike
) -> Array:
    """Seconds of one MLA layer's causal attention with keys and values decompressed (192 and 128 per head)."""
    b, new, past, h = as_array(batch), as_array(new_tokens), as_array(past_tokens), as_array(heads)
    pairs = b * h * causal_pairs(new, past)
    compute = pairs * (2.0 * (MLA_QK_DIM + MLA_V_DIM) / (curve["compute_efficiency"] * curve.peak_flops))
    moved = b * h * (2.0 * new + past) * ((MLA_QK_DIM + MLA_V_DIM) * QUERY_BYTES)
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    return curve["floor_s"] + smooth_max(compute, memory, curve["exponent"])


def decode_mla(
    curve: Curve, batch: ArrayLike, kv_tokens: ArrayLike, heads: ArrayLike, kv_bytes: ArrayLike | None = None
) -> Array:
    """Seconds of one absorbed-MLA decode layer: every head reads the same 576 cached values per token."""
    b, kv, h = as_array(batch), as_array(kv_tokens), as_array(heads)
    size = curve.activation_bytes if kv_bytes is None else kv_bytes
    cache = b * kv * (as_array(size) * (MLA_LATENT_DIM + MLA_ROPE_DIM))
    memory = cache * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    flops = 2.0 * (2 * MLA_LATENT_DIM + MLA_ROPE_DIM)
    compute = b * kv * h * (flops / (curve["compute_efficiency"] * curve.peak_flops))
    return curve["floor_s"] + smooth_max(compute, memory, curve["exponent"])

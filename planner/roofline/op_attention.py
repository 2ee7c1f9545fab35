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

    ``heads`` and ``kv_heads`` per rank. FLOPs: 4 · heads · head_dim per causal pair (scores and values); on top the
    masked half of diagonal tiles (``padding_keys`` per query), the softmax as extra head width and the serial walk of
    a query tile along its keys.
    """
    b, new, past = as_array(batch), as_array(new_tokens), as_array(past_tokens)
    h, g, d = as_array(heads), as_array(kv_heads), as_array(head_dim)
    window = as_array(window)
    pairs = b * h * (causal_pairs(new, past, window) + new * curve["padding_keys"])
    width = d + curve["overhead_width"]
    compute = pairs * width * (4.0 / (curve["compute_efficiency"] * curve.peak_flops))
    keys = keys_read(past + new, np.where(window > 0, window + new, 0.0))
    moved = b * d * (new * h * (2.0 * QUERY_BYTES) + keys * g * (2.0 * curve.activation_bytes))
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    serial = keys_read(past + new, window) * curve["depth_s_per_token"]
    return curve["floor_s"] + serial + smooth_max(compute, memory, curve["exponent"])


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

    ``kv_bytes`` per cached value (default: the curve's data type). K and V are streamed once; beside the roofline a
    launch floor, ``block_s`` for each (sequence, kv head) block scheduled and the serial walk along the keys, which
    together keep small caches far below the memory bandwidth.
    """
    b, h, g, d = as_array(batch), as_array(heads), as_array(kv_heads), as_array(head_dim)
    kv = keys_read(kv_tokens, window)
    size = curve.activation_bytes if kv_bytes is None else kv_bytes
    moved = b * d * (kv * g * (2.0 * as_array(size)) + h * (2.0 * QUERY_BYTES))
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    compute = b * kv * h * d * (4.0 / (curve["compute_efficiency"] * curve.peak_flops))
    serial = kv * curve["depth_s_per_token"] + b * g * curve["block_s"]
    return curve["floor_s"] + serial + smooth_max(compute, memory, curve["exponent"])


def prefill_mla(
    curve: Curve, batch: ArrayLike, new_tokens: ArrayLike, past_tokens: ArrayLike, heads: ArrayLike
) -> Array:
    """Seconds of one MLA layer's causal attention with keys and values decompressed (192 and 128 per head)."""
    b, new, past, h = as_array(batch), as_array(new_tokens), as_array(past_tokens), as_array(heads)
    pairs = b * h * (causal_pairs(new, past) + new * curve["padding_keys"])
    compute = pairs * (2.0 * (MLA_QK_DIM + MLA_V_DIM) / (curve["compute_efficiency"] * curve.peak_flops))
    moved = b * h * (2.0 * new + past) * ((MLA_QK_DIM + MLA_V_DIM) * QUERY_BYTES)
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    serial = (past + new) * curve["depth_s_per_token"]
    return curve["floor_s"] + serial + smooth_max(compute, memory, curve["exponent"])


def decode_mla(
    curve: Curve, batch: ArrayLike, kv_tokens: ArrayLike, heads: ArrayLike, kv_bytes: ArrayLike | None = None
) -> Array:
    """Seconds of one absorbed-MLA decode layer: every head reads the same 576 cached values per token.

    ``heads`` per rank, padded by ``padding_rows`` to the tensor core's tile; with 128 heads it is compute-bound.
    """
    b, kv, h = as_array(batch), as_array(kv_tokens), as_array(heads)
    size = curve.activation_bytes if kv_bytes is None else kv_bytes
    latent = MLA_LATENT_DIM + MLA_ROPE_DIM
    moved = b * (kv * (as_array(size) * latent) + h * ((MLA_LATENT_DIM + latent) * QUERY_BYTES))
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    rows = h + curve["padding_rows"]
    flops = 2.0 * (MLA_LATENT_DIM + latent)
    compute = b * kv * rows * (flops / (curve["compute_efficiency"] * curve.peak_flops))
    serial = kv * curve["depth_s_per_token"] + b * rows * curve["block_s"]
    return curve["floor_s"] + serial + smooth_max(compute, memory, curve["exponent"])

"""Times of dense matrix products: GEMM and the per-head products that MLA absorbs into queries and outputs."""

from __future__ import annotations

from numpy.typing import ArrayLike

from planner.hardware.curves import Curve
from planner.roofline.op_common import Array, as_array, smooth_max

MLA_NOPE_DIM, MLA_LATENT_DIM = 128, 512
"""DeepSeek-V2/V3 and Kimi-K2: per-head dimension without rope and width of the cached latent (config.json)."""

OUTPUT_BYTES = 2.0
"""Outputs of a product are written in 16 bits whatever the inputs' data type."""


def gemm(curve: Curve, m: ArrayLike, n: ArrayLike, k: ArrayLike) -> Array:
    """Seconds of an (m × k) · (k × n) product; m, n, k in elements, broadcast.

    Beside the roofline: launch floor, the serial walk of a tile along k, rows that pad m to a tile, and the separate
    pass that quantises the activations to 8 or 4 bits (``quantise_bytes`` moved per element of m × k).
    """
    m, n, k = as_array(m), as_array(n), as_array(k)
    nk, mk = n * k, m * k
    compute = (m + curve["padding_rows"]) * nk * (2.0 / (curve["compute_efficiency"] * curve.peak_flops))
    moved = nk * curve.weight_bytes + mk * curve.activation_bytes + m * n * OUTPUT_BYTES
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    serial = k * curve["depth_s_per_element"] + mk * (curve["quantise_bytes"] / curve.mem_bw)
    return curve["floor_s"] + serial + smooth_max(compute, memory, curve["exponent"])


def mla_bmm(curve: Curve, tokens: ArrayLike, heads: ArrayLike) -> Array:
    """Seconds of one of a decode layer's two absorbed products: per head (tokens × 128) · (128 × 512), or back.

    The layer runs two: queries into the latent space and outputs out of it.
    """
    t, h = as_array(tokens), as_array(heads)
    area = MLA_NOPE_DIM * MLA_LATENT_DIM
    compute = t * h * (2.0 * area / (curve["compute_efficiency"] * curve.peak_flops))
    moved = h * (area * curve.weight_bytes + t * ((MLA_NOPE_DIM + MLA_LATENT_DIM) * OUTPUT_BYTES))
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    return curve["floor_s"] + smooth_max(compute, memory, curve["exponent"])

"""Time of the grouped expert GEMMs of one rank (gate, up and down projections)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.hardware.curves import Curve
from planner.roofline.moe import touched_share
from planner.roofline.op_common import Array, as_array, smooth_max
from planner.roofline.op_dense import OUTPUT_BYTES

GATED_MATRICES = 3.0
"""Gate, up and down of a gated (SwiGLU) expert; a plain expert has 2."""


def grouped_gemm_rank(
    curve: Curve,
    pairs: ArrayLike,
    touched: ArrayLike,
    hidden: ArrayLike,
    inter: ArrayLike,
    matrices: ArrayLike = GATED_MATRICES,
    routed: ArrayLike | None = None,
) -> Array:
    """Seconds of one rank's expert GEMMs for ``pairs`` (token, expert) rows spread over ``touched`` experts.

    ``hidden`` is the model width, ``inter`` the expert's width on this rank (already divided by moe_tp). Each touched
    expert's weights are streamed once and its rows padded by ``padding_rows``; ``routed`` pairs (default: ``pairs``)
    are sorted and permuted first: all of the EP group's where tokens were gathered, the rank's own behind a dispatch.
    """
    pairs, touched = as_array(pairs), as_array(touched)
    hidden, inter = as_array(hidden), as_array(inter)
    weights = hidden * inter * as_array(matrices)
    rows = pairs + touched * curve["padding_rows"]
    compute = rows * weights * (2.0 / (curve["compute_efficiency"] * curve.peak_flops))
    moved = touched * weights * curve.weight_bytes + pairs * hidden * (curve.activation_bytes + OUTPUT_BYTES)
    memory = moved * (1.0 / (curve["bandwidth_efficiency"] * curve.mem_bw))
    serial = pairs * (hidden + inter) * (curve["activation_pass_bytes"] / curve.mem_bw)
    serial = serial + (pairs if routed is None else as_array(routed)) * curve["routing_s_per_pair"]
    return curve["floor_s"] + serial + smooth_max(compute, memory, curve["exponent"])


def rank_load(
    tokens: ArrayLike,
    topk: ArrayLike,
    experts: ArrayLike,
    ep: ArrayLike,
    load: ArrayLike = 1.0,
    skew_cv: float = 0.0,
) -> tuple[Array, Array]:
    """(pairs, touched experts) of the rank that carries ``load`` times the mean of its EP group.

    ``tokens`` over the whole EP group. An expert of that rank is met by a token with probability load · k / E on
    average; which share of its E / ep experts a batch touches follows from their popularity
    (:func:`planner.roofline.moe.touched_share`).
    """
    t, k, e, r = as_array(tokens), as_array(topk), as_array(experts), as_array(ep)
    held = e / r
    pairs = t * np.minimum(as_array(load) * k / e, 1.0) * held
    return pairs, held * touched_share(t, e, k, skew_cv, load)


def grouped_gemm(
    curve: Curve,
    tokens: ArrayLike,
    hidden: ArrayLike,
    inter: ArrayLike,
    topk: ArrayLike,
    experts: ArrayLike,
    moe_tp: ArrayLike,
    ep: ArrayLike,
    load: ArrayLike = 1.0,
    matrices: ArrayLike = GATED_MATRICES,
    skew_cv: float = 0.0,
) -> Array:
    """Seconds of the expert GEMMs on the rank with ``load`` (max / mean of tokens per EP rank) times the mean.

    ``tokens`` over the whole EP group (as in the measurements), ``inter`` the expert's full width. Curves of class
    ``moe`` gather all tokens on each rank; the ``moe_deepep_*`` ones receive only their own (``gathers`` says which).
    ``skew_cv``: coefficient of variation of the experts' popularity.
    """
    pairs, touched = rank_load(tokens, topk, experts, ep, load, skew_cv)
    routed = as_array(tokens) * as_array(topk) if curve["gathers"] else None
    width = as_array(inter) / as_array(moe_tp)
    return grouped_gemm_rank(curve, pairs, touched, hidden, width, matrices, routed)

"""Operator times, all in one place: pure functions of a :class:`~planner.hardware.curves.Curve` and arrays → seconds.

Every function broadcasts its array arguments (scalars included) in float64. Form, in general: a floor plus the smooth
maximum of a compute and a memory (or wire) term, each a fraction of the device's own peak
(``shared/measured/README.md``; Williams et al. 2009, "Roofline").
"""

from __future__ import annotations

from planner.roofline.op_attention import (
    causal_pairs,
    decode_attention,
    decode_mla,
    keys_read,
    prefill_attention,
    prefill_mla,
)
from planner.roofline.op_collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    deepep_ll_combine,
    deepep_ll_dispatch,
    deepep_normal_combine,
    deepep_normal_dispatch,
    distinct_targets,
    reduce_scatter,
    send,
)
from planner.roofline.op_common import smooth_max
from planner.roofline.op_dense import gemm, mla_bmm
from planner.roofline.op_moe import GATED_MATRICES, grouped_gemm, grouped_gemm_rank, rank_load

__all__ = [
    "GATED_MATRICES",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "causal_pairs",
    "decode_attention",
    "decode_mla",
    "deepep_ll_combine",
    "deepep_ll_dispatch",
    "deepep_normal_combine",
    "deepep_normal_dispatch",
    "distinct_targets",
    "gemm",
    "grouped_gemm",
    "grouped_gemm_rank",
    "keys_read",
    "mla_bmm",
    "prefill_attention",
    "prefill_mla",
    "rank_load",
    "reduce_scatter",
    "send",
    "smooth_max",
]

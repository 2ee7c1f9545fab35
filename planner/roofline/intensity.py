"""FLOPs and bytes behind the terms of a step: where each stands on a roofline.

What the work needs at the least (every weight, cached value and activation moved once), without a kernel's padding and
passes: those show as distance from the roof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import LinearAttention, MlaAttention, ModelSpec
from planner.layout.layouts import Layouts
from planner.model.flops import Phase, attention_flops
from planner.model.formats import FORMATS
from planner.model.kv import layer_kv
from planner.roofline.moe import touched_experts
from planner.roofline.program import AttentionOp, GemmOp, MoeOp
from planner.roofline.step import StepContext, StepWork

Array = NDArray[np.float64]

ACTIVATION_BYTES = 2.0
"""Inputs and outputs of operators lie in memory in 16 bits."""
MATRICES_OF_AN_EXPERT = 3.0
"""Gate, up and down projection."""


@dataclass(frozen=True)
class Work:
    """Work of one term on one rank in one step, arrays (n,)."""

    flops: Array
    bytes: Array
    activations: Array | float = 0.0
    """Of the bytes, inputs and outputs: what of them a GPU's cache keeps between kernels is not moved."""

    def bytes_within(self, seconds: Array | float, bandwidth: float) -> Array:
        """Bytes that went to memory where the work took ``seconds``, (n,): activations only as far as ``bandwidth``
        B/s had time for them beside the rest. Times of a step are never shorter than their weights' stream alone
        (:class:`planner.roofline.step.StepTimes`), which leaves no time for activations then.
        """
        fixed = self.bytes - self.activations
        return np.asarray(fixed + np.clip(seconds * bandwidth - fixed, 0.0, self.activations))

    @property
    def intensity(self) -> Array:
        """FLOPs per byte."""
        return self.flops / np.maximum(self.bytes, 1e-300)

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.bytes + other.bytes, self.activations + other.activations)

    def times(self, factor: Array | float) -> Work:
        """The same work ``factor`` times."""
        return Work(self.flops * factor, self.bytes * factor, self.activations * factor)


def step_work(
    spec: ModelSpec, ctx: StepContext, layouts: Layouts, work: StepWork, two_batch: NDArray[np.bool_]
) -> dict[str, Work]:
    """Work by compute term of :func:`planner.roofline.step.step_times`, all layers; n candidates, layout i does work i.

    As there, pipeline stages and overlapped micro-batches divide the tokens and read the weights each on its own. Of
    experts, the mean rank's.
    """
    tp = layouts.tp.astype(float)
    parts = layouts.pp * np.where(two_batch, 2.0, 1.0)
    repeat = parts / layouts.pp
    decode = work.decode_seqs / parts
    zero = np.zeros(len(layouts))
    prefill = zero if work.prefill_tokens is None else work.prefill_tokens / parts
    seqs = zero if work.prefill_seqs is None else work.prefill_seqs / parts
    past = zero if work.prefill_past is None else work.prefill_past
    tokens, sampled = decode + prefill, decode + seqs
    group = decode * layouts.attention_dp
    group = group + (zero if work.prefill_group_tokens is None else work.prefill_group_tokens / parts)
    group = np.where(layouts.attention_dp > 1, group, tokens)

    found: dict[str, Work] = {}

    def add(term: str, one: Work, layers: int) -> None:
        whole = one.times(repeat * layers)
        found[term] = found[term] + whole if term in found else whole

    for gemm in ctx.program.gemms:
        ranks = ctx.ranks_of(gemm, layouts, tp)
        rows = sampled if gemm.term == "head" else tokens
        add(gemm.term, _gemm(ctx, gemm, rows * (ranks / tp), ranks), gemm.layers)
    core = _core(spec, ctx, decode, np.ones(len(layouts)), work.kv_tokens, tp, "decode")
    if work.has_prefill:
        core = core + _core(spec, ctx, seqs, prefill / np.maximum(seqs, 1e-9), past, tp, "prefill")
    add("attention_core", core, 1)
    for moe in ctx.program.moes:
        add("routed_experts", _experts(ctx, moe, group, layouts), moe.layers)
    return found


def _gemm(ctx: StepContext, gemm: GemmOp, rows: Array, ranks: Array) -> Work:
    n, k = gemm.n(ranks), gemm.k(ranks)
    weights = FORMATS[getattr(ctx.precision, gemm.tensor_class)].bytes_per_value
    activations = rows * (n + k) * ACTIVATION_BYTES
    return Work(2.0 * rows * n * k, n * k * weights + activations, activations)


def _core(spec: ModelSpec, ctx: StepContext, seqs: Array, new: Array, past: Array, tp: Array, phase: Phase) -> Work:
    """Attention cores of all layers: ``seqs`` sequences with ``new`` tokens each after ``past`` cached ones."""
    flops = attention_flops(spec, new, past, phase) / tp
    moved = np.zeros(seqs.shape)
    for attention in ctx.program.attentions:
        moved = moved + attention.layers * _core_bytes(ctx, attention, new, past, tp, phase)
    return Work(flops * seqs, moved * seqs)


def _core_bytes(ctx: StepContext, attention: AttentionOp, new: Array, past: Array, tp: Array, phase: Phase) -> Array:
    """Cache read and written, queries in and outputs out, of one sequence in one layer."""
    a = attention.spec
    cached = layer_kv(a, ctx.precision.kv, tp.astype(np.int64))
    if isinstance(a, LinearAttention):
        return 2.0 * cached.state_bytes
    held = past + new
    if isinstance(a, MlaAttention):
        width = a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim
        if phase == "decode":
            width = 2 * a.kv_lora_rank + a.qk_rope_head_dim
            held = held if a.indexer is None else np.minimum(held, a.indexer.topk_tokens)
    else:
        width = 2 * a.head_dim
        window = a.window_tokens or a.chunk_tokens
        held = held if window is None else np.minimum(held, window + new - 1.0)
    return held * cached.token_bytes + new * (a.heads / tp) * (width * ACTIVATION_BYTES)


def _experts(ctx: StepContext, moe: MoeOp, group_tokens: Array, layouts: Layouts) -> Work:
    spec, hidden = moe.spec, float(ctx.program.hidden)
    inter = spec.expert_intermediate_size / layouts.moe_tp
    rows = group_tokens * spec.experts_per_token / layouts.ep
    touched = touched_experts(group_tokens, spec.experts, spec.experts_per_token, ctx.expert_skew) / layouts.ep
    weights = FORMATS[ctx.precision.routed_experts].bytes_per_value
    matrices = MATRICES_OF_AN_EXPERT * hidden * inter
    activations = rows * (2.0 * hidden + MATRICES_OF_AN_EXPERT * inter) * ACTIVATION_BYTES
    return Work(2.0 * rows * matrices, touched * matrices * weights + activations, activations)

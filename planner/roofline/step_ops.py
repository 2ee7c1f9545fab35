"""Seconds of one layer's operators in a step, for all candidates at once: GEMMs, attention, experts, exchanges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import GqaAttention, LinearAttention, MlaAttention
from planner.errors import InputError
from planner.hardware.curves import Curve
from planner.layout.layouts import Layouts
from planner.model.precision import FORMATS
from planner.roofline import operators as op
from planner.roofline.moe import rank_imbalance
from planner.roofline.program import ABSORBED_GEMMS, AttentionOp, GemmOp, MoeOp
from planner.roofline.step_work import Batch, StepContext

Array = NDArray[np.float64]


def gemm_s(ctx: StepContext, gemm: GemmOp, batch: Batch, tp: Array, ranks: Array) -> Array:
    """Seconds of a layer's product whose weights ``ranks`` of the replica's ``tp`` split, the others its tokens."""
    dtype = getattr(ctx.precision, gemm.tensor_class)
    if gemm.key in ABSORBED_GEMMS:
        return _mla_up_projection(ctx, gemm, dtype, batch, tp)
    rows = batch.sampled if gemm.term == "head" else batch.tokens
    if ranks is not tp:
        rows = rows * (ranks / tp)
    return op.gemm(ctx.curves.get("gemm", dtype), rows, gemm.n(ranks), gemm.k(ranks))


def gemm_stream_s(ctx: StepContext, gemm: GemmOp, ranks: Array) -> Array:
    """Seconds of streaming a layer's weights of one product once at full bandwidth."""
    curve = ctx.curves.get("gemm", getattr(ctx.precision, gemm.tensor_class))
    return gemm.n(ranks) * gemm.k(ranks) * (curve.weight_bytes / curve.mem_bw)


def _mla_up_projection(ctx: StepContext, gemm: GemmOp, dtype: str, batch: Batch, tp: Array) -> Array:
    """kv_b: a GEMM over prompt tokens; for decode tokens its two halves are absorbed into queries and outputs."""
    heads = gemm.parts[0][2] / tp
    time = 2.0 * op.mla_bmm(ctx.curves.get("mla_bmm", "bf16"), batch.decode, heads)
    time = np.where(batch.decode > 0, time, 0.0)
    if batch.prefill is not None:
        time = time + op.gemm(ctx.curves.get("gemm", dtype), batch.prefill, gemm.n(tp), gemm.k(tp))
    return time


def _cache_type(ctx: StepContext) -> str:
    """Data type of the attention curves for the KV format in use."""
    return "fp8" if FORMATS[ctx.precision.kv].bits <= 8 else "bf16"


def attention_s(ctx: StepContext, attention: AttentionOp, batch: Batch, tp: Array) -> Array:
    spec = attention.spec
    kv = _cache_type(ctx)
    kv_bytes = FORMATS[ctx.precision.kv].bytes_per_value
    if isinstance(spec, LinearAttention):
        return _linear_attention(ctx, spec, batch, tp)
    heads = spec.heads / tp
    if isinstance(spec, MlaAttention):
        seen = batch.kv if spec.indexer is None else np.minimum(batch.kv, spec.indexer.topk_tokens)
        time = op.decode_mla(ctx.curves.get("decode_mla", kv), batch.decode, seen, heads, kv_bytes)
        if spec.indexer is not None:
            time = time + _indexer(ctx, spec, batch)
    else:
        kv_heads = np.maximum(spec.kv_heads / tp, 1.0)
        window = spec.window_tokens or spec.chunk_tokens or 0
        curve = ctx.curves.get("decode_attention", kv)
        time = op.decode_attention(curve, batch.decode, batch.kv, heads, kv_heads, spec.head_dim, window, kv_bytes)
    time = np.where(batch.decode > 0, time, 0.0)
    if batch.prefill is not None:
        time = time + _prefill_attention(ctx, spec, batch, heads, tp)
    return time


def _prefill_attention(
    ctx: StepContext, spec: GqaAttention | MlaAttention, batch: Batch, heads: Array, tp: Array
) -> Array:
    assert batch.prefill is not None
    assert batch.prefill_seqs is not None
    assert batch.prefill_past is not None
    seqs = np.maximum(batch.prefill_seqs, 1e-9)
    new = batch.prefill / seqs
    kv = _cache_type(ctx)
    if isinstance(spec, MlaAttention):
        return op.prefill_mla(ctx.curves.get("prefill_mla", kv), seqs, new, batch.prefill_past, heads)
    window = spec.window_tokens or spec.chunk_tokens or 0
    kv_heads = np.maximum(spec.kv_heads / tp, 1.0)
    curve = ctx.curves.get("prefill_attention", kv)
    return op.prefill_attention(curve, seqs, new, batch.prefill_past, heads, kv_heads, spec.head_dim, window)


def _indexer(ctx: StepContext, spec: MlaAttention, batch: Batch) -> Array:
    """Scores of the sparse-attention indexer: every cached key (fp8) once per sequence, memory-bound in decode."""
    assert spec.indexer is not None
    c = ctx.coefficients
    cached = batch.decode * batch.kv * (spec.indexer.head_dim + 4.0)
    flops = batch.decode * batch.kv * (2.0 * spec.indexer.heads * spec.indexer.head_dim)
    device = ctx.curves.device
    return np.asarray(
        cached / (c.stream_efficiency * device.mem_bw) + flops / (c.scan_efficiency * device.peak_flops["bf16"])
    )


def _linear_attention(ctx: StepContext, spec: LinearAttention, batch: Batch, tp: Array) -> Array:
    """Gated delta rule: decode reads and writes the state once per sequence; prefill is chunked matrix products.

    FLOPs per prompt token and value head: about 6 key_dim value_dim (chunk products, state update and read-out).
    """
    c, device = ctx.coefficients, ctx.curves.device
    value_heads = spec.value_heads / tp
    cells = value_heads * (spec.key_head_dim * spec.value_head_dim)
    state_bytes = cells * (FORMATS[spec.state_format].bits / 8)
    time = 2.0 * batch.decode * state_bytes / (c.stream_efficiency * device.mem_bw) + c.scan_floor_s
    if batch.prefill is not None:
        time = time + 6.0 * batch.prefill * cells / (c.scan_efficiency * device.peak_flops["bf16"])
    return np.asarray(time)


def kernel_layers(ctx: StepContext) -> float:
    """Layers, counted by their small kernels: one with a plain attention counts as one."""
    c = ctx.coefficients
    total = 0.0
    for attention in ctx.program.attentions:
        spec = attention.spec
        extra = 0.0
        if isinstance(spec, MlaAttention):
            extra = c.latent_kernels + (c.indexer_kernels if spec.indexer else 0.0)
        elif isinstance(spec, LinearAttention):
            extra = c.linear_attention_kernels
        elif spec.qk_norm != "none":
            extra = c.qk_norm_kernels
        total += attention.layers * (1.0 + extra)
    return total


def elementwise_s(ctx: StepContext, batch: Batch) -> Array:
    """Norms, rotary embedding, activation, quantisation of all layers, and the routing kernels of those with experts:
    launches plus streams of the hidden state."""
    c, program = ctx.coefficients, ctx.program
    launches = c.layer_overhead_s * kernel_layers(ctx) + c.moe_layer_overhead_s * program.moe_layers
    moved = batch.tokens * (program.hidden * program.layers * c.elementwise_passes * 2.0)
    return np.asarray(launches + moved / (c.stream_efficiency * ctx.curves.device.mem_bw))


def all_reduce_per_layer_s(ctx: StepContext, batch: Batch, tp: Array) -> Array:
    if not np.any(tp > 1):
        return np.zeros_like(tp)
    size = batch.tokens * (ctx.program.hidden * 2.0)
    time = op.all_reduce(ctx.curves.get("all_reduce", "bf16"), size, np.minimum(tp, ctx.domain))
    if np.any(tp > ctx.domain):  # an engine's own all-reduce reaches its peers' memory; beyond, it is NCCL's
        far = op.all_reduce(ctx.curves.get("all_reduce_nccl", "bf16"), size, tp, float(ctx.domain))
        time = np.where(tp > ctx.domain, far, time)
    return np.where(tp > 1, time, 0.0)


def experts_s(
    ctx: StepContext,
    moe: MoeOp,
    group_tokens: Array,
    layouts: Layouts,
    deepep: NDArray[np.bool_],
    has_prefill: bool,
) -> tuple[Array, Array, Array]:
    """Seconds of one layer's grouped GEMMs on the hottest rank, and of streaming its touched experts' weights once.

    Behind a point-to-point dispatch a rank sees only its own tokens, and kernels of their own run there; elsewhere a
    fused kernel sorts the tokens of the whole group. Third, what weaker tensor cores than those of the measured
    kernel add to the time: end-to-end factors were fitted beside the stronger ones and do not multiply it.
    """
    spec = moe.spec
    load = rank_imbalance(
        group_tokens,
        spec.experts_per_token,
        spec.experts,
        layouts.ep,
        layouts.redundant_experts,
        ctx.expert_skew,
        ctx.coefficients.placement_residual,
    )
    pairs, touched = op.rank_load(group_tokens, spec.experts_per_token, spec.experts, layouts.ep, load, ctx.expert_skew)
    routed = group_tokens * spec.experts_per_token
    width = spec.expert_intermediate_size / layouts.moe_tp.astype(float)
    matrix = ctx.program.hidden * op.GATED_MATRICES
    time, stream, apart = np.empty(len(layouts)), np.empty(len(layouts)), np.zeros(len(layouts))

    def seconds(curve: Curve, rows: NDArray[np.int64]) -> Array:
        sorted_rows = routed[rows] if curve["gathers"] else None
        return op.grouped_gemm_rank(
            curve, pairs[rows], touched[rows], ctx.program.hidden, width[rows], routed=sorted_rows
        )

    def evaluate(curve: Curve, rows: NDArray[np.int64]) -> None:
        time[rows] = seconds(curve, rows)
        if curve.as_measured is not None:
            apart[rows] = np.maximum(time[rows] - seconds(curve.as_measured, rows), 0.0)
        stream[rows] = touched[rows] * width[rows] * (matrix * curve.weight_bytes / curve.mem_bw)

    direct, gathered = np.flatnonzero(deepep), np.flatnonzero(~deepep)
    if gathered.size:
        evaluate(ctx.curves.get(ctx.expert_kernel, ctx.precision.routed_experts), gathered)
    if direct.size:
        evaluate(dispatched_expert_curve(ctx, has_prefill), direct)
    return time, stream, apart


def dispatched_expert_curve(ctx: StepContext, has_prefill: bool) -> Curve:
    """Experts behind a dispatch; the fused kernel's curve where no such kernel was measured for the format."""
    kind = "moe_deepep_prefill" if has_prefill else "moe_deepep_decode"
    try:
        return ctx.curves.get(kind, ctx.precision.routed_experts)
    except InputError:
        return ctx.curves.get("moe", ctx.precision.routed_experts)


def exchange_s(
    ctx: StepContext,
    moe: MoeOp,
    group_tokens: Array,
    layouts: Layouts,
    deepep: NDArray[np.bool_],
    has_prefill: bool,
) -> tuple[Array, Array]:
    """Seconds of one layer's dispatch and combine; zero where every rank already has all tokens (attention_dp = 1)."""
    dispatch, combine = np.zeros(len(layouts)), np.zeros(len(layouts))
    ranks = layouts.stage_gpus.astype(float)
    moves = (layouts.attention_dp > 1) & (ranks > 1)
    gather = np.flatnonzero(moves & ~deepep)
    if gather.size:
        total = group_tokens[gather] * ctx.program.hidden
        width = FORMATS[ctx.precision.dispatch].bits / 8
        curve = ctx.curves.get("all_gather", "bf16")
        dispatch[gather] = op.all_gather(curve, total * width, ranks[gather], float(ctx.domain))
        curve = ctx.curves.get("reduce_scatter", "bf16")
        combine[gather] = op.reduce_scatter(curve, total * 2.0, ranks[gather], float(ctx.domain))
    direct = np.flatnonzero(moves & deepep)
    if direct.size:
        kind = "deepep_normal" if has_prefill else "deepep_ll"
        tokens = group_tokens[direct] / ranks[direct]
        common = (tokens, ctx.program.hidden, moe.spec.experts_per_token, ranks[direct], float(ctx.domain))
        send = ctx.curves.get(f"{kind}_dispatch", ctx.precision.dispatch)
        back = ctx.curves.get(f"{kind}_combine", ctx.precision.combine)
        if has_prefill:
            limit = moe.spec.groups_per_token if moe.spec.groups > 1 else moe.spec.experts_per_token
            dispatch[direct] = op.deepep_normal_dispatch(send, *common, float(limit))
            combine[direct] = op.deepep_normal_combine(back, *common, float(limit))
        else:
            dispatch[direct] = op.deepep_ll_dispatch(send, *common)
            combine[direct] = op.deepep_ll_combine(back, *common)
    return dispatch, combine


def pipeline_s(ctx: StepContext, batch: Batch, layouts: Layouts) -> Array:
    if not np.any(layouts.pp > 1):
        return np.zeros(len(layouts))
    size = batch.tokens * (ctx.program.hidden * 2.0)
    far = layouts.gpus > ctx.domain
    return (layouts.pp - 1) * op.send(ctx.curves.get("send", "bf16"), size, far)

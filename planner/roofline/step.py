"""One forward step of an engine: the time of every operator, what shows and what is hidden, for a million candidates
at once.

A step processes, on each attention-DP rank, ``decode_seqs`` sequences of one new token each and, when it is a mixed
or prefill step, ``prefill_tokens`` prompt tokens. Terms follow the breakdown of the requirements (B1): attention
projections, attention core, router, dispatch, routed experts, combine, shared experts, dense MLP, norms and other,
collectives, head, pipeline sends, host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.model_spec import GqaAttention, LinearAttention, MlaAttention
from planner.errors import InputError
from planner.hardware.curves import Curve, CurveSet
from planner.layout.layouts import Layouts
from planner.model.precision import FORMATS, PrecisionPlan
from planner.roofline import operators as op
from planner.roofline.coefficients import StepCoefficients
from planner.roofline.moe import rank_imbalance
from planner.roofline.program import ABSORBED_GEMMS, AttentionOp, GemmOp, MoeOp, Program

Array = NDArray[np.float64]

COMPUTE_TERMS = (
    "attention_projections",
    "attention_core",
    "router",
    "routed_experts",
    "shared_experts",
    "dense_mlp",
    "norms_other",
    "head",
)
COMMUNICATION_TERMS = ("collectives", "dispatch", "combine", "pp_send")
TERMS = (*COMPUTE_TERMS, *COMMUNICATION_TERMS, "host")

FAMILY_OF_TERM = {
    "attention_projections": "linear",
    "router": "linear",
    "shared_experts": "linear",
    "dense_mlp": "linear",
    "head": "linear",
    "attention_core": "attention",
    "routed_experts": "experts",
    "norms_other": "other",
    "collectives": "communication",
    "dispatch": "communication",
    "combine": "communication",
    "pp_send": "communication",
}
"""Which end-to-end factor scales a term; host time has its own coefficients."""


CLASS_OF_TERM = {
    "attention_projections": "attention",
    "router": "router",
    "shared_experts": "shared_experts",
    "dense_mlp": "dense_mlp",
    "head": "head",
    "routed_experts": "routed_experts",
}
"""Tensor class of the weights that a term streams."""


@dataclass(frozen=True)
class StepContext:
    """What all candidates of one evaluation share: the model, its formats, one accelerator and engine."""

    program: Program
    precision: PrecisionPlan
    curves: CurveSet
    coefficients: StepCoefficients
    domain: int
    """Ranks in a scale-up domain."""
    expert_skew: float
    """Coefficient of variation of expert popularity (planner.roofline.moe)."""
    cuda_graphs: bool = True


@dataclass(frozen=True)
class StepWork:
    """Work of one step; arrays of shape (n,) that go with the layouts. Counts are per attention-DP rank.

    ``prefill_tokens`` on the busiest rank come from ``prefill_seqs`` sequences of which ``prefill_past`` tokens each
    are cached; ``prefill_group_tokens`` is their sum over the worker's ranks.
    """

    decode_seqs: Array
    kv_tokens: Array
    prefill_tokens: Array | None = None
    prefill_seqs: Array | None = None
    prefill_past: Array | None = None
    prefill_group_tokens: Array | None = None

    @property
    def has_prefill(self) -> bool:
        return self.prefill_tokens is not None


@dataclass(frozen=True)
class StepTimes:
    """Seconds by term, shape (n,): ``exposed`` adds up to ``total``; ``hidden`` runs beside it."""

    exposed: dict[str, Array]
    hidden: dict[str, Array] = field(default_factory=dict)

    @property
    def total(self) -> Array:
        return np.asarray(sum(self.exposed.values()), dtype=float)


def step_times(
    ctx: StepContext, layouts: Layouts, work: StepWork, two_batch: NDArray[np.bool_], deepep: NDArray[np.bool_]
) -> StepTimes:
    """Times of one step of a worker for ``n`` candidates (layout i does work i).

    ``two_batch`` overlaps two micro-batches (each half the tokens; communication of one beside compute of the other)
    and ``deepep`` sends tokens point to point to their experts; elsewhere attention-DP ranks gather tokens and
    scatter results.

    Pipeline stages hold one micro-batch each, so per-rank counts are divided by pp and a token passes all stages.
    """
    tp = layouts.tp.astype(float)
    parts = layouts.pp * np.where(two_batch, 2, 1).astype(float)
    repeat = parts / layouts.pp
    batch = _Batch.of(work, parts)
    raw = {name: np.zeros(len(layouts)) for name in COMPUTE_TERMS}
    for gemm in ctx.program.gemms:
        raw[gemm.term] += _gemm(ctx, gemm, batch, tp) * gemm.layers
    for attention in ctx.program.attentions:
        raw["attention_core"] += _attention(ctx, attention, batch, tp) * attention.layers
    raw["norms_other"] += _elementwise(ctx, batch)
    collectives = _all_reduce_per_layer(ctx, batch, tp)
    raw["collectives"] = collectives * (ctx.program.layers + ctx.program.dense_layers)
    raw["dispatch"] = np.zeros(len(layouts))
    raw["combine"] = np.zeros(len(layouts))
    for moe in ctx.program.moes:
        group = np.where(layouts.attention_dp > 1, batch.group_tokens(layouts), batch.tokens)
        raw["routed_experts"] += _experts(ctx, moe, group, layouts, deepep, work.has_prefill) * moe.layers
        dispatch, combine = _exchange(ctx, moe, group, layouts, deepep, work.has_prefill)
        raw["dispatch"] += dispatch * moe.layers
        raw["combine"] += combine * moe.layers
        raw["collectives"] += np.where(layouts.attention_dp > 1, 0.0, collectives) * moe.layers
    raw["pp_send"] = _pipeline(ctx, batch, layouts)

    timed = {name: value * (repeat * term_factor(ctx, name, work.has_prefill)) for name, value in raw.items()}
    hidden = _overlap(ctx, timed, two_batch, deepep, work.has_prefill)
    timed["host"] = _host(ctx, work, layouts, timed)
    return StepTimes(timed, hidden)


def term_factor(ctx: StepContext, term: str, has_prefill: bool) -> float:
    """Calibrated factor on a term's operator times."""
    family = FAMILY_OF_TERM[term]
    if family == "other":
        return 1.0
    return ctx.coefficients.factor(has_prefill, family, number_format(ctx.precision, term))


def number_format(precision: PrecisionPlan, term: str) -> str:
    """Number format of the weights behind a term; '' where it has none."""
    tensor_class = CLASS_OF_TERM.get(term)
    return "" if tensor_class is None else str(getattr(precision, tensor_class))


@dataclass(frozen=True)
class _Batch:
    """Work of one pipeline micro-batch (and of one of two overlapped halves)."""

    decode: Array
    kv: Array
    prefill: Array | None
    prefill_seqs: Array | None
    prefill_past: Array | None
    prefill_group: Array | None
    tokens: Array

    @classmethod
    def of(cls, work: StepWork, parts: Array) -> _Batch:
        decode = work.decode_seqs / parts
        if work.prefill_tokens is None:
            return cls(decode, work.kv_tokens, None, None, None, None, decode)
        prefill = work.prefill_tokens / parts
        assert work.prefill_seqs is not None
        assert work.prefill_group_tokens is not None
        return cls(
            decode,
            work.kv_tokens,
            prefill,
            work.prefill_seqs / parts,
            work.prefill_past,
            work.prefill_group_tokens / parts,
            decode + prefill,
        )

    def group_tokens(self, layouts: Layouts) -> Array:
        """Tokens of the step over all attention-DP ranks."""
        total = self.decode * layouts.attention_dp
        return total if self.prefill_group is None else total + self.prefill_group

    @property
    def sampled(self) -> Array:
        """Rows the head works on: one per sequence."""
        return self.decode if self.prefill_seqs is None else self.decode + self.prefill_seqs


def _gemm(ctx: StepContext, gemm: GemmOp, batch: _Batch, tp: Array) -> Array:
    dtype = getattr(ctx.precision, gemm.tensor_class)
    if gemm.key in ABSORBED_GEMMS:
        return _mla_up_projection(ctx, gemm, dtype, batch, tp)
    rows = batch.sampled if gemm.term == "head" else batch.tokens
    return op.gemm(ctx.curves.get("gemm", dtype), rows, gemm.n(tp), gemm.k(tp))


def _mla_up_projection(ctx: StepContext, gemm: GemmOp, dtype: str, batch: _Batch, tp: Array) -> Array:
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


def _attention(ctx: StepContext, attention: AttentionOp, batch: _Batch, tp: Array) -> Array:
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
    ctx: StepContext, spec: GqaAttention | MlaAttention, batch: _Batch, heads: Array, tp: Array
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


def _indexer(ctx: StepContext, spec: MlaAttention, batch: _Batch) -> Array:
    """Scores of the sparse-attention indexer: every cached key (fp8) once per sequence, memory-bound in decode."""
    assert spec.indexer is not None
    c = ctx.coefficients
    cached = batch.decode * batch.kv * (spec.indexer.head_dim + 4.0)
    flops = batch.decode * batch.kv * (2.0 * spec.indexer.heads * spec.indexer.head_dim)
    device = ctx.curves.device
    return np.asarray(
        cached / (c.stream_efficiency * device.mem_bw) + flops / (c.scan_efficiency * device.peak_flops["bf16"])
    )


def _linear_attention(ctx: StepContext, spec: LinearAttention, batch: _Batch, tp: Array) -> Array:
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


def _elementwise(ctx: StepContext, batch: _Batch) -> Array:
    """Norms, rotary embedding, activation, quantisation of all layers, and the routing kernels of those with experts:
    launches plus streams of the hidden state."""
    c, program = ctx.coefficients, ctx.program
    launches = c.layer_overhead_s * program.layers + c.moe_layer_overhead_s * program.moe_layers
    moved = batch.tokens * (program.hidden * program.layers * c.elementwise_passes * 2.0)
    return np.asarray(launches + moved / (c.stream_efficiency * ctx.curves.device.mem_bw))


def _all_reduce_per_layer(ctx: StepContext, batch: _Batch, tp: Array) -> Array:
    if not np.any(tp > 1):
        return np.zeros_like(tp)
    size = batch.tokens * (ctx.program.hidden * 2.0)
    time = op.all_reduce(ctx.curves.get("all_reduce", "bf16"), size, tp, float(ctx.domain))
    return np.where(tp > 1, time, 0.0)


def _experts(
    ctx: StepContext,
    moe: MoeOp,
    group_tokens: Array,
    layouts: Layouts,
    deepep: NDArray[np.bool_],
    has_prefill: bool,
) -> Array:
    """Seconds of one layer's grouped GEMMs on the hottest rank.

    Behind a point-to-point dispatch a rank sees only its own tokens, and kernels of their own run there; elsewhere a
    fused kernel sorts the tokens of the whole group.
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

    def seconds(curve: Curve, rows: NDArray[np.int64]) -> Array:
        return op.grouped_gemm(
            curve,
            group_tokens[rows],
            ctx.program.hidden,
            spec.expert_intermediate_size,
            spec.experts_per_token,
            spec.experts,
            layouts.moe_tp[rows],
            layouts.ep[rows],
            load[rows],
        )

    time = np.empty(len(layouts))
    direct, gathered = np.flatnonzero(deepep), np.flatnonzero(~deepep)
    if gathered.size:
        time[gathered] = seconds(ctx.curves.get("moe", ctx.precision.routed_experts), gathered)
    if direct.size:
        time[direct] = seconds(dispatched_expert_curve(ctx, has_prefill), direct)
    return time


def dispatched_expert_curve(ctx: StepContext, has_prefill: bool) -> Curve:
    """Experts behind a dispatch; the fused kernel's curve where no such kernel was measured for the format."""
    kind = "moe_deepep_prefill" if has_prefill else "moe_deepep_decode"
    try:
        return ctx.curves.get(kind, ctx.precision.routed_experts)
    except InputError:
        return ctx.curves.get("moe", ctx.precision.routed_experts)


def _exchange(
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


def _pipeline(ctx: StepContext, batch: _Batch, layouts: Layouts) -> Array:
    if not np.any(layouts.pp > 1):
        return np.zeros(len(layouts))
    size = batch.tokens * (ctx.program.hidden * 2.0)
    far = layouts.gpus > ctx.domain
    return (layouts.pp - 1) * op.send(ctx.curves.get("send", "bf16"), size, far)


def _host(ctx: StepContext, work: StepWork, layouts: Layouts, timed: dict[str, Array]) -> Array:
    """Scheduling, input preparation, sampling and detokenisation the accelerator waits for, once per stage.

    Steps with prompt tokens replay no CUDA graph (nor does any where graphs are off): kernels are launched one by one,
    beside those that run, so what the launches of all layers take beyond the accelerator's own time shows here.
    """
    c = ctx.coefficients
    sequences = work.decode_seqs if work.prefill_seqs is None else work.decode_seqs + work.prefill_seqs
    per_step = c.host_prefill_step_s if work.has_prefill else c.host_step_s
    host = per_step * layouts.pp + c.host_seq_s * sequences
    if work.has_prefill or not ctx.cuda_graphs:
        busy = np.asarray(sum(timed.values()), dtype=float)
        launch = c.launch_layer_s * ctx.program.layers + c.launch_moe_layer_s * ctx.program.moe_layers
        host = host + launch_excess(busy, launch)
    return np.asarray(host)


def launch_excess(busy_s: Array, launch_s: ArrayLike) -> Array:
    """Seconds by which launching all kernels of a step outlasts ``busy_s`` of running them.

    Both go on side by side, but a short kernel waits for its launch even where the step as a whole is long: a smooth
    maximum of fourth powers.
    """
    return np.asarray(op.smooth_max(busy_s, launch_s, 4.0) - busy_s)


def _overlap(
    ctx: StepContext,
    timed: dict[str, Array],
    two_batch: NDArray[np.bool_],
    deepep: NDArray[np.bool_],
    has_prefill: bool,
) -> dict[str, Array]:
    """Move what runs beside other work from exposed to hidden; the longest chain stays exposed.

    Two micro-batches: communication of one hides behind compute of the other, so max(compute, communication) remains;
    prefill's normal kernels take a share of the SMs from compute meanwhile (DeepSeek-V3 report, section 3.2.2: 20 of
    132). One micro-batch with point-to-point dispatch: the shared expert runs beside dispatch and combine.
    """
    hidden: dict[str, Array] = {}
    exchange = timed["dispatch"] + timed["combine"]
    if np.any(two_batch):
        moving = timed["collectives"] + exchange
        share = ctx.coefficients.communication_sm_share if has_prefill else 0.0
        if share:
            slowed = np.where(two_batch & (moving > 0), 1.0 / (1.0 - share), 1.0)
            for name in COMPUTE_TERMS:
                timed[name] = timed[name] * slowed
        compute = sum(timed[name] for name in COMPUTE_TERMS)
        covered = np.where(two_batch, np.minimum(compute, moving), 0.0) / np.maximum(moving, 1e-30)
        for name in ("collectives", "dispatch", "combine"):
            hidden[name] = timed[name] * covered
            timed[name] = timed[name] - hidden[name]
    beside = deepep & ~two_batch
    if np.any(beside):
        hidden["shared_experts"] = np.where(beside, np.minimum(timed["shared_experts"], exchange), 0.0)
        timed["shared_experts"] = timed["shared_experts"] - hidden["shared_experts"]
    return hidden

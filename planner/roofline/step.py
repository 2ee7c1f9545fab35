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

from planner.layout.layouts import Layouts
from planner.model.precision import PrecisionPlan
from planner.roofline.op_common import smooth_max
from planner.roofline.step_ops import (
    all_reduce_per_layer_s,
    attention_s,
    dispatched_expert_curve,
    elementwise_s,
    exchange_s,
    experts_s,
    gemm_s,
    gemm_stream_s,
    kernel_layers,
    pipeline_s,
)
from planner.roofline.step_work import Batch, StepContext, StepWork

__all__ = [
    "CLASS_OF_TERM",
    "COMMUNICATION_TERMS",
    "COMPUTE_TERMS",
    "FAMILY_OF_TERM",
    "TERMS",
    "StepContext",
    "StepTimes",
    "StepWork",
    "all_reduces_across",
    "dispatched_as_measured",
    "dispatched_expert_curve",
    "kernel_layers",
    "launch_excess",
    "number_format",
    "step_times",
    "term_factor",
]

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
LINEAR_TERMS = tuple(term for term, family in FAMILY_OF_TERM.items() if family == "linear")


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
class StepTimes:
    """Seconds by term, shape (n,): ``exposed`` adds up to ``total``; ``hidden`` runs beside it."""

    exposed: dict[str, Array]
    hidden: dict[str, Array] = field(default_factory=dict)
    expert_stream: Array | float = 0.0
    """Of the routed experts, streaming the touched weights once at full bandwidth: they take no less, whatever the
    calibrated factor."""
    expert_apart: Array | float = 0.0
    """Of the routed experts, what the calibrated factor does not multiply (planner.roofline.step_ops.experts_s)."""
    linear_stream: Array | float = 0.0
    """The same of all linear layers together."""

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
    batch = Batch.of(work, parts)
    raw = {name: np.zeros(len(layouts)) for name in COMPUTE_TERMS}
    streams = {term: np.zeros(len(layouts)) for term in LINEAR_TERMS}
    for gemm in ctx.program.gemms:
        ranks = ctx.ranks_of(gemm, layouts, tp)
        raw[gemm.term] += gemm_s(ctx, gemm, batch, tp, ranks) * gemm.layers
        streams[gemm.term] += gemm_stream_s(ctx, gemm, ranks) * (repeat * gemm.layers)
    linear_stream = np.asarray(sum(streams.values()))
    for attention in ctx.program.attentions:
        raw["attention_core"] += attention_s(ctx, attention, batch, tp) * attention.layers
    raw["norms_other"] += elementwise_s(ctx, batch)
    collectives = all_reduce_per_layer_s(ctx, batch, tp)
    raw["collectives"] = collectives * (ctx.program.layers + ctx.program.dense_layers)
    raw["dispatch"] = np.zeros(len(layouts))
    raw["combine"] = np.zeros(len(layouts))
    expert_stream, expert_apart = np.zeros(len(layouts)), np.zeros(len(layouts))
    for moe in ctx.program.moes:
        group = np.where(layouts.attention_dp > 1, batch.group_tokens(layouts), batch.tokens)
        experts, stream, apart = experts_s(ctx, moe, group, layouts, deepep, work.has_prefill)
        raw["routed_experts"] += experts * moe.layers
        expert_stream = expert_stream + stream * (repeat * moe.layers)
        expert_apart = expert_apart + apart * (repeat * moe.layers)
        dispatch, combine = exchange_s(ctx, moe, group, layouts, deepep, work.has_prefill)
        raw["dispatch"] += dispatch * moe.layers
        raw["combine"] += combine * moe.layers
        raw["collectives"] += np.where(layouts.attention_dp > 1, 0.0, collectives) * moe.layers
    raw["pp_send"] = pipeline_s(ctx, batch, layouts)

    timed = {name: value * (repeat * term_factor(ctx, name, work.has_prefill)) for name, value in raw.items()}
    timed["routed_experts"] += (1.0 - term_factor(ctx, "routed_experts", work.has_prefill)) * expert_apart
    if ctx.program.moes and np.any(deepep) and dispatched_as_measured(ctx, work.has_prefill):
        timed["routed_experts"] = np.where(deepep, raw["routed_experts"] * repeat, timed["routed_experts"])
    timed["routed_experts"] = np.maximum(timed["routed_experts"], expert_stream)
    if np.any(far := all_reduces_across(ctx, layouts)):
        timed["collectives"] = np.where(far, raw["collectives"] * repeat, timed["collectives"])
    factors = [term_factor(ctx, term, work.has_prefill) for term in LINEAR_TERMS]
    if min(factors) < 1.0:
        bound = np.asarray(sum(timed[term] for term in LINEAR_TERMS)) < linear_stream
        timed |= {term: np.where(bound, streams[term], timed[term]) for term in LINEAR_TERMS}
    hidden = _overlap(ctx, timed, two_batch, deepep, work.has_prefill)
    timed["host"] = _host(ctx, work, layouts, timed)
    return StepTimes(timed, hidden, expert_stream, expert_apart, linear_stream)


def term_factor(ctx: StepContext, term: str, has_prefill: bool) -> float:
    """Calibrated factor on a term's operator times."""
    family = FAMILY_OF_TERM[term]
    if family == "other" or (family == "experts" and ctx.expert_kernel != "moe"):
        return 1.0
    return ctx.coefficients.factor(has_prefill, family, number_format(ctx.precision, term))


def dispatched_as_measured(ctx: StepContext, has_prefill: bool) -> bool:
    """Whether experts behind a dispatch take the time that their own kernel was measured at, without a factor.

    No calibrated run dispatches point to point: their factor speaks of the fused kernels alone.
    """
    return dispatched_expert_curve(ctx, has_prefill).op != "moe"


def all_reduces_across(ctx: StepContext, layouts: Layouts) -> NDArray[np.bool_]:
    """Layouts whose all-reduces leave the scale-up domain: NCCL's time as measured, without a factor.

    No calibrated run has such: their factor speaks of the engines' own all-reduce inside a domain.
    """
    return np.asarray(layouts.tp > ctx.domain)


def number_format(precision: PrecisionPlan, term: str) -> str:
    """Number format of the weights behind a term; '' where it has none."""
    tensor_class = CLASS_OF_TERM.get(term)
    return "" if tensor_class is None else str(getattr(precision, tensor_class))


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
    return np.asarray(smooth_max(busy_s, launch_s, 4.0) - busy_s)


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

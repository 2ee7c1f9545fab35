"""The rules that a layout must keep, by model, node and engine: how each finds the layouts that break it, what is said
of them, and what would fix them. Every rule is a pure function over the layout arrays.

What an engine runs comes from :mod:`planner.layout.engine_rules`; sources stand in ``hardware_db/engines/layout``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import (
    DenseFeedForward,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    MoeFeedForward,
)
from planner.layout.engine_rules import DraftMethod, EngineLayoutRules, WorkerRole
from planner.layout.layouts import IntArray, Layouts
from planner.layout.node_shape import NodeShape

BoolArray = NDArray[np.bool_]
Finding = tuple[BoolArray, IntArray | int, IntArray | int]
"""Broken (n,), needed, available."""


@dataclass(frozen=True)
class Context:
    """What the rules look at besides the layouts."""

    spec: ModelSpec
    node: NodeShape
    engine: EngineLayoutRules
    precision: Any
    tp_across_nodes: bool
    dispatch_backend: str | None
    drafts: DraftMethod | None
    role: WorkerRole

    @property
    def moes(self) -> list[MoeFeedForward]:
        return [f for f in self.spec.feed_forwards.values() if isinstance(f, MoeFeedForward)]

    def block(self, tensor_class: str) -> int:
        """Columns that a shard of this tensor class must be a multiple of; 1 where any width loads."""
        return self.engine.aligned_shards.value.get(format_of(self.spec, self.precision, tensor_class), 1)


@dataclass(frozen=True)
class Rule:
    """One reason for which a layout is not legal."""

    id: str
    sentence: str
    """With {needed} and {available}."""
    fix: str
    unit: str
    find: Callable[[Layouts, Context], Iterator[Finding]]
    """All findings of the rule; a layout breaks it when any of them is broken."""


def format_of(spec: ModelSpec, precision: Any, tensor_class: str) -> str:
    """Weight format of a tensor class: from a precision plan or a mapping, else from the checkpoint."""
    if precision is None:
        precision = spec.precision
    if isinstance(precision, Mapping):
        return str(precision.get(tensor_class, precision.get("default", "bf16")))
    return str(getattr(precision, tensor_class))


def _heads(x: Layouts, c: Context) -> Iterator[Finding]:
    for attention in c.spec.attentions.values():
        if isinstance(attention, GqaAttention | MlaAttention):
            yield attention.heads % x.tp != 0, x.tp, attention.heads


def _kv_heads(x: Layouts, c: Context) -> Iterator[Finding]:
    for attention in c.spec.attentions.values():
        if isinstance(attention, GqaAttention):
            kv = attention.kv_heads
            yield (kv % x.tp != 0) & (x.tp % kv != 0), x.tp, kv


def _linear_heads(x: Layouts, c: Context) -> Iterator[Finding]:
    for attention in c.spec.attentions.values():
        if isinstance(attention, LinearAttention):
            for heads in (attention.key_heads, attention.value_heads):
                yield heads % x.tp != 0, x.tp, heads


def _dense_width(x: Layouts, c: Context) -> Iterator[Finding]:
    for width in _dense_widths(c):
        yield width % x.tp != 0, x.tp, width


def _expert_width(x: Layouts, c: Context) -> Iterator[Finding]:
    for moe in c.moes:
        yield moe.expert_intermediate_size % x.moe_tp != 0, x.moe_tp, moe.expert_intermediate_size


def _aligned_dense(x: Layouts, c: Context) -> Iterator[Finding]:
    for width in _dense_widths(c):
        yield _misaligned(width, x.tp, c.block("dense_mlp"))
    for moe in c.moes:
        if moe.shared_intermediate_size:
            yield _misaligned(moe.shared_intermediate_size, x.tp, c.block("shared_experts"))


def _aligned_experts(x: Layouts, c: Context) -> Iterator[Finding]:
    for moe in c.moes:
        yield _misaligned(moe.expert_intermediate_size, x.moe_tp, c.block("routed_experts"))


def _aligned_attention(x: Layouts, c: Context) -> Iterator[Finding]:
    block = c.block("attention")
    for attention in c.spec.attentions.values():
        if isinstance(attention, GqaAttention):
            yield _misaligned(attention.heads * attention.head_dim, x.tp, block)
            split = np.minimum(x.tp, attention.kv_heads)
            yield _misaligned(attention.kv_heads * attention.head_dim, split, block)
        elif isinstance(attention, MlaAttention):
            for width in (
                attention.qk_nope_head_dim + attention.qk_rope_head_dim,
                attention.qk_nope_head_dim + attention.v_head_dim,
                attention.v_head_dim,
            ):
                yield _misaligned(attention.heads * width, x.tp, block)


def _vocab(x: Layouts, c: Context) -> Iterator[Finding]:
    if not c.engine.vocab_padded.value:
        yield c.spec.vocab_size % x.tp != 0, x.tp, c.spec.vocab_size


def _dense_model(x: Layouts, c: Context) -> Iterator[Finding]:
    if not c.moes:
        yield (x.attention_dp > 1) | (x.ep > 1), x.attention_dp * x.ep, 1


def _experts(x: Layouts, c: Context) -> Iterator[Finding]:
    for moe in c.moes:
        physical = moe.experts + x.redundant_experts
        yield (x.ep > 1) & (physical % x.ep != 0), x.ep, physical


def _redundant(x: Layouts, c: Context) -> Iterator[Finding]:
    if not c.engine.redundant_experts.value:
        yield x.redundant_experts > 0, x.redundant_experts, 0
    yield (x.redundant_experts > 0) & (x.ep == 1), x.redundant_experts, 0
    for moe in c.moes:
        yield x.redundant_experts > moe.experts, x.redundant_experts, moe.experts


def _expert_split(x: Layouts, c: Context) -> Iterator[Finding]:
    if c.moes and c.engine.expert_split.value == "all_or_none":
        yield (x.ep != 1) & (x.ep != x.stage_gpus), x.stage_gpus, x.ep


def _dispatch(x: Layouts, c: Context) -> Iterator[Finding]:
    if c.moes and c.dispatch_backend in c.engine.full_ep_backends.value:
        yield x.ep != x.stage_gpus, x.stage_gpus, x.ep


def _attention_dp(x: Layouts, c: Context) -> Iterator[Finding]:
    if c.engine.attention_dp.value == "all_or_none":
        yield (x.attention_dp != 1) & (x.tp != 1), x.stage_gpus, x.attention_dp


def _layers(x: Layouts, c: Context) -> Iterator[Finding]:
    layers = sum(group.count for group in c.spec.layers)
    if not c.engine.pipeline.value:
        yield x.pp > 1, x.pp, 1
    yield x.pp > layers, x.pp, layers
    if not c.engine.pipeline_uneven.value:
        yield layers % x.pp != 0, x.pp, layers


def _drafts_over_stages(x: Layouts, c: Context) -> Iterator[Finding]:
    if c.drafts is not None and not c.engine.pipeline_speculation.allows(c.drafts, c.role):
        yield x.pp > 1, x.pp, 1


def _whole_nodes(x: Layouts, c: Context) -> Iterator[Finding]:
    gpus = x.gpus
    yield (gpus > c.node.gpus) & (gpus % c.node.gpus != 0), gpus, c.node.gpus


def _tp_domain(x: Layouts, c: Context) -> Iterator[Finding]:
    if c.tp_across_nodes and c.engine.tp_across_nodes.value:
        return
    domain = c.node.tp_domain
    yield x.tp > domain, x.tp, domain
    if c.moes:
        yield x.moe_tp > domain, x.moe_tp, domain


def _dense_widths(c: Context) -> list[int]:
    return [f.intermediate_size for f in c.spec.feed_forwards.values() if isinstance(f, DenseFeedForward)]


def _misaligned(width: int, parts: IntArray, block: int) -> Finding:
    """A shard of ``width`` / ``parts`` must be a multiple of ``block``; unsplit tensors may end unevenly."""
    return (parts > 1) & (width % (parts * block) != 0), block, width // parts


ARITHMETIC_RULES = frozenset(
    {
        "heads_not_divisible",
        "kv_heads_not_divisible",
        "linear_heads_not_divisible",
        "dense_width_not_divisible",
        "expert_width_not_divisible",
        "experts_not_divisible",
        "pipeline_stages",
    }
)
"""Rules that follow from the model's shape alone, whatever engine, version, padding and node: no run can break them."""

DRAFTS_OVER_STAGES = "speculation_over_stages"
"""The rule that depends on what a worker does: it may spare those that only prefill."""

RULES: tuple[Rule, ...] = (
    Rule(
        "dense_model_is_not_expert_parallel",
        "attention DP and EP need routed experts; replicas of a dense model are separate workers",
        "use replicas instead",
        "ranks",
        _dense_model,
    ),
    Rule(
        "heads_not_divisible",
        "{available} attention heads do not divide over tp = {needed}",
        "a tp that divides the attention heads",
        "",  # parts and what is to be divided: two kinds of numbers
        _heads,
    ),
    Rule(
        "kv_heads_not_divisible",
        "{available} KV heads neither divide over tp = {needed} nor replicate evenly on it",
        "a tp that divides the KV heads or is a multiple of them",
        "",
        _kv_heads,
    ),
    Rule(
        "linear_heads_not_divisible",
        "{available} linear-attention heads do not divide over tp = {needed}",
        "a tp that divides the linear-attention heads",
        "",
        _linear_heads,
    ),
    Rule(
        "dense_width_not_divisible",
        "a feed-forward width of {available} does not divide over tp = {needed}",
        "a tp that divides the feed-forward width",
        "",
        _dense_width,
    ),
    Rule(
        "expert_width_not_divisible",
        "an expert width of {available} does not divide over moe_tp = {needed}",
        "a moe_tp that divides the expert width, or more ep",
        "",
        _expert_width,
    ),
    Rule(
        "attention_shard_not_aligned",
        "an attention shard is {available} wide, not a multiple of the quantisation block {needed}",
        "a smaller tp",
        "columns",
        _aligned_attention,
    ),
    Rule(
        "dense_shard_not_aligned",
        "a feed-forward shard is {available} wide, not a multiple of the quantisation block {needed}",
        "a smaller tp (with attention_dp instead)",
        "columns",
        _aligned_dense,
    ),
    Rule(
        "expert_shard_not_aligned",
        "an expert shard is {available} wide, not a multiple of the quantisation block {needed}",
        "a smaller moe_tp with more ep",
        "columns",
        _aligned_experts,
    ),
    Rule(
        "vocabulary_not_divisible",
        "a vocabulary of {available} does not divide over tp = {needed}",
        "a tp that divides the vocabulary",
        "",
        _vocab,
    ),
    Rule(
        "experts_not_divisible",
        "{available} experts (redundant ones included) do not divide over ep = {needed}",
        "an ep that divides the experts, or redundant experts that fill it up",
        "",
        _experts,
    ),
    Rule(
        "redundant_experts_not_possible",
        "{needed} redundant experts, of which at most {available} are possible",
        "fewer redundant experts",
        "experts",
        _redundant,
    ),
    Rule(
        "engine_expert_split",
        "the engine places whole experts on all {needed} GPUs of a stage or on none, not on ep = {available}",
        "ep = 1 or ep = tp x attention_dp",
        "ranks",
        _expert_split,
    ),
    Rule(
        "dispatch_needs_full_ep",
        "this expert dispatch needs ep = {needed}, not {available}",
        "ep = tp x attention_dp, or another dispatch backend",
        "ranks",
        _dispatch,
    ),
    Rule(
        "engine_attention_dp",
        "the engine runs attention DP on all {needed} GPUs of a stage or on none, not on {available}",
        "tp = 1 with attention_dp, or attention_dp = 1",
        "ranks",
        _attention_dp,
    ),
    Rule(
        "pipeline_stages",
        "{available} layers do not give pp = {needed} stages",
        "fewer stages",
        "",
        _layers,
    ),
    Rule(
        DRAFTS_OVER_STAGES,
        "the engine has no speculative decoding over pp = {needed} stages",
        "pp = 1, or no speculation",
        "stages",
        _drafts_over_stages,
    ),
    Rule(
        "not_whole_nodes",
        "a worker of {needed} GPUs is not a whole number of nodes of {available}",
        "a multiple of the node's GPUs",
        "GPUs",
        _whole_nodes,
    ),
    Rule(
        "tp_leaves_the_domain",
        "tensor parallelism over {needed} GPUs leaves the fast domain of {available}",
        "tp and moe_tp inside the domain, with attention_dp, ep or pp across nodes",
        "GPUs",
        _tp_domain,
    ),
)

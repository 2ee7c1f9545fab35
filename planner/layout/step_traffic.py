"""What one step of a layout sends over each tier, by kind of communication: the traffic matrix of a plan."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from planner.catalog.model_spec import ModelSpec, MoeFeedForward
from planner.layout.groups import group_span, layout_spans
from planner.layout.layouts import Layouts
from planner.layout.node_shape import node_shape
from planner.layout.traffic import (
    TierBytes,
    all_gather_bytes,
    all_reduce_bytes,
    expert_copies,
    expert_tier_bytes,
    pipeline_bytes,
)

Dispatch = Literal["gather", "direct", "relay"]
"""Tokens reach experts of other attention-DP ranks gathered everywhere, per expert, or once per domain."""


def step_traffic(
    spec: ModelSpec,
    layouts: Layouts,
    node: Any,
    tokens: ArrayLike,
    *,
    dispatch: Dispatch,
    activation_bytes: float,
    dispatch_bytes: float,
    combine_bytes: float,
) -> dict[str, TierBytes]:
    """Bytes a GPU sends in one step with ``tokens`` tokens per attention-DP rank, by kind and tier, (n,).

    The bytes are averaged over the ranks of a worker. Kinds: ``tp_all_reduce`` (attention and what
    follows it while every rank holds the same tokens), ``moe_gather`` (all-gather and reduce-scatter
    around experts), ``moe_dispatch``, ``moe_combine``, ``pp_send``. ``*_bytes`` are bytes per value on
    the wire.
    """
    spans = layout_spans(layouts, node_shape(node))
    tokens_ = np.broadcast_to(np.asarray(tokens, dtype=np.float64), layouts.tp.shape)
    payload = tokens_ * spec.hidden_size * activation_bytes
    stage = group_span(layouts.stage_gpus, 1, node_shape(node).tp_domain)
    zero = np.zeros(layouts.tp.shape)
    none = TierBytes(zero, zero)
    traffic = dict.fromkeys(("tp_all_reduce", "moe_gather", "moe_dispatch", "moe_combine", "pp_send"), none)
    reduce_tp = all_reduce_bytes(payload, spans["tp"])
    several = layouts.attention_dp > 1
    for group in spec.layers:
        layers = group.count / layouts.pp
        forward = spec.feed_forwards[group.feed_forward]
        if not isinstance(forward, MoeFeedForward):
            traffic["tp_all_reduce"] += reduce_tp.times(2.0 * layers)
            continue
        # One attention-DP rank: every GPU has all tokens, computes its share of the experts, and the sum
        # is reduced.
        traffic["tp_all_reduce"] += reduce_tp.times(np.where(several, layers, 2.0 * layers))
        whole_experts = layouts.ep > 1
        gathered = several if dispatch == "gather" else several & ~whole_experts
        around = all_gather_bytes(payload * layouts.attention_dp, stage)
        traffic["moe_gather"] += around.times(np.where(gathered, 2.0 * layers, 0.0))
        if dispatch == "gather":
            continue
        copies = expert_copies(
            spans["ep"],
            forward.experts,
            forward.experts_per_token,
            forward.groups,
            forward.groups_per_token,
            relay=dispatch == "relay",
        )
        # The tp ranks of a replica hold the same tokens and share the work of sending them.
        times = np.where(several & whole_experts, layers, 0.0)
        own = tokens_ / layouts.tp
        for kind, width in (("moe_dispatch", dispatch_bytes), ("moe_combine", combine_bytes)):
            traffic[kind] += expert_tier_bytes(own, copies, spec.hidden_size, width).times(times)
    sends = pipeline_bytes(tokens_, spec.hidden_size, activation_bytes, spans["pp"], layouts.tp)
    traffic["pp_send"] = sends
    return traffic

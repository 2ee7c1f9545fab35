"""What an expert placement does to a step: the hottest rank's grouped GEMMs, layer by layer, before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.layout.experts import Placement
from planner.layout.layouts import Layouts
from planner.roofline import operators as op
from planner.roofline.moe import rank_imbalance
from planner.roofline.step import StepContext, dispatched_expert_curve

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PlacementEffect:
    """Grouped GEMMs of all layers of one step on their hottest ranks, seconds."""

    before_s: float
    after_s: float
    balanced_s: float
    """With every rank at the mean: what no placement can beat."""

    @property
    def saved_s(self) -> float:
        """Seconds of a step that the placement saves."""
        return self.before_s - self.after_s


def placement_effect(
    ctx: StepContext,
    layout: Layouts,
    placement: Placement,
    group_tokens: float,
    *,
    deepep: bool,
    prefill: bool = False,
) -> PlacementEffect:
    """Effect on a step of ``group_tokens`` tokens over the whole EP group.

    To the placement's largest over mean load comes the chance of a finite batch (planner.roofline.moe.rank_imbalance
    without skew). Counts of fewer layers than the model has stand for all of them. Raises InputError where the
    placement is for other experts or ranks than the layout.
    """
    if not ctx.program.moes:
        raise InputError("model", "dense", "a model with experts")
    spec, layers = ctx.program.moes[0].spec, sum(m.layers for m in ctx.program.moes)
    ep = int(layout.ep[0])
    if placement.experts != spec.experts or placement.ranks != ep:
        given = f"{placement.experts} experts on {placement.ranks} ranks"
        raise InputError("placement", given, f"{spec.experts} experts on the layout's {ep} EP ranks")
    even = rank_imbalance(group_tokens, spec.experts_per_token, spec.experts, ep, 0, 0.0, 0.0)

    def seconds(imbalance: Array) -> float:
        curve = dispatched_expert_curve(ctx, prefill) if deepep else ctx.curves.get("moe", ctx.precision.routed_experts)
        times = op.grouped_gemm(
            curve,
            group_tokens,
            ctx.program.hidden,
            spec.expert_intermediate_size,
            spec.experts_per_token,
            spec.experts,
            layout.moe_tp[0],
            ep,
            np.minimum(imbalance + even - 1.0, ep),
            skew_cv=ctx.expert_skew,
        )
        return float(np.mean(times)) * layers

    return PlacementEffect(
        seconds(placement.imbalance_before), seconds(placement.imbalance), seconds(np.ones(placement.layers))
    )

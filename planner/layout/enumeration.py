"""All layouts of one worker up to a number of GPUs: the legal ones, and the others counted by reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.catalog.model_spec import ModelSpec, MoeFeedForward
from planner.errors import InputError
from planner.layout.engine_rules import DraftMethod, EngineLayoutRules, WorkerRole, engine_rules
from planner.layout.layouts import IntArray, Layouts
from planner.layout.legality import LayoutReasons, legal
from planner.layout.node_shape import NodeShape, node_shape
from planner.layout.rules import RULES


@dataclass(frozen=True)
class RejectedLayouts:
    """Layouts that one rule stops; the example is the one that needs the fewest GPUs."""

    reason: str
    count: int
    needed: float
    available: float
    unit: str
    sentence: str
    example: str
    fix: str


def enumerate_layouts(
    spec: ModelSpec,
    node: Any,
    max_gpus: int,
    engine: str | EngineLayoutRules,
    *,
    precision: Any = None,
    redundant_experts: int = 0,
    tp_across_nodes: bool = False,
    dispatch_backend: str | None = None,
    drafts: DraftMethod | None = None,
    role: WorkerRole = "serve",
) -> tuple[Layouts, tuple[RejectedLayouts, ...]]:
    """Legal layouts of one worker of at most ``max_gpus`` GPUs by size, and the rejected ones by reason.

    Inside a node a stage has a divisor of the node's GPUs or a power of two; above it, whole nodes. Expert
    groups that do not divide the experts are filled up with redundant ones: the smallest number, not below
    ``redundant_experts``, that makes experts + redundant a multiple of ep (DeepSeek-V3: 256 + 32 over EP32
    and EP144). Raises InputError for max_gpus < 1.
    """
    if max_gpus < 1:
        raise InputError("max_gpus_per_worker", max_gpus, "at least 1")
    rules, shape = engine_rules(engine), node_shape(node)
    candidates = candidate_layouts(spec, shape, max_gpus, redundant_experts)
    mask, reasons = legal(
        spec,
        candidates,
        shape,
        rules,
        precision,
        tp_across_nodes=tp_across_nodes,
        dispatch_backend=dispatch_backend,
        drafts=drafts,
        role=role,
    )
    return candidates.take(mask), group_rejected(candidates, reasons)


def candidate_layouts(spec: ModelSpec, node: NodeShape, max_gpus: int, redundant_experts: int = 0) -> Layouts:
    """Every layout worth judging, legal or not: stages x tp x ep x pp, ordered by GPUs."""
    moes = [f for f in spec.feed_forwards.values() if isinstance(f, MoeFeedForward)]
    stages = stage_sizes(node, max_gpus)
    tables = [_of_stage(int(stage), bool(moes)) for stage in stages]
    table = np.concatenate(tables)
    pps = _pipeline_sizes(max_gpus)
    table = np.repeat(table, pps.size, axis=0)
    pp = np.tile(pps, table.shape[0] // pps.size)
    tp, attention_dp, moe_tp, ep = table.T
    redundant = np.zeros_like(ep)
    if moes:
        redundant = np.where(ep > 1, fill_up(moes[0].experts, redundant_experts, ep), 0)
    gpus = tp * attention_dp * pp
    keep = np.flatnonzero(gpus <= max_gpus)
    order = keep[np.lexsort((ep[keep], attention_dp[keep], pp[keep], gpus[keep]))]
    return Layouts.of(tp[order], pp[order], attention_dp[order], moe_tp[order], ep[order], redundant[order])


def fill_up(experts: int, at_least: int, ep: IntArray) -> IntArray:
    """The fewest redundant experts >= ``at_least`` that make experts + redundant a multiple of ep."""
    return at_least + (-(experts + at_least)) % ep


def stage_sizes(node: NodeShape, max_gpus: int) -> IntArray:
    """GPUs that a pipeline stage may have: divisors of a node and powers of two in it, whole nodes above."""
    inside = {1 << k for k in range(node.gpus.bit_length()) if 1 << k <= node.gpus}
    inside |= {d for d in range(1, node.gpus + 1) if node.gpus % d == 0}
    above = set(range(node.gpus, max_gpus + 1, node.gpus))
    return np.array(sorted(s for s in inside | above if s <= max_gpus), dtype=np.int64)


def group_rejected(layouts: Layouts, reasons: LayoutReasons) -> tuple[RejectedLayouts, ...]:
    """Rejected layouts by rule, most frequent first."""
    groups = []
    for index, rule in enumerate(RULES):
        stopped = np.flatnonzero(reasons.rule == index)
        if not stopped.size:
            continue
        example = int(stopped[np.argmin(layouts.gpus[stopped])])
        groups.append(
            RejectedLayouts(
                reason=rule.id,
                count=int(stopped.size),
                needed=float(reasons.needed[example]),
                available=float(reasons.available[example]),
                unit=rule.unit,
                sentence=reasons.sentence(example),
                example=layouts.describe(example),
                fix=rule.fix,
            )
        )
    return tuple(sorted(groups, key=lambda g: (-g.count, g.reason)))


def _of_stage(stage: int, moe: bool) -> IntArray:
    """Rows (tp, attention_dp, moe_tp, ep) of a stage; a dense model has only tp = stage."""
    if not moe:
        return np.array([[stage, 1, stage, 1]], dtype=np.int64)
    divisors = np.array([d for d in range(1, stage + 1) if stage % d == 0], dtype=np.int64)
    tp, ep = (a.ravel() for a in np.meshgrid(divisors, divisors, indexing="ij"))
    return np.stack([tp, stage // tp, stage // ep, ep], axis=1)


def _pipeline_sizes(max_gpus: int) -> IntArray:
    """Powers of two and three times powers of two."""
    sizes = {f << k for f in (1, 3) for k in range(max_gpus.bit_length()) if f << k <= max_gpus}
    return np.array(sorted(sizes), dtype=np.int64)

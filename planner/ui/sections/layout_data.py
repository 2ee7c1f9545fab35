"""Numbers of the layout page: where ranks lie, what they send, hot experts, operators on the roofline."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import MoeFeedForward
from planner.layout.placement import Placement, place
from planner.layout.step_traffic import Dispatch, step_traffic
from planner.model.formats import FORMATS
from planner.roofline.intensity import step_work
from planner.roofline.moe import rank_imbalance
from planner.roofline.step import CLASS_OF_TERM, StepWork, step_times
from planner.search.plan_schema import Candidate, Phase
from planner.search.setup import Setup
from planner.search.table import Workers
from planner.units import MILLISECOND

Array = NDArray[np.float64]
GROUPS = ("tp", "ep", "attention_dp", "moe_tp", "pp")
"""Kinds of groups in the order they are offered."""


def placement(w: Workers, worker: int = 0) -> Placement:
    """Where the ranks of one worker lie; raises InputError for a worker that is not a whole number of nodes."""
    return place(w.layouts, w.hardware.shape, worker)


def group_kinds(placed: Placement) -> list[str]:
    """Kinds of groups with more than one member."""
    return [kind for kind in GROUPS if placed.layout[kind] > 1]


def group_of(placed: Placement, kind: str) -> NDArray[np.int64]:
    """Number of the group of a kind that each rank is in, (ranks,)."""
    groups = placed.groups(kind)
    out = np.zeros(placed.node.size, dtype=np.int64)
    for number, members in enumerate(groups):
        out[members] = number
    return out


@dataclass(frozen=True)
class Sent:
    """Bytes that one GPU sends in a step, by kind of communication, and where they may go."""

    kind: str
    scale_up: float
    network: float


LEAST_TOKENS = 1e-6
"""Tokens of a step of a worker that has room for none."""


def carries(work: StepWork) -> bool:
    """Whether a step has a token in it: that of a worker which holds no request has none."""
    tokens = work.decode_seqs if work.prefill_tokens is None else work.decode_seqs + work.prefill_tokens
    return bool(float(tokens[0]) > LEAST_TOKENS)


def sent_bytes(s: Setup, w: Workers, work: StepWork) -> tuple[Sent, ...]:
    """Traffic of a step by kind, zeros left out, largest first."""
    tokens = work.decode_seqs if work.prefill_tokens is None else work.decode_seqs + work.prefill_tokens
    dispatch: Dispatch = "direct" if bool(w.deepep[0]) else "gather"
    found = step_traffic(
        s.spec,
        w.layouts,
        w.hardware.shape,
        tokens / w.layouts.pp,
        dispatch=dispatch,
        activation_bytes=FORMATS[s.precision.activations].bytes_per_value,
        dispatch_bytes=FORMATS[s.precision.dispatch].bytes_per_value,
        combine_bytes=FORMATS[s.precision.combine].bytes_per_value,
    )
    rows = [Sent(kind, float(t.scale_up[0]), float(t.scale_out[0])) for kind, t in found.items()]
    return tuple(sorted((r for r in rows if r.scale_up + r.network > 0), key=lambda r: -r.scale_up - r.network))


GROUP_OF_KIND = {
    "tp_all_reduce": "tp",
    "moe_gather": "stage",
    "moe_dispatch": "ep",
    "moe_combine": "ep",
    "pp_send": "pp",
}


def traffic_matrix(placed: Placement, sent: tuple[Sent, ...]) -> Array:
    """Bytes from each rank (row) to each other (column) in a step, (ranks, ranks).

    A kind's bytes spread evenly over the members of its group: scale-up bytes over those of the same domain, network
    bytes over the others (for collectives only the ones at the same place of their domain: rails). Pipeline sends go to
    the next stage.
    """
    ranks = placed.node.size
    matrix = np.zeros((ranks, ranks))
    domain = placed.domain
    together = domain[:, None] == domain[None, :]
    place_in_domain = np.arange(ranks) - np.searchsorted(domain, domain)
    same_rail = place_in_domain[:, None] == place_in_domain[None, :]
    other = ~np.eye(ranks, dtype=bool)
    for one in sent:
        peers = _peers(placed, GROUP_OF_KIND[one.kind]) & other
        far = peers & ~together
        if one.kind in ("tp_all_reduce", "moe_gather") and (far & same_rail).any():
            far = far & same_rail
        stages = placed.layout["pp"]
        # Averaged over the ranks of a pipeline, of which the last stage sends nothing.
        scale = stages / (stages - 1) if one.kind == "pp_send" else 1.0
        for amount, where in ((one.scale_up, peers & together), (one.network, far)):
            count = where.sum(axis=1, keepdims=True)
            matrix += np.where(where, amount * scale / np.maximum(count, 1), 0.0)
    return matrix


def _peers(placed: Placement, kind: str) -> NDArray[np.bool_]:
    at = placed.coordinates
    if kind == "pp":
        stage = placed.layout["tp"] * placed.layout["attention_dp"]
        rank = np.arange(placed.node.size)
        return np.asarray(rank[None, :] == rank[:, None] + stage)
    if kind == "stage":
        return np.asarray(at["pp"][:, None] == at["pp"][None, :])
    groups = group_of(placed, kind)
    return np.asarray(groups[:, None] == groups[None, :])


@dataclass(frozen=True)
class HotExperts:
    """Decode step by how unevenly experts are used: arrays over ``skew``."""

    skew: Array
    plain: Array
    """max/mean tokens per rank without copies."""
    copies: Array
    plain_ms: Array
    copies_ms: Array
    redundant: int
    """Copies of hot experts over the whole group."""
    ranks: int


def moe_of(s: Setup) -> MoeFeedForward | None:
    """The model's (first) mixture of experts."""
    return next((f for f in s.spec.feed_forwards.values() if isinstance(f, MoeFeedForward)), None)


def default_copies(w: Workers, moe: MoeFeedForward) -> int:
    """Copies of the layout, else one more expert on every rank."""
    planned = int(w.layouts.redundant_experts[0])
    ep = int(w.layouts.ep[0])
    return planned or (-(-moe.experts // ep) + 1) * ep - moe.experts


def hot_experts(w: Workers, work: StepWork, moe: MoeFeedForward, skews: Array, redundant: int) -> HotExperts:
    """Imbalance and step time at each of ``skews`` (coefficients of variation of expert popularity)."""
    pair = np.zeros(2, dtype=np.int64)
    both = replace(w.layouts.take(pair), redundant_experts=np.array([0, redundant], dtype=np.int64))
    twice = replace(work, **{name: v[pair] for name, v in vars(work).items() if v is not None})
    tokens = twice.decode_seqs * both.attention_dp
    loads, times = [], []
    residual = w.hardware.ctx.coefficients.placement_residual
    for skew in skews:
        loads.append(
            rank_imbalance(
                tokens, moe.experts_per_token, moe.experts, both.ep, both.redundant_experts, float(skew), residual
            )
        )
        ctx = replace(w.hardware.ctx, expert_skew=float(skew))
        times.append(step_times(ctx, both, twice, w.two_batch[pair], w.deepep[pair]).total / MILLISECOND)
    load, ms = np.array(loads), np.array(times)
    return HotExperts(skews, load[:, 0], load[:, 1], ms[:, 0], ms[:, 1], redundant, int(both.ep[0]))


@dataclass(frozen=True)
class OperatorPoint:
    """A term of a step on the roofline."""

    term: str
    phase: Phase
    intensity: float
    """FLOPs per byte that went to memory within its time."""
    flops_per_s: float
    """Achieved: its FLOPs over its time in the plan, exposed and hidden."""
    ms: float
    share: float
    """Of the step."""
    bound: str | None
    compute: str
    """Data type whose peak is its roof."""
    of_roof: float
    """What it reaches of the lower of both roofs at its intensity, 0 to 1."""
    of_limit: float
    """The same of the roof that ``bound`` names, be it the lower one or not: a fitted curve may answer to arithmetic
    where the work alone would lie under the bandwidth."""


def operator_points(
    s: Setup, candidate: Candidate, phase: Phase, w: Workers, work: StepWork
) -> tuple[OperatorPoint, ...]:
    """Compute terms of a step with their work and the times that the plan gives them."""
    amounts = step_work(s.spec, w.hardware.ctx, w.layouts, work, w.two_batch)
    precision, device = w.hardware.ctx.precision, w.hardware.device
    points = []
    for term in candidate.breakdown.phase(phase):
        done = amounts.get(term.term)
        took = term.exposed_ms + term.hidden_ms
        if done is None or took <= 0 or float(done.flops[0]) <= 0:
            continue
        weights = CLASS_OF_TERM.get(term.term)
        fmt = FORMATS[precision.kv if weights is None else getattr(precision, weights)]
        kind = fmt.compute if weights is not None else "bf16"
        kind, here = kind if kind in device.peak_flops else "bf16", took * MILLISECOND
        flops = float(done.flops[0])
        intensity = flops / float(done.bytes_within(here, device.mem_bw)[0])
        reached, peak, slope = flops / here, device.peak_flops.get(kind, np.inf), intensity * device.mem_bw
        roof = min(peak, slope)
        limit = {"compute": peak, "memory": slope}.get(term.bound or "", roof)
        shares = (reached / roof, reached / limit)
        points.append(OperatorPoint(term.term, phase, intensity, reached, took, term.share, term.bound, kind, *shares))
    return tuple(points)

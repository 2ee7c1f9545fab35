"""What limits chosen deployments: steps evaluated again with each resource a little faster, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from planner.hardware.curves import curves
from planner.hardware.device import Device
from planner.roofline.step import COMMUNICATION_TERMS, StepContext, StepTimes, StepWork, step_times
from planner.roofline.verify import verify_times
from planner.search.setup import Setup
from planner.search.table import Workers

Array = NDArray[np.float64]
Resource = Literal["compute", "memory", "network"]

NUDGE = 1.1
"""A resource made this much faster: small enough to stay on the same side of the roofline."""

WORDS: Mapping[str, str] = {
    "compute": "compute",
    "memory": "memory bandwidth",
    "network": "network bandwidth",
    "latency": "launch and network latency",
    "host": "host time",
}
TERM_WORDS: Mapping[str, str] = {
    "attention_projections": "attention projections",
    "attention_core": "attention",
    "router": "routing",
    "routed_experts": "routed experts",
    "shared_experts": "shared experts",
    "dense_mlp": "feed-forward layers",
    "norms_other": "norms and small kernels",
    "head": "the output head",
    "collectives": "all-reduce",
    "dispatch": "expert dispatch",
    "combine": "expert combine",
    "pp_send": "pipeline sends",
    "host": "scheduling on the host",
    "drafts": "draft tokens",
}


@dataclass(frozen=True)
class Explained:
    """A step of chosen workers: times, and by term which resource it answers to (n,) each."""

    times: StepTimes
    bound: Mapping[str, list[str]]
    gain: Mapping[Resource, Array]
    """Relative fall of the step's time when the resource is 10 % faster."""


def explain_step(s: Setup, w: Workers, work: StepWork, drafts: int = 0) -> Explained:
    """Times of a step (decode: with ``drafts``) and what bounds each term: the resource whose 10 % gain shortens it
    most.

    A term that no resource shortens by a third of that gain is bound by latency (floors, launches).
    """
    ctx = w.hardware.ctx
    times = _times(ctx, w, work, drafts)
    faster = {name: _times(_nudged(s, ctx, name), w, work, drafts) for name in ("compute", "memory", "network")}
    bound: dict[str, list[str]] = {}
    full = 1.0 - 1.0 / NUDGE
    for term, exposed in times.exposed.items():
        whole = exposed + times.hidden.get(term, 0.0)
        falls = {
            name: 1.0 - (t.exposed[term] + t.hidden.get(term, 0.0)) / np.maximum(whole, 1e-30)
            for name, t in faster.items()
        }
        bound[term] = [
            _bound(term, {name: float(fall[i]) for name, fall in falls.items()}, full) for i in range(len(w))
        ]
    gain: dict[Resource, Array] = {
        "compute": 1.0 - faster["compute"].total / times.total,
        "memory": 1.0 - faster["memory"].total / times.total,
        "network": 1.0 - faster["network"].total / times.total,
    }
    return Explained(times, bound, gain)


def _bound(term: str, falls: Mapping[str, float], full: float) -> str:
    if term == "host":
        return "host"
    best = max(falls, key=lambda name: falls[name])
    if falls[best] < full / 3.0:
        return "latency"
    return "network" if term in COMMUNICATION_TERMS else best


def _times(ctx: StepContext, w: Workers, work: StepWork, drafts: int) -> StepTimes:
    if work.has_prefill:
        work = replace(work, decode_seqs=work.decode_seqs * (1 + drafts))
        return step_times(ctx, w.layouts, work, w.two_batch, w.deepep)
    return verify_times(ctx, w.layouts, work, drafts, w.two_batch, w.deepep)


def _nudged(s: Setup, ctx: StepContext, resource: str) -> StepContext:
    here: Device = ctx.curves.device
    if resource == "compute":
        peaks = {name: peak * NUDGE for name, peak in here.peak_flops.items()}
        faster = replace(here, peak_flops=peaks)
    elif resource == "memory":
        faster = replace(here, mem_bw=here.mem_bw * NUDGE)
    else:
        faster = replace(here, link_bw=_up(here.link_bw), nic_bw=_up(here.nic_bw), pcie_bw=_up(here.pcie_bw))
    return replace(ctx, curves=curves(faster, s.scenario.engine.name))


def _up(bandwidth: float | None) -> float | None:
    return None if bandwidth is None else bandwidth * NUDGE


def binding_sentence(explained: Explained, i: int, phase: str) -> str:
    """The largest term of a step and what bounds it: ``memory bandwidth in attention (41 % of the decode step)``."""
    exposed = {term: float(v[i]) for term, v in explained.times.exposed.items()}
    term = max(exposed, key=lambda name: exposed[name])
    share = exposed[term] / max(sum(exposed.values()), 1e-30)
    resource = explained.bound[term][i]
    place = "" if resource == "host" else f" in {TERM_WORDS[term]}"
    return f"{WORDS[resource]}{place} ({share:.0%} of the {phase} step)"


def gain_sentence(explained: Explained, i: int, phase: str) -> str:
    """What 10 % more of each resource would save."""
    parts = [f"{WORDS[name]} {float(v[i]):.1%}" for name, v in explained.gain.items()]
    return f"10 % more of one resource would shorten the {phase} step by: {', '.join(parts)}."

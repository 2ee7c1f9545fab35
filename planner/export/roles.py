"""What runs where: the workers of one candidate of a plan, as engines and manifests start them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Catalog, catalog
from planner.catalog.model_spec import ModelSpec, MoeFeedForward
from planner.errors import InfeasibleError, InputError
from planner.export.checkpoints import Checkpoint, checkpoint_of
from planner.export.words import Var, Word, dns_name
from planner.layout.hosts import even_hosts
from planner.layout.layouts import Layouts
from planner.layout.packing import places
from planner.scenario.load import resolve_model
from planner.search.headline import headline
from planner.search.plan_schema import Candidate, Layout, Plan

RoleName = Literal["serve", "prefill", "decode"]
MODEL = Var("MODEL", "MODEL")
"""A checkpoint that the caller names."""


@dataclass(frozen=True)
class Stretch:
    """Hosts in a row that workers of a pool share in the same way with those of the other pool."""

    first: int
    last: int
    """The host behind them."""
    before: int
    """Workers of the other pool on each, which take the first GPUs and ports."""
    own: int
    """Workers of this pool on each, at least 1."""


@dataclass(frozen=True)
class Role:
    """Workers of one kind: one layout on one node type."""

    name: RoleName
    layout: Layout
    workers: int
    node: str
    vendor: str
    pods: int
    """Hosts that one worker spans."""
    gpus_per_pod: int
    gpus_per_host: int
    domain: int
    """GPUs of the node type's scale-up domain."""
    stretches: tuple[Stretch, ...] = ()
    """Where two pools share hosts, those with workers of this one, counted over both; else empty."""
    before_gpus: int = 0
    """GPUs of one worker of the other pool where it lies before these."""

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""
        return self.layout.gpus

    @property
    def ranks(self) -> int:
        """Ranks of one pipeline stage (attention TP x attention DP), which the experts share."""
        return self.layout.tp * self.layout.attention_dp

    @property
    def per_host(self) -> int:
        """Workers that one host has GPUs for; 1 for a worker over several hosts."""
        return max(self.gpus_per_host // self.gpus, 1) if self.pods == 1 else 1

    @property
    def shares_hosts(self) -> bool:
        """Whether several workers, of this pool or of both, run beside each other on one host."""
        return bool(self.stretches) or (self.workers > 1 and self.per_host > 1)

    @property
    def hosts(self) -> int:
        """Hosts of all workers; where pools share them, up to the last with one of this pool."""
        if self.stretches:
            return self.stretches[-1].last
        return self.pods * math.ceil(self.workers / self.per_host)

    @property
    def first_host(self) -> int:
        """The first host with a worker; not 0 where the other pool alone stands there."""
        return self.stretches[0].first if self.stretches else 0

    def place(self, worker: int) -> tuple[int, int]:
        """Host on which a worker starts (counted over workers' first hosts) and its place there, both from 0."""
        for s in self.stretches:
            hosts = s.last - s.first
            if worker < hosts * s.own:
                return s.first + worker // s.own, s.before + worker % s.own
            worker -= hosts * s.own
        return divmod(worker, self.per_host)

    def address(self, worker: int) -> tuple[str, int]:
        """Stand-in for the name of a worker's first host, one for both pools where they share it, and its place."""
        host, place = self.place(worker)
        return f"{'host' if self.stretches else self.name}-{host}", place

    @property
    def point_to_point(self) -> bool:
        """Whether tokens go to their experts across scale-up domains, where the plan assumes DeepEP kernels."""
        return self.layout.attention_dp > 1 and self.layout.ep == self.ranks > self.domain


@dataclass(frozen=True)
class Deployment:
    """One candidate with everything that an export needs."""

    plan: Plan
    candidate: Candidate
    roles: tuple[Role, ...]
    model: str
    """Model argument: a Hugging Face id or a path."""
    name: str
    """Base of Kubernetes names."""
    spec: ModelSpec
    routed_experts: int
    checkpoint: Checkpoint
    """What is loaded for the plan's number formats."""

    @property
    def disaggregated(self) -> bool:
        return self.candidate.serving == "disagg"

    @property
    def model_word(self) -> Word:
        """The model in a launch script: to be given on its call where no checkpoint is known that serves the plan."""
        return MODEL if self.checkpoint.lacking else self.model

    @property
    def kv_format(self) -> str:
        return self.plan.identity.precision.get("kv", "bf16")


def pick(plan: Plan, rank: int = 1) -> Candidate:
    """Candidate ``rank`` of a plan, from 1. Raises InfeasibleError for a plan without candidates, else InputError."""
    if not plan.candidates:
        raise InfeasibleError(headline(plan))
    for candidate in plan.candidates:
        if candidate.rank == rank:
            return candidate
    raise InputError("--candidate", rank, f"a rank from 1 to {len(plan.candidates)}")


def deployment(plan: Plan, rank: int = 1, engine: str | None = None, known: Catalog | None = None) -> Deployment:
    """The workers of one candidate, resolved against the catalogue (for the hosts of a node, and the GPU's vendor).

    ``engine`` is the one that will run them, which says how ranks may lie on hosts; None is the plan's own. ``known``
    is the catalogue planned with; None is the usual one.
    """
    candidate, engine = pick(plan, rank), engine or plan.scenario.engine.name
    known = known or catalog()
    spec = resolve_model(plan.scenario, known)
    if candidate.serving == "disagg":
        pools = (("prefill", candidate.prefill_pool), ("decode", candidate.decode_pool))
        roles = []
        for name, pool in pools:
            if pool is None:
                raise InputError("candidates", f"rank {rank}", "a disaggregated candidate with both of its pools")
            roles.append(_role(plan, known, engine, name, pool.layout, pool.workers, pool.node))  # type: ignore[arg-type]
        if candidate.shared_nodes:
            roles = _side_by_side(*roles)
    else:
        roles = [_role(plan, known, engine, "serve", candidate.layout, candidate.replicas, candidate.node)]
    checkpoint = checkpoint_of(plan, candidate, spec, engine)
    return Deployment(
        plan,
        candidate,
        tuple(roles),
        checkpoint.model,
        dns_name(plan.scenario.model.rsplit("/", 1)[-1].removesuffix(".json").removesuffix(".yaml")),
        spec,
        _experts(spec),
        checkpoint,
    )


def _role(plan: Plan, known: Catalog, engine: str, name: RoleName, layout: Layout, workers: int, node_id: str) -> Role:
    node = known.node(node_id)
    gpus = plan.scenario.hardware.gpus_of(node_id) or node.gpus
    host = min(gpus, node.gpus_per_host or gpus)
    pods = spread(layout, host, engine)
    accelerator = known.accelerator(node.accelerator)
    domain = min(node.scale_up.domain or 1, gpus)
    return Role(name, layout, workers, node_id, accelerator.vendor, pods, layout.gpus // pods, host, domain)


def _side_by_side(one: Role, two: Role) -> list[Role]:
    """Two pools on the same hosts as they are packed into nodes; as they are where a worker of either takes several
    hosts: those have no room for another.
    """
    if max(one.pods, two.pods) > 1:
        return [one, two]
    at = places(one.workers, one.gpus, two.workers, two.gpus, one.gpus_per_host)
    hosts = int(max(at.node.max(), at.other_node.max())) + 1
    first, second = (np.bincount(node, minlength=hosts) for node in (at.node, at.other_node))
    before = two.gpus > one.gpus  # the larger workers come first
    return [
        replace(one, stretches=_stretches(first, second if before else 0 * second), before_gpus=two.gpus),
        replace(two, stretches=_stretches(second, 0 * first if before else first), before_gpus=one.gpus),
    ]


def _stretches(own: NDArray[np.int64], before: NDArray[np.int64]) -> tuple[Stretch, ...]:
    edges = np.flatnonzero(np.diff(own) | np.diff(before)) + 1
    starts, ends = [0, *edges.tolist()], [*edges.tolist(), own.size]
    return tuple(Stretch(a, b, int(before[a]), int(own[a])) for a, b in zip(starts, ends, strict=True) if own[a])


def spread(layout: Layout, host: int, engine: str) -> int:
    """Hosts of ``host`` GPUs that a worker spans: the fewest on which its ranks lie evenly."""
    return int(even_hosts(Layouts.of(**layout.model_dump()), host, engine)[0])


def _experts(spec: ModelSpec) -> int:
    """Routed experts of one layer; 0 for a dense model."""
    counts = [f.experts for f in spec.feed_forwards.values() if isinstance(f, MoeFeedForward)]
    return max(counts, default=0)

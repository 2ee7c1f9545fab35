"""N + k of a chosen deployment: what failures take from each pool, what is left then, spares, time with enough workers.

A failure hits one pool, as pools share no node; every way in which k of them can fall on the pools is looked at, and
the worst is told. GPUs that are paid for and run no worker take no load: only spare nodes count as workers that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.catalog.hardware_spec import Node
from planner.economics.headroom import Domains, Failure, slo_availability, spare_workers
from planner.economics.recovery import failures_per_year, reliability_defaults
from planner.scenario.schema import Reliability
from planner.search.candidate_parts import known
from planner.search.fleet import Fleet
from planner.search.setup import Hardware
from planner.search.sizing_schema import FailurePlan
from planner.search.table import Workers
from planner.units import MILLISECOND

IntArray = NDArray[np.int64]

FAILURES: tuple[Failure, ...] = ("gpu", "node", "rack")


@dataclass(frozen=True)
class FailingPool:
    """One pool of a deployment as failures see it."""

    workers: Workers
    """A table of one row."""
    needed: int
    """Fewest of its workers with which every limit holds while the other pool is whole."""
    domains: Domains

    @property
    def count(self) -> int:
        return int(self.workers.count[0])

    @property
    def gpus(self) -> int:
        """Of one worker."""
        return int(self.workers.layouts.gpus[0])

    def lost(self, failure: Failure, k: IntArray) -> IntArray:
        """Workers that ``k`` failures take, (n,)."""
        return np.minimum(k * self.domains.lost_workers(failure), self.count)

    def spares(self, failure: Failure, k: int) -> int:
        """Workers to add so that every limit holds after ``k`` failures."""
        return int(spare_workers(self.needed, self.count, self.domains, failure, k))

    def on_spare_nodes(self, nodes: int) -> int:
        """Workers on ``nodes`` spare ones."""
        return workers_on(nodes, self.workers.hardware.gpus_per_node, self.gpus)

    def more_nodes(self, more: int, failure: Failure) -> int:
        """Nodes for ``more`` workers: beside the others where what fails together is less than a node, else apart, so
        that one failure does not take both.
        """
        w = self.workers
        if self.domains.gpus(failure) >= w.hardware.gpus_per_node:
            return int(nodes_of(w, np.array([more], dtype=np.int64))[0])
        both = nodes_of(w, np.array([self.count, self.count + more], dtype=np.int64))
        return int(both[1] - both[0])


def failing_pool(workers: Workers, needed: int, reliability: Reliability) -> FailingPool:
    """A pool with the domains of its node type."""
    return FailingPool(workers, needed, domains(workers.hardware, int(workers.layouts.gpus[0]), reliability))


def domains(hw: Hardware, worker_gpus: int, reliability: Reliability) -> Domains:
    """What fails together on a node type: hosts, and racks of as many GPUs as the scenario or the catalogue says."""
    host, rack = host_and_rack(hw.node, hw.gpus_per_node)
    return Domains(worker_gpus, host, max(reliability.gpus_per_rack or rack, host))


def host_and_rack(node: Node, used: int) -> tuple[int, int]:
    """GPUs of a host and of a rack, where ``used`` GPUs of a node are."""
    host = min(node.gpus_per_host or used, used)
    rack = node.gpus_per_rack or int(reliability_defaults().nodes_per_rack.value) * used
    return host, rack


def nodes_of(w: Workers, count: IntArray) -> IntArray:
    """Whole nodes of ``count`` workers like the one of ``w``, (n,)."""
    many = w.take(np.zeros(count.size, dtype=np.int64))
    return replace(many, count=count).nodes


def workers_on(nodes: int, per_node: int, worker_gpus: int) -> int:
    """Workers that ``nodes`` empty nodes of ``per_node`` GPUs each hold."""
    return nodes * (per_node // worker_gpus) if worker_gpus <= per_node else nodes // -(-worker_gpus // per_node)


def failure_plans(fleet: Fleet, decode: FailingPool, prefill: FailingPool | None) -> tuple[FailurePlan, ...]:
    """What k failures of each kind do, and the spares that keep every limit through them."""
    r = fleet.s.scenario.reliability
    k, gpus = r.failures, int(fleet.row.gpus[0])
    after = _after(fleet, decode, prefill, k)
    share = reliability_defaults().gpu_share_of_failures.value
    a_year = float(failures_per_year(gpus, r.gpu_failures_per_year))
    rates = {"gpu": a_year * share, "node": a_year * (1.0 - share), "rack": None}
    plans = []
    for i, failure in enumerate(FAILURES):
        all_of_them = np.array([k], dtype=np.int64)
        more = [pool.spares(failure, k) for pool in _pools(decode, prefill)]
        nodes = [pool.more_nodes(n, failure) for pool, n in zip(_pools(decode, prefill), more, strict=True)]
        lacking = _lacking(decode, prefill, nodes, r.spare_nodes)
        plans.append(
            FailurePlan(
                failure=failure,
                count=k,
                lost_replicas=int(decode.lost(failure, all_of_them)[0]),
                lost_prefill_workers=None if prefill is None else int(prefill.lost(failure, all_of_them)[0]),
                met_without_spares=None if after is None else after[i][0],
                ttft_p99_ms=None if after is None else after[i][1],
                tbt_p99_ms=None if after is None else after[i][2],
                spare_replicas=more[0],
                spare_prefill_workers=None if prefill is None else more[1],
                spare_nodes=lacking,
                gpus=gpus + sum(n * pool.gpus for n, pool in zip(more, _pools(decode, prefill), strict=True)),
                per_year=rates[failure],
                covered=lacking == 0,
            )
        )
    return tuple(plans)


def _pools(decode: FailingPool, prefill: FailingPool | None) -> Sequence[FailingPool]:
    return [decode] if prefill is None else [decode, prefill]


def _lacking(decode: FailingPool, prefill: FailingPool | None, nodes: Sequence[int], spare_nodes: int) -> int:
    """Nodes that the plan's spare ones, so many for each pool, leave to add of the ``nodes`` that each pool's spare
    workers take; pools of one node type may use each other's.
    """
    if prefill is not None and prefill.workers.hardware.id == decode.workers.hardware.id:
        return max(sum(nodes) - 2 * spare_nodes, 0)
    return sum(max(n - spare_nodes, 0) for n in nodes)


def _after(
    fleet: Fleet, decode: FailingPool, prefill: FailingPool | None, k: int
) -> list[tuple[bool, float | None, float | None]] | None:
    """For each kind of failure, whether the limits hold however ``k`` of them fall on the pools, and the worst P99 of
    TTFT and TBT in milliseconds, None where a pool cannot carry the load; None for all of them in a closed loop.
    """
    rate = fleet.s.rate_rps
    if rate is None:
        return None
    on_prefill = np.arange(k + 1) if prefill is not None else np.zeros(1, dtype=np.int64)
    lost = [
        np.concatenate([pool.lost(f, hits) for f in FAILURES])
        for pool, hits in zip(_pools(decode, prefill), (k - on_prefill, on_prefill), strict=False)
    ]
    left = [pool.count - gone for pool, gone in zip(_pools(decode, prefill), lost, strict=True)]
    cases, place = np.unique(np.stack(left, axis=1), axis=0, return_inverse=True)
    good, times = np.zeros(len(cases), dtype=bool), np.full((2, len(cases)), np.inf)
    some = np.flatnonzero((cases > 0).all(axis=1))
    if some.size:
        rates = np.full(some.size, float(rate))
        prefill_left = None if prefill is None else cases[some, 1]
        found = fleet.looked_at(rates, cases[some, 0], prefill_left, levels=("p99",))
        good[some] = fleet.meets(found)
        times[:, some] = [found.get(metric, "p99") / MILLISECOND for metric in ("ttft", "tbt")]
    of = place.reshape(len(FAILURES), -1)
    worst = times[:, of].max(axis=2)
    return [(bool(good[of[i]].all()), known(worst[0, i]), known(worst[1, i])) for i in range(len(FAILURES))]


def availability(
    decode: FailingPool, prefill: FailingPool | None, needed: Sequence[int], down: Sequence[float], spare_nodes: int
) -> float:
    """Part of the time in which every pool has as many of its workers up as are ``needed`` of each together, those on
    spare nodes included; ``down``: part of the time that one worker of each is. The pools fail independently.
    """
    shares = [
        float(slo_availability(pool.count + pool.on_spare_nodes(spare_nodes), n, share))
        for pool, n, share in zip(_pools(decode, prefill), needed, down, strict=True)
    ]
    return float(np.prod(shares))

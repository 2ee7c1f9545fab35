"""N + k of a chosen deployment: what failures take from each pool, what is left then, spares, time with enough workers.

A failure hits one pool, or, where both stand on the same nodes, what lies in its reach of both; every way in which k of
them can fall is looked at, and the worst is told. GPUs that are paid for and run no worker take no load: only spare
nodes count as workers that run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.catalog.hardware_spec import Node
from planner.economics.headroom import Domains, Failure, slo_availability, spare_workers
from planner.economics.recovery import failures_per_year, reliability_defaults
from planner.layout.packing import packed, places, room_beside
from planner.scenario.schema import Reliability
from planner.search.candidate_parts import known
from planner.search.fleet import Fleet
from planner.search.pareto import pareto_mask
from planner.search.setup import Hardware, Setup
from planner.search.sizing_schema import FailurePlan
from planner.search.standing import together
from planner.search.table import Deployments, Workers
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
    losses: Mapping[Failure, int]
    """Workers that one failure takes at most."""

    @property
    def count(self) -> int:
        return int(self.workers.count[0])

    @property
    def gpus(self) -> int:
        """Of one worker."""
        return int(self.workers.layouts.gpus[0])

    @property
    def footprint(self) -> int:
        """GPUs of its node that one worker keeps from others."""
        return int(self.workers.footprint[0])

    def lost(self, failure: Failure, k: IntArray) -> IntArray:
        """Workers that ``k`` failures take, (n,)."""
        return np.minimum(k * self.losses[failure], self.count)

    def spares(self, failure: Failure, k: int) -> int:
        """Workers to add so that every limit holds after ``k`` failures."""
        return int(spare_workers(self.needed, self.count, self.losses[failure], k))

    def on_spare_nodes(self, nodes: int) -> int:
        """Workers on ``nodes`` spare ones."""
        return workers_on(nodes, self.workers.hardware.gpus_per_node, self.footprint)

    def more_nodes(self, more: int, failure: Failure) -> int:
        """Nodes for ``more`` workers: beside the others where what fails together is less than a node, else apart, so
        that one failure does not take both.
        """
        w = self.workers
        if self.domains.gpus(failure) >= w.hardware.gpus_per_node:
            return int(nodes_of(w, np.array([more], dtype=np.int64))[0])
        both = nodes_of(w, np.array([self.count, self.count + more], dtype=np.int64))
        return int(both[1] - both[0])


def failing_pools(s: Setup, row: Deployments, needed: Sequence[int]) -> tuple[FailingPool, ...]:
    """The pools of a table of one row, decode first, of which ``needed`` workers hold every limit."""
    pools, r = _decode_first(row), s.scenario.reliability
    falls = falls_of(s, row)
    return tuple(
        FailingPool(
            pool,
            least,
            domains(pool.hardware, int(pool.layouts.gpus[0]), r),
            {f: int(falls[f][:, i].max()) for f in FAILURES},
        )
        for i, (pool, least) in enumerate(zip(pools, needed, strict=True))
    )


def _decode_first(row: Deployments) -> tuple[Workers, ...]:
    return row.pools[::-1]


def falls_of(s: Setup, row: Deployments) -> dict[Failure, IntArray]:
    """Workers of each pool, decode first, that one failure of each kind takes, (ways, pools): every way in which it can
    fall that takes no less of both than another.
    """
    pools, r = _decode_first(row), s.scenario.reliability
    of = [domains(pool.hardware, int(pool.layouts.gpus[0]), r) for pool in pools]
    if not together(s, pools):
        return {f: np.diag([one.lost_workers(f) for one in of]) for f in FAILURES}
    (a, b), per_node = pools, pools[0].hardware.gpus_per_node
    sizes = [int(pool.footprint[0]) for pool in pools]
    at = places(int(a.count[0]), sizes[0], int(b.count[0]), sizes[1], per_node)
    begins = (at.node * per_node + at.gpu, at.other_node * per_node + at.other_gpu)
    last = int(max(b.max() for b in begins)) // per_node
    found: dict[Failure, IntArray] = {}
    for failure in FAILURES:
        reach = of[0].gpus(failure)
        # hosts count from the first GPU of a node; where racks begin is not known: at any node
        low = (np.arange(last + 1)[:, None] * per_node + np.arange(0, per_node, min(reach, per_node))).ravel()
        high = low + reach if reach >= per_node else np.minimum(low + reach, (low // per_node + 1) * per_node)
        ways = np.stack([_touched(b, size, low, high) for b, size in zip(begins, sizes, strict=True)], axis=1)
        ways = np.unique(ways, axis=0)
        found[failure] = ways[pareto_mask([ways[:, 0], ways[:, 1]], ["max", "max"])]
    return found


def _touched(first: IntArray, size: int, low: IntArray, high: IntArray) -> IntArray:
    """Workers of ``size`` GPUs from the GPUs ``first`` on with one in each stretch from ``low`` to before ``high``."""
    begins = np.sort(first)
    return np.searchsorted(begins, high) - np.searchsorted(begins + size - 1, low)


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
    shared, falls = together(fleet.s, fleet.row.pools), falls_of(fleet.s, fleet.row)
    after = _after(fleet, decode, prefill, falls, k)
    share = reliability_defaults().gpu_share_of_failures.value
    a_year = float(failures_per_year(gpus, r.gpu_failures_per_year))
    rates = {"gpu": a_year * share, "node": a_year * (1.0 - share), "rack": None}
    plans = []
    for i, failure in enumerate(FAILURES):
        all_of_them = np.array([k], dtype=np.int64)
        more = [pool.spares(failure, k) for pool in _pools(decode, prefill)]
        if prefill is not None and shared:
            lacking = max(_more_together(decode, prefill, more, failure) - r.spare_nodes, 0)
        else:
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


def _more_together(decode: FailingPool, prefill: FailingPool, more: Sequence[int], failure: Failure) -> int:
    """The same as :meth:`FailingPool.more_nodes` for ``more`` workers of two pools that stand on the same nodes."""
    per_node = decode.workers.hardware.gpus_per_node

    def nodes(d: int, p: int) -> int:
        return int(packed(d, decode.footprint, p, prefill.footprint, per_node).nodes)

    if decode.domains.gpus(failure) >= per_node:
        return nodes(*more)
    return nodes(decode.count + more[0], prefill.count + more[1]) - nodes(decode.count, prefill.count)


def _lacking(decode: FailingPool, prefill: FailingPool | None, nodes: Sequence[int], spare_nodes: int) -> int:
    """Nodes that the plan's spare ones, so many for each pool, leave to add of the ``nodes`` that each pool's spare
    workers take; pools of one node type may use each other's.
    """
    if prefill is not None and prefill.workers.hardware.id == decode.workers.hardware.id:
        return max(sum(nodes) - 2 * spare_nodes, 0)
    return sum(max(n - spare_nodes, 0) for n in nodes)


def _after(
    fleet: Fleet, decode: FailingPool, prefill: FailingPool | None, falls: Mapping[Failure, IntArray], k: int
) -> list[tuple[bool, float | None, float | None]] | None:
    """For each kind of failure, whether the limits hold however ``k`` of them fall on the pools, and the worst P99 of
    TTFT and TBT in milliseconds, None where a pool cannot carry the load; None for all of them in a closed loop.
    """
    rate = fleet.s.rate_rps
    if rate is None:
        return None
    lost = [_ways(k, len(falls[f])) @ falls[f] for f in FAILURES]
    kind = np.repeat(np.arange(len(FAILURES)), [len(some) for some in lost])
    counts = np.array([pool.count for pool in _pools(decode, prefill)])
    left = np.maximum(counts - np.concatenate(lost), 0)
    cases, place = np.unique(left, axis=0, return_inverse=True)
    good, times = np.zeros(len(cases), dtype=bool), np.full((2, len(cases)), np.inf)
    some = np.flatnonzero((cases > 0).all(axis=1))
    if some.size:
        rates = np.full(some.size, float(rate))
        prefill_left = None if prefill is None else cases[some, 1]
        found = fleet.looked_at(rates, cases[some, 0], prefill_left, levels=("p99",))
        good[some] = fleet.meets(found)
        times[:, some] = [found.get(metric, "p99") / MILLISECOND for metric in ("ttft", "tbt")]
    of = [place.reshape(-1)[kind == i] for i in range(len(FAILURES))]
    worst = [times[:, rows].max(axis=1) for rows in of]
    return [(bool(good[rows].all()), known(most[0]), known(most[1])) for rows, most in zip(of, worst, strict=True)]


def _ways(k: int, kinds: int) -> IntArray:
    """Every way in which ``k`` failures fall on ``kinds`` places, (ways, kinds)."""
    if kinds == 1:
        return np.array([[k]], dtype=np.int64)
    return np.concatenate([np.insert(_ways(k - n, kinds - 1), 0, n, axis=1) for n in range(k + 1)])


def availability(
    decode: FailingPool,
    prefill: FailingPool | None,
    needed: Sequence[int],
    down: Sequence[float],
    spare_nodes: int,
    *,
    shared: bool,
) -> float:
    """Part of the time in which every pool has as many of its workers up as are ``needed`` of each together, those on
    spare nodes included; ``down``: part of the time that one worker of each is. The workers fail independently.

    Where pools stand on the same nodes (``shared``) the spare ones are for either: the best way to deal them out.
    """
    pools = _pools(decode, prefill)
    if prefill is None or not shared:
        spare = [np.array([pool.on_spare_nodes(spare_nodes)]) for pool in pools]
    else:
        large, small = sorted(pools, key=lambda pool: -pool.footprint)
        many = np.arange(large.on_spare_nodes(spare_nodes) + 1)
        few = room_beside(many, large.footprint, small.footprint, spare_nodes, large.workers.hardware.gpus_per_node)
        spare = [many, few] if large is decode else [few, many]
    shares = [
        slo_availability(pool.count + more, n, share)
        for pool, more, n, share in zip(pools, spare, needed, down, strict=True)
    ]
    return float(np.prod(shares, axis=0).max())

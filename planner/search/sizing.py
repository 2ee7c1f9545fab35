"""Size of a chosen deployment: what it carries, its fleet over a day, spares for failures, recovery of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.catalog.hardware_spec import Node
from planner.economics.headroom import Domains, Failure, slo_availability, spare_workers
from planner.economics.recovery import Recovery, failures_per_year, recovery, reliability_defaults, unavailability
from planner.economics.sizing import DaySize, day_size, scaled_profile, smallest_fleets, smooth_day
from planner.errors import InfeasibleError
from planner.scenario.schema import Reliability
from planner.search.carrying import carried
from planner.search.evaluation import budget_of
from planner.search.fleet import Fleet
from planner.search.headline import workers_text
from planner.search.setup import Hardware, Setup
from planner.search.sizing_schema import DayPlan, FailurePlan, RecoveryPlan, Sizing
from planner.search.table import Deployments, Workers
from planner.units import DAY_S, GIB, MEGA, MILLISECOND

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

FAILURES: tuple[Failure, ...] = ("gpu", "node", "rack")
GENEROUS = 4
"""Prefill workers, as a multiple of the planned ones, with which decode workers are counted first."""


def sizing_of(s: Setup, row: Deployments) -> Sizing:
    """Sizing of a table of one feasible row with its load."""
    fleet = Fleet(s, row)
    rest, rest_sources = _recovery(fleet)
    needed = _needed(fleet)
    worker = row.decode
    gpus = int(worker.layouts.gpus[0])
    r = s.scenario.reliability
    total = float(rest.total_s)
    spare = r.spare_nodes * _per_node(worker)
    down = float(unavailability(gpus, total, r.gpu_failures_per_year)) if np.isfinite(total) else 1.0
    return Sizing(
        fleet=_sentence(row),
        needed_replicas=needed,
        carried_rps=carried(fleet),
        day=_day(fleet, float(rest.start_s)),
        failures=_failures(fleet, needed),
        recovery=_written(fleet, rest, rest_sources),
        unavailable_share=down,
        slo_availability=float(slo_availability(fleet.replicas + spare, needed, down)),
    )


def _sentence(row: Deployments) -> str:
    gpus = int(row.gpus[0])
    decode = workers_text(int(row.decode.count[0]), row.decode.layouts.describe(0))
    name = f"{gpus:,} GPU{'s' if gpus != 1 else ''}"
    if row.prefill is None:
        return f"{name} = {decode}"
    prefill = workers_text(int(row.prefill.count[0]), row.prefill.layouts.describe(0))
    return f"{name} = prefill {prefill} + decode {decode}"


def _needed(fleet: Fleet) -> int:
    """Fewest (decode) workers that hold every limit at the planned load, never more than planned."""
    rate = fleet.s.rate_rps
    if rate is None or fleet.replicas == 1:
        return fleet.replicas
    try:
        found = smallest_fleets(float(rate), fleet.holds, fleet.replicas)
    except InfeasibleError:
        return fleet.replicas
    return min(int(found[0]), fleet.replicas)


def day_shape(s: Setup) -> Array | None:
    """Hourly rates of the scenario's day, 24 values whose highest is the planned rate; None without a profile."""
    profile, rate = s.scenario.workload.daily_profile, s.rate_rps
    if profile is None or rate is None:
        return None
    if profile.hourly is not None:
        return scaled_profile(float(rate), profile.hourly)
    assert profile.peak_to_mean is not None
    return scaled_profile(float(rate), smooth_day(profile.peak_to_mean).tolist())


def _day(fleet: Fleet, start_s: float) -> DayPlan | None:
    s, row = fleet.s, fleet.row
    rates = day_shape(s)
    if rates is None:
        return None
    plenty = np.array([fleet.prefill_workers * GENEROUS])

    def holds(r: Array, n: IntArray) -> BoolArray:
        return fleet.holds(r, n, np.repeat(plenty, r.size))

    day = day_size(rates.tolist(), holds, peak_workers=fleet.replicas, start_s=start_s)
    decode = np.array(day.workers, dtype=np.int64)
    prefill = None if row.prefill is None else _day_prefill(fleet, day)
    gpus = decode * row.decode.layouts.gpus[0]
    rent = _rent(row.decode, decode)
    if prefill is not None and row.prefill is not None:
        gpus = gpus + prefill * row.prefill.layouts.gpus[0]
        rent = rent + _rent(row.prefill, prefill)
    peak = int(gpus.max())
    fixed, scaled = float(rent.max()) * 24.0, float(rent.sum())
    tokens = float(rates.mean()) * float(s.traffic.output_tokens) * DAY_S / MEGA
    return DayPlan(
        hourly_rps=tuple(rates.tolist()),
        hourly_replicas=day.workers,
        hourly_prefill_workers=None if prefill is None else tuple(int(n) for n in prefill),
        hourly_gpus=tuple(int(g) for g in gpus),
        mean_rps=float(rates.mean()),
        peak_gpus=peak,
        average_gpus=float(gpus.mean()),
        lowest_gpus=int(gpus.min()),
        saved_share=float(1.0 - gpus.mean() / peak),
        start_s=start_s,
        usd_per_day_fixed=_known(fixed),
        usd_per_day_autoscaled=_known(scaled),
        usd_per_mtok_output_fixed=_known(fixed / tokens),
        usd_per_mtok_output_autoscaled=_known(scaled / tokens),
    )


def _day_prefill(fleet: Fleet, day: DaySize) -> IntArray:
    """Prefill workers of each hour for the rate that its decode workers are there for; at the peak the planned ones."""
    decode = np.array(day.workers, dtype=np.int64)
    rates = np.maximum(day.rates_rps, np.roll(day.rates_rps, -1))
    out = np.where(rates == rates.max(), fleet.prefill_workers, 0)
    for rate in np.unique(rates[(decode > 0) & (out == 0)]):
        mine = (rates == rate) & (decode > 0)
        out[mine] = fleet.prefill_for(np.array([rate]), np.array([decode[mine].min()]))[0]
    return out


def _rent(w: Workers, count: IntArray) -> Array:
    """Dollars per hour of whole nodes for ``count`` workers each, (n,)."""
    return np.asarray(_nodes(w, count) * w.hardware.gpus_per_node * w.hardware.usd_per_gpu_hour, dtype=float)


def _nodes(w: Workers, count: IntArray) -> IntArray:
    many = w.take(np.zeros(count.size, dtype=np.int64))
    return replace(many, count=count).nodes


def _per_node(w: Workers) -> int:
    """Whole workers that a spare node holds; of a worker that spans nodes, none by itself."""
    return int(w.hardware.gpus_per_node // w.layouts.gpus[0])


def domains(hw: Hardware, worker_gpus: int, reliability: Reliability) -> Domains:
    """What fails together on a node type: hosts, and racks of as many GPUs as the scenario or the catalogue says."""
    host, rack = _host_and_rack(hw.node, hw.gpus_per_node)
    return Domains(worker_gpus, host, max(reliability.gpus_per_rack or rack, host))


def _host_and_rack(node: Node, used: int) -> tuple[int, int]:
    host = min(node.gpus_per_host or used, used)
    rack = node.gpus_per_rack or int(reliability_defaults().nodes_per_rack.value) * used
    return host, rack


def _failures(fleet: Fleet, needed: int) -> tuple[FailurePlan, ...]:
    row, r = fleet.row, fleet.s.scenario.reliability
    k = r.failures
    decode = domains(row.decode.hardware, int(row.decode.layouts.gpus[0]), r)
    prefill = None if row.prefill is None else domains(row.prefill.hardware, int(row.prefill.layouts.gpus[0]), r)
    lost = [min(k * decode.lost_workers(f), fleet.replicas) for f in FAILURES]
    after = _after(fleet, np.array(lost, dtype=np.int64))
    share = reliability_defaults().gpu_share_of_failures.value
    a_year = float(failures_per_year(int(row.gpus[0]), r.gpu_failures_per_year))
    rates = {"gpu": a_year * share, "node": a_year * (1.0 - share), "rack": None}
    plans = []
    for i, failure in enumerate(FAILURES):
        more = int(spare_workers(needed, fleet.replicas, decode, failure, k))
        nodes = _more_nodes(row.decode, more, decode.gpus(failure))
        gpus = int(row.gpus[0]) + more * int(row.decode.layouts.gpus[0])
        of_prefill = None
        if prefill is not None and row.prefill is not None:
            count = fleet.prefill_workers
            of_prefill = int(spare_workers(count, count, prefill, failure, k))
            nodes += _more_nodes(row.prefill, of_prefill, prefill.gpus(failure))
            gpus += of_prefill * int(row.prefill.layouts.gpus[0])
        pools = 1 if row.prefill is None else 2
        plans.append(
            FailurePlan(
                failure=failure,
                count=k,
                lost_replicas=lost[i],
                lost_prefill_workers=None if of_prefill is None else min(of_prefill, fleet.prefill_workers),
                met_without_spares=None if after is None else after[i][0],
                ttft_p99_ms=None if after is None else after[i][1],
                tbt_p99_ms=None if after is None else after[i][2],
                spare_replicas=more,
                spare_prefill_workers=of_prefill,
                spare_nodes=nodes,
                gpus=gpus,
                per_year=rates[failure],
                covered=r.spare_nodes * pools >= nodes,
            )
        )
    return tuple(plans)


def _more_nodes(w: Workers, more: int, together: int) -> int:
    """Nodes for ``more`` workers: beside the others where what fails ``together`` is less than a node, else apart, so
    that one failure does not take both.
    """
    count = int(w.count[0])
    if together >= w.hardware.gpus_per_node:
        return int(_nodes(w, np.array([more], dtype=np.int64))[0])
    both = _nodes(w, np.array([count, count + more], dtype=np.int64))
    return int(both[1] - both[0])


def _after(fleet: Fleet, lost: IntArray) -> list[tuple[bool, float | None, float | None]] | None:
    """Whether the limits hold with ``lost`` workers fewer, and P99 of TTFT and TBT in milliseconds; None in a closed
    loop.
    """
    rate = fleet.s.rate_rps
    if rate is None:
        return None
    left = fleet.replicas - lost
    some = np.maximum(left, 1)
    found = fleet.result(np.full(lost.size, float(rate)), some, levels=("p99",))
    good = fleet.meets(found) & (left > 0)
    times = [np.where(left > 0, fleet.seconds(found, m, "p99") / MILLISECOND, np.inf) for m in ("ttft", "tbt")]
    return [(bool(good[i]), _known(times[0][i]), _known(times[1][i])) for i in range(lost.size)]


def _recovery(fleet: Fleet) -> tuple[Recovery, Mapping[str, float]]:
    """Recovery of one (decode) worker, and what it was worked out from."""
    s, row, r = fleet.s, fleet.row, fleet.s.scenario.reliability
    w = row.decode
    memory = budget_of(s, w.hardware, w.layouts, np.maximum(w.concurrency, 1.0), w.token_budget)
    host, _ = _host_and_rack(w.hardware.node, w.hardware.gpus_per_node)
    weights = float(memory.term("weights")[0]) * min(int(w.layouts.gpus[0]), host)
    lost = float(w.concurrency[0])
    tokens = lost * float(s.traffic.mean_context)
    meanwhile, after = _spare_prefill(fleet)
    found = recovery(
        weights,
        tokens,
        meanwhile,
        after,
        detection_s=r.detection_s,
        restart_s=r.restart_s,
        weight_read_gb_s=r.weight_read_gb_s,
        graph_capture_s=r.graph_capture_s,
        warm_up_s=r.warm_up_s,
    )
    return found, {"weights": weights, "requests": lost, "tokens": tokens}


def _spare_prefill(fleet: Fleet) -> tuple[float, float]:
    """Prompt tokens per second that the fleet has to spare without one (decode) worker, and with all.

    Workers that are full to the part u (load over what full steps pass) with L prompts per second pass L / u of them.
    """
    row = fleet.row
    new = float(fleet.s.traffic.new_tokens)
    rate = float(row.outcome.throughput_rps[0])
    full = float(np.clip(_prompt_load(fleet, rate), 1e-9, 1.0))
    whole = rate * new / full
    after = max(whole - rate * new, 0.0)
    if row.prefill is not None:
        return after, after
    n = fleet.replicas
    return max(whole * (n - 1) / n - rate * new, 0.0), after


def _prompt_load(fleet: Fleet, rate: float) -> float:
    """Prompts over what the workers that read them pass, 0 to 1; in a closed loop the time that prompts take."""
    row = fleet.row
    if row.loaded is not None and row.loaded.prefill is not None:
        return float(row.loaded.prefill.load[0])
    if row.prefill is None and fleet.s.rate_rps is not None:
        return float(fleet.result(np.array([rate]), row.decode.count).flow.utilisation[0])
    return float(row.outcome.prefill_utilisation[0])


def _written(fleet: Fleet, found: Recovery, of: Mapping[str, float]) -> RecoveryPlan:
    r, defaults = fleet.s.scenario.reliability, reliability_defaults()
    names = ("detection_s", "restart_s", "weight_read_gb_s", "graph_capture_s", "warm_up_s", "gpu_failures_per_year")
    sources = {name: "scenario" if getattr(r, name) is not None else getattr(defaults, name).source for name in names}
    return RecoveryPlan(
        detection_s=float(found.detection_s),
        restart_s=float(found.restart_s),
        weights_s=float(found.weights_s),
        warm_up_s=float(found.warm_up_s),
        graphs_s=float(found.graphs_s),
        reprefill_s=_known(float(found.reprefill_s)),
        total_s=_known(float(found.total_s)),
        weight_gib_per_node=of["weights"] / GIB,
        weight_read_gb_s=r.weight_read_gb_s or defaults.weight_read_gb_s.value,
        lost_requests=of["requests"],
        lost_tokens=of["tokens"],
        sources=sources,
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

"""Size of a chosen deployment: what it carries, its fleet over a day, spares for failures, recovery of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.economics.recovery import Recovery, recovery, reliability_defaults, unavailability
from planner.economics.sizing import DaySize, day_size, scaled_profile, smallest_fleets, smooth_day
from planner.errors import InfeasibleError
from planner.search.candidate_parts import known
from planner.search.carrying import carried
from planner.search.evaluation import budget_of
from planner.search.failures import (
    FailingPool,
    availability,
    failing_pools,
    failure_plans,
    host_and_rack,
)
from planner.search.fleet import Fleet
from planner.search.headline import workers_text
from planner.search.setup import Setup
from planner.search.sizing_schema import DayPlan, RecoveryPlan, Sizing
from planner.search.standing import rent_per_hour, together
from planner.search.table import Deployments, Workers
from planner.search.worker_settings import prefill_budget
from planner.units import DAY_S, GIB, MEGA

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

GENEROUS = 4
"""Prefill workers, as a multiple of the planned ones, with which decode workers are counted first."""


def sizing_of(s: Setup, row: Deployments) -> Sizing:
    """Sizing of a table of one feasible row with its load."""
    fleet = Fleet(s, row)
    r = s.scenario.reliability
    rest, rest_sources = _recovery(fleet)
    needed = _needed(fleet)
    alone, beside = _needed_prefill(fleet, needed)
    decode, *others = failing_pools(s, row, [needed] if row.prefill is None else [needed, alone])
    prefill = others[0] if others else None
    down = [_down(fleet, decode, rest)]
    if prefill is not None:
        down.append(_down(fleet, prefill, _prefill_recovery(fleet, prefill.workers)))
    enough = [needed] if prefill is None else [needed, beside]
    return Sizing(
        fleet=_sentence(row),
        needed_replicas=needed,
        needed_prefill_workers=None if prefill is None else beside,
        carried_rps=carried(fleet),
        day=_day(fleet, float(rest.start_s)),
        failures=failure_plans(fleet, decode, prefill),
        recovery=_written(fleet, rest, rest_sources),
        unavailable_share=down[0],
        prefill_unavailable_share=None if prefill is None else down[1],
        slo_availability=availability(decode, prefill, enough, down, r.spare_nodes, shared=together(s, row.pools)),
    )


def _down(fleet: Fleet, pool: FailingPool, rest: Recovery) -> float:
    """Part of the time that one worker of a pool is away."""
    total = float(rest.total_s)
    a_year = fleet.s.scenario.reliability.gpu_failures_per_year
    return float(unavailability(pool.gpus, total, a_year)) if np.isfinite(total) else 1.0


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
    least = fleet.confirmed(np.array([float(rate)]), np.minimum(found, fleet.replicas))
    return int(least[0])


def _needed_prefill(fleet: Fleet, decode: int) -> tuple[int, int]:
    """Fewest prefill workers that hold every limit at the planned load beside all decode workers, and beside ``decode``
    of them; never more than planned, 0 without the pool.
    """
    rate, count = fleet.s.rate_rps, fleet.prefill_workers
    if rate is None or count <= 1:
        return count, count
    beside = np.array(sorted({fleet.replicas, decode}, reverse=True), dtype=np.int64)
    found = fleet.prefill_for(np.full(beside.size, float(rate)), beside)
    return int(found[0]), int(found[-1])


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

    day = day_size(rates.tolist(), holds, confirmed=fleet.confirmed, peak_workers=fleet.replicas, start_s=start_s)
    decode, prefill = np.array(day.workers, dtype=np.int64), None
    if row.prefill is not None:
        decode, prefill = _day_pools(fleet, day)
    pools = [_many(row.decode, decode)]
    if prefill is not None and row.prefill is not None:
        pools.insert(0, _many(row.prefill, prefill))
    gpus = np.asarray(sum(pool.gpus for pool in pools))
    rent = rent_per_hour(s, pools)
    peak = int(gpus.max())
    fixed, scaled = float(rent.max()) * 24.0, float(rent.sum())
    tokens = float(rates.mean()) * float(s.traffic.output_tokens) * DAY_S / MEGA
    return DayPlan(
        hourly_rps=tuple(rates.tolist()),
        hourly_replicas=tuple(int(n) for n in decode),
        hourly_prefill_workers=None if prefill is None else tuple(int(n) for n in prefill),
        hourly_gpus=tuple(int(g) for g in gpus),
        mean_rps=float(rates.mean()),
        peak_gpus=peak,
        average_gpus=float(gpus.mean()),
        lowest_gpus=int(gpus.min()),
        saved_share=float(1.0 - gpus.mean() / peak),
        start_s=start_s,
        usd_per_day_fixed=known(fixed),
        usd_per_day_autoscaled=known(scaled),
        usd_per_mtok_output_fixed=known(fixed / tokens),
        usd_per_mtok_output_autoscaled=known(scaled / tokens),
    )


def _day_pools(fleet: Fleet, day: DaySize) -> tuple[IntArray, IntArray]:
    """Decode and prefill workers of each hour for the rate that they are there for: at the peak, and where the fewest
    decode workers leave prefill no time, the planned ones.
    """
    decode = np.array(day.workers, dtype=np.int64)
    rates = np.maximum(day.rates_rps, np.roll(day.rates_rps, -1))
    prefill = np.where(rates == rates.max(), fleet.prefill_workers, 0)
    rows = np.flatnonzero((decode > 0) & (prefill == 0))
    if rows.size:
        asked, of = np.unique(rates[rows], return_inverse=True)
        least = np.full(asked.size, fleet.replicas, dtype=np.int64)
        np.minimum.at(least, of, decode[rows])
        prefill[rows] = fleet.prefill_for(asked, least)[of]
    rows = np.flatnonzero(decode > 0)
    broken = rows[~fleet.holds(rates[rows], decode[rows], prefill[rows])]
    decode[broken], prefill[broken] = fleet.replicas, fleet.prefill_workers
    return decode, prefill


def _many(w: Workers, count: IntArray) -> Workers:
    """``count`` workers each like the one of ``w``, (n,)."""
    return replace(w.take(np.zeros(count.size, dtype=np.int64)), count=count)


def _recovery(fleet: Fleet) -> tuple[Recovery, Mapping[str, float]]:
    """Recovery of one (decode) worker, and what it was worked out from."""
    s, w = fleet.s, fleet.row.decode
    memory = budget_of(s, w.hardware, w.layouts, np.maximum(w.concurrency, 1.0), w.token_budget)
    lost = float(w.concurrency[0])
    tokens = lost * float(s.traffic.mean_context)
    meanwhile, after = _spare_prefill(fleet, 1 if fleet.row.prefill is None else 0)
    weights = float(memory.term("weights")[0])
    found = _recovered(fleet, w, weights, tokens, meanwhile, after)
    per_node = weights * _gpus_on_a_host(w)
    return found, {"weights": per_node, "requests": lost, "tokens": tokens}


def _prefill_recovery(fleet: Fleet, w: Workers) -> Recovery:
    """Recovery of one prefill worker, which loses the prompts under way."""
    s = fleet.s
    weights = float(prefill_budget(s, w).term("weights")[0])
    tokens = float(w.concurrency[0]) * float(s.traffic.new_tokens)
    return _recovered(fleet, w, weights, tokens, *_spare_prefill(fleet, 1))


def _recovered(fleet: Fleet, w: Workers, weights: float, tokens: float, meanwhile: float, after: float) -> Recovery:
    """Recovery of a worker with ``weights`` bytes on a GPU that loses ``tokens``, which the others have ``meanwhile``
    tokens per second to spare for, and all of them ``after`` it.
    """
    r = fleet.s.scenario.reliability
    return recovery(
        weights * _gpus_on_a_host(w),
        tokens,
        meanwhile,
        after,
        detection_s=r.detection_s,
        restart_s=r.restart_s,
        weight_read_gb_s=r.weight_read_gb_s,
        graph_capture_s=r.graph_capture_s,
        warm_up_s=r.warm_up_s,
    )


def _gpus_on_a_host(w: Workers) -> int:
    """GPUs of one worker on one host."""
    host, _ = host_and_rack(w.hardware.node, w.hardware.gpus_per_node)
    return min(int(w.layouts.gpus[0]), host)


def _spare_prefill(fleet: Fleet, away: int) -> tuple[float, float]:
    """Prompt tokens per second that the workers that read prompts have to spare without ``away`` of them, and with all.

    Workers that are full to the part u (load over what full steps pass) with L prompts per second pass L / u of them.
    """
    new = float(fleet.s.traffic.new_tokens)
    rate = float(fleet.row.outcome.throughput_rps[0])
    full = float(np.clip(_prompt_load(fleet, rate), 1e-9, 1.0))
    whole = rate * new / full
    n = fleet.prefill_workers or fleet.replicas
    return max(whole * (n - away) / n - rate * new, 0.0), max(whole - rate * new, 0.0)


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
        reprefill_s=known(float(found.reprefill_s)),
        total_s=known(float(found.total_s)),
        weight_gib_per_node=of["weights"] / GIB,
        weight_read_gb_s=r.weight_read_gb_s or defaults.weight_read_gb_s.value,
        lost_requests=of["requests"],
        lost_tokens=of["tokens"],
        sources=sources,
    )

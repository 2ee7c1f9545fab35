"""Sizing of real plans: the day, failures, recovery, and priority classes beside them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import InputError
from planner.search.plan_schema import Candidate, Plan
from planner.search.sizing_schema import Sizing

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = "qwen3-32b-l40s"


@cache
def _plan(rate: float = 30.0, profile: float | None = 2.0, **reliability: Any) -> Plan:
    data = planner.load_scenario(EXAMPLES / f"{SMALL}.yaml").to_dict()
    data["hardware"]["candidates"] = [{"node": "l40s-8-pcie"}]
    data["workload"]["arrival"] = {"kind": "poisson", "rate_rps": rate}
    if profile is not None:
        data["workload"]["daily_profile"] = {"peak_to_mean": profile}
    data["workload"]["priority_classes"] = [
        {"name": "chat", "share": 0.3, "priority": 0},
        {"name": "batch", "share": 0.7, "priority": 1},
    ]
    data["reliability"] = reliability
    return planner.plan(planner.Scenario.from_dict(data))


def _best(plan: Plan) -> tuple[Candidate, Sizing]:
    assert plan.best is not None
    assert plan.best.sizing is not None
    return plan.best, plan.best.sizing


def test_the_day_peaks_at_the_plan() -> None:
    best, sizing = _best(_plan())
    day = sizing.day
    assert day is not None
    assert sizing.fleet.startswith(f"{best.gpus} GPUs = {best.replicas} replicas × (")
    assert day.peak_gpus == best.gpus == max(day.hourly_gpus)
    assert max(day.hourly_rps) == 30.0
    assert day.mean_rps == pytest.approx(15.0)
    assert day.lowest_gpus < day.average_gpus < day.peak_gpus
    assert day.usd_per_day_autoscaled is not None
    assert day.usd_per_day_fixed == pytest.approx((best.usd_per_hour or 0.0) * 24)
    assert day.usd_per_day_autoscaled < day.usd_per_day_fixed


def test_a_quiet_hour_s_fleet_is_what_a_plan_for_that_hour_takes() -> None:
    """The same layout planned for the lowest rate takes as many workers, give or take one."""
    _, sizing = _best(_plan())
    day = sizing.day
    assert day is not None
    quiet = _plan(day.hourly_rps[0], None)
    best = _plan().best
    assert best is not None
    same = [c for c in quiet.candidates if c.layout == best.layout and c.node == best.node]
    assert same
    assert abs(min(c.replicas for c in same) - min(day.hourly_replicas)) <= 1


def test_the_fleet_carries_its_load_and_not_without_a_worker() -> None:
    best, sizing = _best(_plan())
    assert sizing.carried_rps is not None
    assert sizing.carried_rps >= 30.0
    gpu, node, rack = sizing.failures
    assert gpu.met_without_spares is False
    assert (gpu.lost_replicas, gpu.spare_replicas) == (1, 1)
    assert gpu.spare_replicas <= node.spare_replicas <= rack.spare_replicas <= best.replicas
    assert gpu.spare_nodes <= node.spare_nodes <= rack.spare_nodes
    assert gpu.gpus == best.gpus + best.layout.gpus


def test_what_a_fleet_carries_does_not_hang_on_the_load_asked_for() -> None:
    """The same workers at a millionth, a third and most of what they carry."""
    found = {}
    for rate in (1e-6, 0.3, 1.0):
        best, sizing = _best(_plan(rate, None))
        assert sizing.carried_rps is not None
        assert sizing.carried_rps >= rate
        key = (best.layout, best.replicas, best.settings.max_num_batched_tokens)
        found.setdefault(key, []).append(sizing.carried_rps)
    assert any(len(rates) > 1 for rates in found.values())
    for rates in found.values():
        assert max(rates) <= 1.03 * min(rates)


def test_spare_nodes_cover_a_failure_and_make_the_slo_more_available() -> None:
    _, bare = _best(_plan())
    _, spare = _best(_plan(spare_nodes=bare.failures[1].spare_nodes))
    assert spare.failures[1].covered
    assert spare.slo_availability > bare.slo_availability


def test_recovery_takes_the_scenario_s_own_times() -> None:
    _, shipped = _best(_plan())
    _, own = _best(_plan(detection_s=5.0, weight_read_gb_s=24.0, failures=2))
    assert own.recovery.detection_s == 5.0
    assert own.recovery.weights_s == pytest.approx(0.1 * shipped.recovery.weights_s)
    assert own.recovery.sources["detection_s"] == "scenario"
    assert shipped.recovery.sources["detection_s"] != "scenario"
    r = shipped.recovery
    parts = (r.detection_s, r.restart_s, r.weights_s, r.warm_up_s, r.graphs_s, r.reprefill_s or 0.0)
    assert r.total_s == pytest.approx(sum(parts))
    assert own.failures[0].spare_replicas == 2


def test_urgent_requests_wait_less_at_every_percentile() -> None:
    best, _ = _best(_plan())
    urgent, other = best.priorities
    for level in ("mean", "p90", "p95", "p99"):
        assert getattr(urgent.ttft_ms, level) <= getattr(best.ttft_ms, level) * 1.001
        assert getattr(best.ttft_ms, level) <= getattr(other.ttft_ms, level) * 1.001
    mixed = urgent.share * (urgent.ttft_ms.mean or 0) + other.share * (other.ttft_ms.mean or 0)
    assert mixed == pytest.approx(best.ttft_ms.mean, rel=0.02)


def test_the_plan_reads_back_with_its_sizing() -> None:
    plan = _plan()
    assert Plan.from_yaml(plan.to_yaml()) == plan


def test_a_day_needs_a_rate() -> None:
    data = planner.load_scenario(EXAMPLES / "gpt-oss-120b-h100.yaml").to_dict()
    assert data["workload"]["arrival"]["kind"] == "closed_loop"
    data["workload"]["daily_profile"] = {"peak_to_mean": 2.0}
    with pytest.raises(InputError, match="daily_profile"):
        planner.Scenario.from_dict(data)

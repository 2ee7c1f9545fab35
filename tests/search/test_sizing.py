"""Sizing of real plans: the day, failures, recovery, and priority classes beside them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner.errors import InputError
from planner.export.report.content import report
from planner.export.report.markdown import as_markdown
from planner.search.carrying import at_rate
from planner.search.fleet import Fleet
from planner.search.headline import headline, sig3
from planner.search.plan_schema import Candidate, Plan
from planner.search.planned import Planned
from planner.search.planning import planned
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


@cache
def _day_of(name: str, load: float, **reliability: Any) -> tuple[Planned, Sizing]:
    """An example at ``load`` times its rate, over a day whose peak is twice its mean."""
    data = planner.load_scenario(EXAMPLES / f"{name}.yaml").to_dict()
    data["workload"]["daily_profile"] = {"peak_to_mean": 2.0}
    data["workload"]["arrival"]["rate_rps"] *= load
    for choice in data["hardware"]["candidates"]:
        choice.pop("max_nodes", None)
    data["reliability"] = reliability
    made = planned(planner.Scenario.from_dict(data))
    return made, made.sizing()


@pytest.mark.parametrize(
    ("name", "load"), [("llama-3.3-70b-mi300x", 1.0), ("llama-3.3-70b-mi300x", 8.0), ("qwen3-32b-l40s", 8.0)]
)
def test_every_hour_holds_where_its_workers_are_planned_for_its_rate(name: str, load: float) -> None:
    """Evaluated as a plan for that hour does: steps at their own occupancy, one by one where their chain applies."""
    made, sizing = _day_of(name, load)
    assert sizing.day is not None
    s, row = made.setup, made.deployment()
    assert row.steps
    served = np.maximum(sizing.day.hourly_rps, np.roll(sizing.day.hourly_rps, -1))
    counts = sorted(set(zip(served.tolist(), sizing.day.hourly_replicas, strict=True)))
    tightest = {count: rate for rate, count in counts}
    assert len(tightest) > 1
    looked_at = 0
    for count, rate in tightest.items():
        hour = replace(row, decode=replace(row.decode, count=np.array([count])), steps={})
        _, found = at_rate(s, hour, rate)
        assert found.rejections.feasible[0], (rate, count)
        looked_at += len(found.steps)
    assert looked_at > 0


def test_counts_are_raised_until_a_look_at_the_steps_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the closed forms found, up to what the plan has."""
    made, sizing = _day_of("llama-3.3-70b-mi300x", 8.0)
    fleet = Fleet(made.setup, made.deployment())
    assert sizing.day is not None
    rates = np.unique(sizing.day.hourly_rps)[:-1]
    right = fleet.confirmed(rates, np.array([sizing.day.hourly_replicas[h] for h in _hours(sizing, rates)]))
    few = np.maximum(right - 2, 1)
    # closed forms so rosy that everything is near its limit and nothing is told by them
    monkeypatch.setattr(Fleet, "corrections", {("tpot", "mean"): 1.0, ("ttft", "p95"): 1.0})
    raised = fleet.confirmed(rates, few)
    assert np.all(raised >= few)
    assert np.all(raised <= fleet.replicas)
    assert fleet.meets(fleet.looked_at(rates, raised)).all()


def _hours(sizing: Sizing, rates: np.ndarray) -> list[int]:
    """Hours of the falling half of the day, where nothing is started for the next, with these rates."""
    assert sizing.day is not None
    hourly = sizing.day.hourly_rps
    return [max(h for h in range(24) if hourly[h] == rate) for rate in rates]


def test_costs_are_said_to_be_the_busiest_hours() -> None:
    day, flat = _plan(), _plan(profile=None)
    said = "over the day, with a mean load of 0.5 of it, a token of a fleet of fixed size costs 2 times as much."
    assert sum(text.endswith(said) for text in day.assumptions) == 1
    assert not any("busiest hour" in text for text in flat.assumptions)
    best, sizing = _best(day)
    assert sizing.day is not None
    over = sig3(sizing.day.usd_per_mtok_output_fixed)
    assert f"in the busiest hour, ${over} over the day" in headline(day)
    assert "busiest hour" not in headline(flat)
    row = next(line for line in as_markdown(report(day)).splitlines() if "the same over the day" in line)
    assert [cell.strip() for cell in row.split("|")[1:3]][1] == over
    assert "the mean load is 50 % of it" in row.replace("\u202f", " ").replace("\u00a0", " ")
    assert "of the busiest hour" not in as_markdown(report(flat))
    assert best.usd_per_mtok.output is not None
    assert sizing.day.usd_per_mtok_output_fixed == pytest.approx(2.0 * best.usd_per_mtok.output)


def test_spare_nodes_are_paid_for_all_day() -> None:
    made, sizing = _day_of("llama-3.3-70b-mi300x", 8.0, spare_nodes=1)
    _, bare = _day_of("llama-3.3-70b-mi300x", 8.0)
    best = made.plan.candidates[0]
    assert sizing.day is not None
    assert bare.day is not None
    assert best.usd_per_hour is not None
    assert sizing.day.usd_per_day_fixed == pytest.approx(24 * best.usd_per_hour)
    node = 24 * 8 * 1.99
    for field in ("usd_per_day_fixed", "usd_per_day_autoscaled"):
        assert getattr(sizing.day, field) - getattr(bare.day, field) == pytest.approx(node)
    assert sizing.day.hourly_gpus == bare.day.hourly_gpus


def test_a_limit_on_another_percentile_than_p99_is_that_of_the_plan() -> None:
    """The limit is on P95 and P99 is told beside it: one is not taken for the other."""
    made, _ = _day_of("llama-3.3-70b-mi300x", 1.0)
    row = made.deployment()
    assert made.setup.limits_s["ttft"] == {"p95": 3.0}
    plain = Fleet(made.setup, replace(row, steps={}))
    found = plain.result(row.outcome.throughput_rps, row.decode.count, levels=("p99",))
    assert found.get("ttft", "p95")[0] < found.get("ttft", "p99")[0]


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
    lacking = bare.failures[1].spare_nodes
    assert lacking > 0
    assert not bare.failures[1].covered
    _, spare = _best(_plan(spare_nodes=lacking))
    assert spare.failures[1].covered
    assert spare.failures[1].spare_nodes == 0
    assert spare.slo_availability > bare.slo_availability


def test_spare_nodes_of_the_plan_are_not_to_add_again() -> None:
    """One node at a time: each that the plan has is one less to add, and none are to add where it has them all."""
    _, bare = _best(_plan(gpus_per_rack=32))
    rack = bare.failures[2].spare_nodes
    assert rack > 1
    _, one = _best(_plan(gpus_per_rack=32, spare_nodes=1))
    _, all_ = _best(_plan(gpus_per_rack=32, spare_nodes=rack))
    assert [s.failures[2].spare_nodes for s in (bare, one, all_)] == [rack, rack - 1, 0]
    assert [s.failures[2].covered for s in (bare, one, all_)] == [False, False, True]


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

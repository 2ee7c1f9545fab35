"""Whole plans: what they promise about ranking, limits, memory, prices and reasons."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.scenario.schema import Scenario
from planner.search.assumptions import ASKED, FEWEST
from planner.search.pareto import pareto_mask
from planner.search.plan_schema import Candidate, Plan

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FEASIBLE = sorted(p.stem for p in EXAMPLES.glob("*.yaml") if not p.stem.startswith("infeasible"))
OBJECTIVES: dict[str, Callable[[Candidate], float]] = {
    "lowest_cost": lambda c: c.usd_per_mtok.output or np.inf,
    "fewest_gpus": lambda c: c.gpus,
    "highest_goodput": lambda c: -c.goodput_rps / c.gpus,
    "lowest_energy": lambda c: c.joules_per_token or np.inf,
    "lowest_ttft": lambda c: c.ttft_ms.p99 or np.inf,
    "lowest_tbt": lambda c: c.tbt_ms.p99 or np.inf,
}


@cache
def _example(name: str) -> Plan:
    return planner.plan(planner.load_scenario(EXAMPLES / f"{name}.yaml"))


def _scenario(**changes: Any) -> Scenario:
    """Llama 70B on one or two H100 nodes, small enough for many plans; ``changes`` replace whole sections."""
    base: dict[str, Any] = {
        "schema": "planner.scenario/1",
        "name": "test",
        "model": "llama-3.3-70b",
        "hardware": {"candidates": [{"node": "dgx-h100", "max_nodes": 4}], "max_gpus_per_worker": 8},
        "engine": {"name": "vllm"},
        "workload": {
            "input_tokens": {"kind": "fixed", "tokens": 1000},
            "output_tokens": {"kind": "fixed", "tokens": 300},
            "arrival": {"kind": "poisson", "rate_rps": 4.0},
        },
        "slo": {"ttft_ms": {"mean": 2000.0}, "tpot_ms": {"mean": 50.0}},
        "objective": "lowest_cost",
        "search": {"serving": ["agg", "disagg"]},
    }
    return Scenario.model_validate(base | changes)


@pytest.mark.parametrize("name", FEASIBLE)
def test_candidates_fit_and_meet_every_limit(name: str) -> None:
    plan = _example(name)
    assert plan.candidates
    for c in plan.candidates:
        assert all(check.met for check in c.slo), c.layout
        memories = [c.memory_gib, *(p.memory_gib for p in (c.prefill_pool, c.decode_pool) if p and p.memory_gib)]
        for m in memories:
            assert m.total <= m.capacity * (1 + 1e-9)
            terms = (m.weights, m.kv, m.workspace, m.collectives, m.graphs, m.runtime, m.margin)
            assert sum(terms) == pytest.approx(m.capacity)
        for check in c.slo:
            assert check.met == (check.value <= check.limit)
        assert c.max_concurrency is not None
        assert c.concurrency <= c.max_concurrency * (1 + 1e-9)
        for phase, step in c.breakdown.step_ms.items():
            assert sum(t.exposed_ms for t in c.breakdown.phase(phase)) == pytest.approx(step)
        for metric, value in (("ttft_ms", c.ttft_ms.mean), ("tpot_ms", c.tpot_ms.mean)):
            assert value is not None
            assert 0 < c.interval[metric].low80 < c.interval[metric].high80


@pytest.mark.parametrize("name", FEASIBLE)
def test_pools_of_a_split_deployment_match_their_rates(name: str) -> None:
    for c in _example(name).candidates:
        if c.serving == "agg":
            assert c.prefill_pool is None
            assert c.kv_transfer_ms is None
            continue
        assert c.prefill_pool is not None
        assert c.decode_pool is not None
        assert c.gpus == c.prefill_pool.gpus + c.decode_pool.gpus
        assert (c.kv_transfer_ms or 0) > 0
        for pool in (c.prefill_pool, c.decode_pool):
            assert 0 < (pool.utilisation or 0) <= 1 + 1e-9


@pytest.mark.parametrize("name", FEASIBLE)
def test_frontier_points_are_not_dominated(name: str) -> None:
    points = _example(name).pareto
    assert points
    columns = [
        [p.gpus for p in points],
        [(p.goodput_rps or 0.0) / p.gpus for p in points],
        [p.ttft_p99_ms or np.inf for p in points],
        [p.tbt_p99_ms or np.inf for p in points],
        [p.usd_per_mtok_output or 0.0 for p in points],
        [p.joules_per_token or 0.0 for p in points],
        [p.tpot_ms for p in points],
    ]
    assert pareto_mask(columns, ["min", "max", *["min"] * 5]).all()


@pytest.mark.parametrize("name", FEASIBLE)
def test_candidates_stand_in_the_order_of_the_objective(name: str) -> None:
    plan = _example(name)
    values = [OBJECTIVES[plan.scenario.objective](c) for c in plan.candidates]
    assert values == sorted(values)
    assert [c.rank for c in plan.candidates] == list(range(1, len(values) + 1))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_finds_the_best_that_any_objective_finds(objective: str) -> None:
    value = OBJECTIVES[objective]
    mine = planner.plan(_scenario(objective=objective))
    assert mine.best is not None
    for other in OBJECTIVES:
        found = planner.plan(_scenario(objective=other)).best
        assert found is not None
        assert value(mine.best) <= value(found) + 1e-8 * abs(value(found)), other


def test_a_plan_is_the_same_every_time() -> None:
    scenario = planner.load_scenario(EXAMPLES / "deepseek-r1-h200.yaml")
    assert planner.plan(scenario) == planner.plan(scenario)


@pytest.mark.parametrize("slack", [1.5, 4.0])
def test_more_slack_never_costs_more(slack: float) -> None:
    def cheapest(factor: float) -> float:
        plan = planner.plan(_scenario(slo={"ttft_ms": {"mean": 500.0 * factor}, "tpot_ms": {"mean": 25.0 * factor}}))
        assert plan.best is not None
        return plan.best.usd_per_mtok.output or np.inf

    assert cheapest(slack) <= cheapest(1.0) * (1 + 1e-9)


def test_more_load_never_takes_fewer_gpus() -> None:
    def gpus(rate: float) -> int:
        workload = _scenario().workload.model_dump(mode="json") | {"arrival": {"kind": "poisson", "rate_rps": rate}}
        best = planner.plan(_scenario(workload=workload, objective="fewest_gpus")).best
        assert best is not None
        return best.gpus

    found = [gpus(rate) for rate in (1.0, 4.0, 16.0)]
    assert found == sorted(found)


@pytest.mark.parametrize("name", ["gpt-oss-120b-h100", "qwen3-32b-l40s", "llama-3.3-70b-mi300x"])
def test_estimating_a_planned_layout_gives_its_numbers(name: str) -> None:
    plan = _example(name)
    best = next(c for c in plan.candidates if c.serving == "agg")
    layout = best.layout
    asked = plan.scenario.to_dict()  # with the settings of the plan's choice: an estimate tries several
    asked["engine"]["options"] |= {
        "max_num_batched_tokens": best.settings.max_num_batched_tokens,
        "two_batch_overlap": best.settings.two_batch_overlap,
    }
    answer = planner.estimate(
        Scenario.from_dict(asked),
        Layouts.of(layout.tp, layout.pp, layout.attention_dp, layout.moe_tp, layout.ep, layout.redundant_experts),
        node=best.node,
        concurrency=best.concurrency_per_worker,
    )
    assert answer.feasible
    again = answer.candidate
    assert (again.gpus, again.replicas) == (best.gpus, best.replicas)
    assert again.usd_per_mtok.output == best.usd_per_mtok.output
    # The plan carries step times along their slope from an operating point nearby.
    assert again.concurrency == pytest.approx(best.concurrency, rel=0.1)
    for metric in ("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms"):
        for level in ("mean", "p50", "p95", "p99"):
            mine, theirs = getattr(getattr(again, metric), level), getattr(getattr(best, metric), level)
            assert mine == pytest.approx(theirs, rel=0.1), (metric, level)


def test_a_concurrency_at_an_offered_rate_says_what_comes_of_it() -> None:
    """The rate decides how full workers are; in a closed loop the number asked for is what is in flight."""
    for asked in (4.0, 12.0):
        answer = planner.estimate(_scenario(), Layouts.of(tp=4), concurrency=asked)
        c = answer.candidate
        held = c.concurrency / c.replicas
        assert held < 1.05 * asked
        assert answer.assumptions[0].startswith(f"A concurrency of {asked:g} is what a worker may hold on average")
        assert f"at 4 requests per second that takes {c.replicas}" in answer.assumptions[0]
        assert f"{held:.3g}" in answer.assumptions[0]
        assert FEWEST not in answer.assumptions
    free = planner.estimate(_scenario(), Layouts.of(tp=4))
    assert FEWEST in free.assumptions
    loop = _scenario().to_dict()
    loop["workload"]["arrival"] = {"kind": "closed_loop", "concurrency": 12}
    for answer in (free, planner.estimate(Scenario.from_dict(loop), Layouts.of(tp=4), concurrency=12.0)):
        assert not any(text.startswith(ASKED) for text in answer.assumptions)
    assert answer.candidate.concurrency == 12


def test_nothing_fits_says_memory_and_what_would_fit() -> None:
    plan = _example("infeasible-405b-one-h100")
    assert not plan.candidates
    assert plan.feasible == 0
    memory = next(r for r in plan.rejected if r.reason == "memory")
    assert memory.needed is not None
    assert memory.available is not None
    assert memory.needed > memory.available
    assert memory.unit == "GiB"
    assert memory.term == "weights"
    assert "fits" in (memory.fix or "")
    assert plan.nearest_misses
    assert plan.nearest_misses[0].reason == "memory"


def test_an_slo_that_nothing_meets_is_not_relaxed() -> None:
    plan = planner.plan(_scenario(slo={"tpot_ms": {"mean": 0.5}}))
    assert not plan.candidates
    assert {r.reason for r in plan.rejected} & {"slo_tpot"}
    first = plan.nearest_misses[0]
    assert first.reason == "slo_tpot"
    assert first.needed is not None
    assert first.needed > 0.5


@pytest.mark.parametrize("name", ["h100", "dgx-h1000", "no such node"])
def test_unknown_hardware_is_named(name: str) -> None:
    scenario = _scenario(hardware={"candidates": [{"node": name}]})
    plan_or_error: str
    try:
        plan = planner.plan(scenario)
    except InputError as error:
        plan_or_error = str(error)
    else:
        assert not plan.candidates
        plan_or_error = " ".join(r.example for r in plan.rejected)
    assert name in plan_or_error


def test_hardware_without_its_facts_is_refused_with_a_reason_beside_what_can_be_planned() -> None:
    nodes = [{"node": n} for n in ("hgx-h20-141g", "dgx-h100")]
    plan = planner.plan(_scenario(hardware={"candidates": nodes, "max_gpus_per_worker": 8}))
    assert plan.best is not None
    assert plan.best.node == "dgx-h100"
    refused = next(r for r in plan.rejected if r.reason == "hardware_facts")
    assert "hgx-h20-141g" in refused.example
    assert "bandwidth" in refused.example


def test_every_node_type_of_the_catalogue_is_planned_or_refused() -> None:
    nodes = [{"node": n} for n in planner.catalog.catalog().node_ids()]
    plan = planner.plan(_scenario(hardware={"candidates": nodes, "max_gpus_per_worker": 16}))
    text = " ".join([*(r.example for r in plan.rejected), *(c.node for c in plan.candidates)])
    assert plan.candidates
    refused = next((r for r in plan.rejected if r.reason == "hardware_facts"), None)
    assert refused is None or refused.count < len(nodes) / 2, text


def test_own_prices_decide_the_cost() -> None:
    def cost(usd: float) -> float:
        best = planner.plan(_scenario(economics={"usd_per_gpu_hour": {"dgx-h100": usd}})).best
        assert best is not None
        assert best.usd_per_mtok.output is not None
        return best.usd_per_mtok.output

    assert cost(4.0) == pytest.approx(2 * cost(2.0))


def test_a_plan_keeps_its_frame_and_its_identity() -> None:
    plan = _example("gpt-oss-120b-h100")
    frame = plan.to_frame()
    assert len(frame) == len(plan.candidates)
    assert frame["memory_gib.total"].max() <= frame["memory_gib.capacity"].max() * (1 + 1e-9)
    assert Plan.from_yaml(plan.to_yaml()) == plan
    assert plan.identity.gpu == "h100-sxm"
    assert plan.versions.catalogue
    assert plan.versions.coefficients
    assert plan.assumptions


def test_a_version_beyond_the_known_ones_and_a_missing_limit_are_said() -> None:
    plan = planner.plan(_scenario(engine={"name": "vllm", "version": "99.0"}, slo={}))
    best = plan.candidates[0]
    assert best.evidence.extrapolated
    assert any("vLLM 99.0 is newer" in m.text for m in best.evidence.marks if m.subject == "engine.version")
    assert any("vLLM 99.0 is newer" in text for text in plan.assumptions)
    assert plan.assumptions[0].startswith("No limit is given under slo")
    known = planner.plan(_scenario(engine={"name": "vllm", "version": "0.19.0"}))
    assert not any("extrapolated from 0." in text or "No limit" in text for text in known.assumptions)


def test_input_tokens_that_are_computed_carry_the_cached_ones() -> None:
    plan = _example("deepseek-v3-h800")
    hits = plan.scenario.workload.prefix_hit_rate
    for c in plan.candidates:
        prices = c.usd_per_mtok
        assert prices.cached_input == 0.0
        assert (1.0 - hits) * prices.uncached_input + hits * prices.cached_input == pytest.approx(prices.input)


@pytest.mark.parametrize("name", ["deepseek-v3-h800", "llama-3.3-70b-mi300x"])
def test_the_frontier_keeps_its_ends_and_the_best(name: str) -> None:
    """A sample of many points: those that lead in cost, GPUs, goodput, energy or a latency are always in it."""
    plan = _example(name)
    assert name != "deepseek-v3-h800" or 1 in {point.rank for point in plan.pareto}  # no other costs as little
    known = [c for c in plan.candidates if c.usd_per_mtok.output is not None]
    assert min(p.usd_per_mtok_output for p in plan.pareto) <= min(c.usd_per_mtok.output for c in known) * (1 + 1e-9)
    assert min(p.gpus for p in plan.pareto) == min(c.gpus for c in plan.candidates)
    for metric in ("ttft", "tbt"):
        least = min(getattr(c, f"{metric}_ms").p99 for c in plan.candidates)
        assert min(getattr(p, f"{metric}_p99_ms") for p in plan.pareto) <= least * (1 + 1e-9)


def test_pipeline_stages_do_not_hasten_a_single_prompt() -> None:
    """One prompt passes all stages, however many there are; they let others follow sooner."""
    scenario = planner.load_scenario(EXAMPLES / "llama-3.3-70b-mi300x.yaml")
    alone = [
        planner.estimate(scenario, Layouts.of(tp=4, pp=pp), concurrency=1.0).candidate.ttft_ms.mean for pp in (1, 2, 4)
    ]
    assert all(later >= 0.98 * sooner for sooner, later in pairwise(alone)), alone


def test_a_limit_between_tokens_is_planned_with_the_smaller_steps_that_it_needs() -> None:
    limits = {"ttft_ms": {"p99": 4000.0}, "tbt_ms": {"p99": 40.0}}
    plan = planner.plan(_scenario(slo=limits))
    assert plan.best is not None
    tokens = plan.best.settings.max_num_batched_tokens
    assert tokens is not None
    assert tokens < 2048  # a quarter of the engine's default, where the search ends without such a limit
    options = {"name": "vllm", "options": {"max_num_batched_tokens": 2048}}
    larger = planner.plan(_scenario(slo=limits, engine=options)).best
    assert larger is None or larger.usd_per_mtok.output >= plan.best.usd_per_mtok.output

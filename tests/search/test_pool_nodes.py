"""Nodes of two pools that stand on the same ones: what is counted and paid, the limit on them, the link between them;
those of hardware kept for each pool are counted and limited apart.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import planner
from planner.catalog import catalog
from planner.export.roles import deployment
from planner.layout.packing import packed
from planner.search.aggregated import fitting_layouts
from planner.search.disaggregated import decode_points, disaggregated_deployments, prefill_points
from planner.search.headline import headline
from planner.search.planning import plan
from planner.search.setup import setup
from planner.search.standing import standing


def question(hardware: dict[str, Any], rate: float = 30.0, **more: Any) -> planner.Scenario:
    data: dict[str, Any] = {
        "schema": "planner.scenario/1",
        "name": "pools",
        "model": "qwen3-32b",
        "hardware": hardware,
        "engine": {"name": "vllm"},
        "workload": {
            "input_tokens": {"kind": "fixed", "tokens": 4000},
            "output_tokens": {"kind": "fixed", "tokens": 300},
            "arrival": {"kind": "poisson", "rate_rps": rate},
        },
        "slo": {"ttft_ms": {"mean": 3000}, "tpot_ms": {"mean": 50}},
        "objective": "lowest_cost",
        "search": {"serving": ["disagg"]},
    }
    return planner.Scenario.from_dict(data | more)


def one_kind(most: int) -> dict[str, Any]:
    return {"candidates": [{"node": "dgx-h200", "max_nodes": most}]}


def test_the_limit_on_nodes_is_of_both_pools_together() -> None:
    free = plan(question({"candidates": [{"node": "dgx-h200"}]})).best
    assert free is not None
    assert free.nodes is not None
    bounded = plan(question(one_kind(free.nodes)))
    assert bounded.best is not None
    assert bounded.best.nodes == free.nodes
    assert all(c.nodes is not None and c.nodes <= free.nodes for c in bounded.candidates)
    short = plan(question(one_kind(free.nodes - 1)))
    assert all(c.nodes is not None and c.nodes < free.nodes for c in short.candidates)


def test_both_pools_of_a_small_load_stand_on_one_node() -> None:
    answer = plan(question(one_kind(1), 4.0, economics={"usd_per_gpu_hour": {"dgx-h200": 3.0}}))
    best = answer.best
    assert best is not None
    assert best.prefill_pool is not None
    assert best.decode_pool is not None
    assert best.gpus <= 8
    assert (best.nodes, best.shared_nodes, best.gpus_paid) == (1, 1, 8)
    assert (best.prefill_pool.nodes, best.decode_pool.nodes) == (1, 1)
    assert best.usd_per_hour == pytest.approx(24.0)
    assert best.kv_transfer is not None
    assert best.kv_transfer.link == "scale_up"
    assert any("moves over the scale-up link" in text for text in best.explanation)
    # prefill's part of the price is its part of the GPUs in use
    assert best.usd_per_mtok.input == pytest.approx(24.0 * best.prefill_pool.gpus / best.gpus / (4 * 4000 * 3600 / 1e6))


@pytest.mark.parametrize("rate", [4.0, 30.0, 100.0])
def test_every_candidate_counts_the_nodes_that_its_workers_are_packed_into(rate: float) -> None:
    answer = plan(question({"candidates": [{"node": "dgx-h200"}]}, rate, reliability={"spare_nodes": 2}))
    assert answer.candidates
    for c in answer.candidates:
        p, d = c.prefill_pool, c.decode_pool
        assert p is not None
        assert d is not None
        found = packed(p.workers, p.layout.gpus, d.workers, d.layout.gpus, 8)
        assert (c.nodes, c.shared_nodes) == (int(found.nodes) + 2, int(found.shared))
        assert (p.nodes, d.nodes) == (int(found.first), int(found.second))
        assert c.gpus_paid == 8 * c.nodes
        assert c.kv_transfer is not None
        assert (c.kv_transfer.link == "scale_up") == (int(found.nodes) == 1)
    assert "+ 2 spare nodes · disaggregated" in headline(answer)


def test_sharing_nodes_never_costs_more_than_hardware_for_each_pool() -> None:
    nodes = [{"node": "dgx-h200"}]
    for rate in (4.0, 30.0):
        shared = plan(question({"candidates": nodes}, rate)).best
        apart = plan(question({"pools": {"prefill": nodes, "decode": nodes}}, rate)).best
        assert shared is not None
        assert apart is not None
        assert apart.shared_nodes is None
        assert apart.kv_transfer is not None
        assert apart.kv_transfer.link == "network"
        assert shared.usd_per_hour is not None
        assert apart.usd_per_hour is not None
        assert shared.usd_per_hour <= apart.usd_per_hour
    assert apart.nodes is not None
    assert shared.nodes is not None
    assert shared.nodes <= apart.nodes


def test_the_day_is_paid_for_as_both_pools_stand_in_each_hour() -> None:
    asked = question(
        one_kind(9), 30.0, economics={"usd_per_gpu_hour": {"dgx-h200": 1.0}}, reliability={"spare_nodes": 1}
    )
    data = asked.to_dict()
    data["workload"]["daily_profile"] = {"peak_to_mean": 2.0}
    best = plan(planner.Scenario.from_dict(data)).best
    assert best is not None
    assert best.sizing is not None
    hours = best.sizing.day
    assert hours is not None
    assert hours.hourly_prefill_workers is not None
    p, d = best.prefill_pool, best.decode_pool
    assert p is not None
    assert d is not None
    nodes = packed(
        np.array(hours.hourly_prefill_workers), p.layout.gpus, np.array(hours.hourly_replicas), d.layout.gpus, 8
    )
    assert hours.usd_per_day_autoscaled == pytest.approx(8.0 * float((nodes.nodes + 1).sum()))
    assert hours.usd_per_day_fixed == pytest.approx(24.0 * (best.usd_per_hour or 0.0))


def test_what_lacks_nodes_says_how_many_both_pools_need_and_those_are_enough() -> None:
    short = plan(question(one_kind(1), 60.0))
    assert short.best is None
    assert "number of nodes" in headline(short)
    miss = short.nearest_misses[0]
    assert miss.reason == "nodes"
    assert miss.needed is not None
    assert miss.fix is not None
    assert miss.fix.startswith(f"{int(miss.needed)} nodes instead of 1 (prefill ")
    enough = plan(question(one_kind(int(miss.needed)), 60.0))
    assert enough.best is not None
    assert enough.best.nodes == int(miss.needed)


@pytest.mark.parametrize("spare", [0, 1])
def test_hardware_kept_for_a_pool_has_a_limit_of_its_own(spare: int) -> None:
    """Both pools name the same node type, with different limits."""

    def pools(prefill: int, decode: int) -> dict[str, Any]:
        nodes = {"prefill": prefill, "decode": decode}
        return {"pools": {pool: [{"node": "dgx-h200", "max_nodes": n}] for pool, n in nodes.items()}}

    kept = {"reliability": {"spare_nodes": spare}}
    wide = plan(question(pools(20, 20), 60.0, **kept)).best
    assert wide is not None
    assert wide.prefill_pool is not None
    assert wide.decode_pool is not None
    used = (wide.prefill_pool.nodes or 0) + spare, (wide.decode_pool.nodes or 0) + spare
    assert used[0] != used[1]
    tight = plan(question(pools(*used), 60.0, **kept)).best
    assert tight is not None
    assert (tight.nodes, tight.gpus) == (wide.nodes, wide.gpus)
    for narrow in ((used[0] - 1, used[1]), (used[0], used[1] - 1)):
        if min(narrow) > spare:
            found = plan(question(pools(*narrow), 60.0, **kept))
            for c in found.candidates:
                assert c.prefill_pool is not None
                assert c.decode_pool is not None
                assert (c.prefill_pool.nodes or 0) + spare <= narrow[0]
                assert (c.decode_pool.nodes or 0) + spare <= narrow[1]


def test_what_is_planned_in_a_rack_has_hosts_there() -> None:
    """18 trays of four GPUs: what scripts start a worker on is what the plan counts."""
    answer = plan(planner.load_scenario("examples/kimi-k2-gb200.yaml"))
    assert answer.best is not None
    for c in answer.candidates:
        roles = deployment(answer, c.rank).roles
        assert c.nodes is not None
        assert sum(role.hosts for role in roles) <= 18 * c.nodes
    assert answer.best.nodes == 1


@pytest.mark.parametrize("closed", [False, True])
def test_without_a_known_network_both_pools_stand_in_one_node(closed: bool) -> None:
    asked = question({"candidates": [{"node": "dgx-h200"}]}, 4.0)
    if closed:
        data = asked.to_dict()
        data["workload"]["arrival"] = {"kind": "closed_loop", "concurrency": 32}
        asked = planner.Scenario.from_dict(data)
    s = setup(asked, catalog())
    known = s.hardware(asked.hardware.candidates[0])
    alone = replace(known, device=replace(known.device, nic_bw=None))
    found = []
    for hw in (known, alone):
        fitting = fitting_layouts(s, hw, 8)
        table = disaggregated_deployments(s, prefill_points(s, hw, fitting), decode_points(s, hw, fitting), None)
        assert table is not None
        found.append(standing(s, table.pools).nodes)
    assert found[0].max() > 1
    assert found[1].max() == 1

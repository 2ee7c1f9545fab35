"""Nodes of two pools: the scenario's limit is on the deployment, that of separate hardware on each pool."""

from typing import Any

import pytest

import planner
from planner.search.headline import headline
from planner.search.planning import plan


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


def test_what_lacks_nodes_says_how_many_both_pools_need_and_those_are_enough() -> None:
    short = plan(question(one_kind(1)))
    assert short.best is None
    assert "number of nodes" in headline(short)
    miss = short.nearest_misses[0]
    assert miss.reason == "nodes"
    assert miss.needed is not None
    assert miss.fix is not None
    assert miss.fix.startswith(f"{int(miss.needed)} nodes instead of 1 (prefill ")
    enough = plan(question(one_kind(int(miss.needed))))
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

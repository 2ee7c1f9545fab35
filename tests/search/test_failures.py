"""Failures that hit either pool, and spare nodes that hold workers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner.search.failures import falls_of, workers_on
from planner.search.fleet import Fleet
from planner.search.planned import Planned
from planner.search.planning import planned
from planner.search.sizing_schema import Sizing

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@cache
def _several(
    rate: float = 30.0, prefill: int | None = None, decode: int | None = None, apart: bool = False, **reliability: Any
) -> tuple[Planned, Sizing]:
    """Separate pools, on nodes of their own where ``apart``; with so many workers in place of the planned ones where
    given.
    """
    data = planner.load_scenario(EXAMPLES / "qwen3-32b-l40s.yaml").to_dict()
    nodes = [{"node": "l40s-8-pcie"}]
    data["hardware"] = {"pools": {"prefill": nodes, "decode": nodes}} if apart else {"candidates": nodes}
    data["workload"]["arrival"] = {"kind": "poisson", "rate_rps": rate}
    data["search"] = {"serving": ["disagg"]}
    data["reliability"] = reliability
    made = planned(planner.Scenario.from_dict(data))
    row = made.deployment()
    assert row.prefill is not None
    assert row.loaded is not None
    assert row.loaded.prefill is not None
    d = row.decode.count if decode is None else np.array([decode])
    p = row.prefill.count if prefill is None else np.array([prefill])
    fleet = Fleet(made.setup, row)
    pool = row.loaded.prefill.at(row.loaded.prefill.given.rate_rps, p)
    row = replace(
        row,
        decode=replace(row.decode, count=d),
        prefill=replace(row.prefill, count=p),
        loaded=replace(row.loaded, worker=fleet.served(np.array([rate]), d).load, prefill=pool),
    )
    made = replace(made, listed=(row,), places=((0, 0),))
    return made, made.sizing()


def test_losing_the_only_prefill_worker_stops_everything() -> None:
    """GPUs of its node that are paid for and idle do not help, nor do decode workers that could be spared."""
    made, sizing = _several(rate=3.0, prefill=1, decode=6)
    row = made.deployment()
    assert row.prefill is not None
    assert row.prefill.gpus[0] < row.prefill.hardware.gpus_per_node
    assert sizing.needed_replicas < 6
    assert sizing.failures[0].spare_replicas == 0
    for failure in sizing.failures:
        assert failure.lost_prefill_workers == 1
        assert failure.met_without_spares is False
        assert failure.ttft_p99_ms is None
        assert failure.spare_prefill_workers == 1
    assert sizing.needed_prefill_workers == 1
    assert sizing.prefill_unavailable_share is not None
    assert sizing.slo_availability <= 1.0 - sizing.prefill_unavailable_share


def test_the_verdict_is_of_the_pool_whose_loss_is_worse() -> None:
    made, sizing = _several(prefill=14)
    fleet = Fleet(made.setup, made.deployment())
    gpu = sizing.failures[0]
    rate = np.array([30.0, 30.0])
    decode, prefill = np.array([fleet.replicas - 1, fleet.replicas]), np.array([14, 13])
    either = fleet.looked_at(rate, decode, prefill, levels=("p99",))
    assert fleet.meets(either).tolist() == [False, True]
    assert gpu.met_without_spares is False
    assert (gpu.spare_replicas, gpu.spare_prefill_workers) == (1, 0)
    assert sizing.needed_prefill_workers is not None
    assert sizing.needed_prefill_workers < 13


def test_what_is_needed_of_each_pool_holds_together_and_no_fewer_prefill_workers_do() -> None:
    made, sizing = _several(prefill=14)
    fleet = Fleet(made.setup, made.deployment())
    needed = sizing.needed_prefill_workers
    assert needed is not None
    decode = np.full(2, sizing.needed_replicas)
    assert fleet.holds(np.full(2, 30.0), decode, np.array([needed, needed - 1])).tolist() == [True, False]


def test_availability_is_of_both_pools() -> None:
    """No worker can be missed in either pool here: all of both must be up."""
    made, sizing = _several()
    row = made.deployment()
    assert row.prefill is not None
    down, prefill_down = sizing.unavailable_share, sizing.prefill_unavailable_share
    assert prefill_down is not None
    assert sizing.needed_replicas == row.decode.count[0]
    assert sizing.needed_prefill_workers == row.prefill.count[0]
    wanted = (1.0 - down) ** int(row.decode.count[0]) * (1.0 - prefill_down) ** int(row.prefill.count[0])
    assert sizing.slo_availability == pytest.approx(wanted, abs=1e-12)


def test_more_failures_at_once_are_no_better_however_they_fall() -> None:
    _, one = _several(prefill=14)
    _, two = _several(prefill=14, failures=2)
    for once, twice in zip(one.failures, two.failures, strict=True):
        assert twice.lost_prefill_workers is not None
        assert once.lost_prefill_workers is not None
        assert twice.lost_prefill_workers >= once.lost_prefill_workers
        assert not (twice.met_without_spares and not once.met_without_spares)
        for metric in ("ttft_p99_ms", "tbt_p99_ms"):
            first, second = (v if (v := getattr(f, metric)) is not None else np.inf for f in (once, twice))
            assert second >= first


def test_spare_nodes_hold_whole_workers() -> None:
    assert [workers_on(nodes, per_node=8, worker_gpus=3) for nodes in (0, 1, 3)] == [0, 2, 6]
    assert [workers_on(nodes, per_node=8, worker_gpus=16) for nodes in (1, 2, 5)] == [0, 1, 2]


def test_pools_of_one_node_type_use_each_others_spare_nodes() -> None:
    """Both nodes that the one pool's spares take: its own and the other pool's."""
    _, bare = _several(prefill=14, decode=14, apart=True, gpus_per_rack=32)
    _, one = _several(prefill=14, decode=14, apart=True, gpus_per_rack=32, spare_nodes=1)
    rack = bare.failures[2]
    assert (rack.spare_replicas, rack.spare_prefill_workers, rack.spare_nodes) == (0, 8, 2)
    assert one.failures[2].spare_nodes == 0
    assert one.failures[2].covered


def test_a_node_with_workers_of_both_pools_takes_both_down() -> None:
    """Fifteen TP4 decode workers, two on a node; fourteen TP2 prefill workers, two of them beside the last of those."""
    made, _ = _several(prefill=14, decode=15, gpus_per_rack=32)
    row = made.deployment()
    assert row.prefill is not None
    assert (int(row.decode.layouts.gpus[0]), int(row.prefill.layouts.gpus[0])) == (4, 2)
    falls = falls_of(made.setup, row)
    # the eighth node has one decode worker and two prefill workers beside it
    assert sorted(map(tuple, falls["node"].tolist())) == [(0, 4), (1, 2), (2, 0)]
    assert sorted(map(tuple, falls["gpu"].tolist())) == [(0, 1), (1, 0)]
    # four nodes in a row, wherever they begin
    assert sorted(map(tuple, falls["rack"].tolist())) == [(1, 14), (3, 10), (5, 6), (7, 2), (8, 0)]


def test_losing_the_only_node_loses_both_pools() -> None:
    made, sizing = _several(rate=3.0, prefill=1, decode=1)
    row = made.deployment()
    assert row.prefill is not None
    assert int(row.decode.gpus[0] + row.prefill.gpus[0]) <= 8
    node = sizing.failures[1]
    assert (node.lost_replicas, node.lost_prefill_workers) == (1, 1)
    assert node.met_without_spares is False
    assert (node.spare_replicas, node.spare_prefill_workers, node.spare_nodes) == (1, 1, 1)
    _, spared = _several(rate=3.0, prefill=1, decode=1, spare_nodes=1)
    assert spared.failures[1].covered
    assert spared.slo_availability > sizing.slo_availability


def test_spare_nodes_of_both_pools_are_dealt_to_either() -> None:
    """One node takes as many of each as the better way of dealing it gives, never all of both."""
    _, none = _several(prefill=14, decode=14)
    _, shared = _several(prefill=14, decode=14, spare_nodes=1)
    _, apart = _several(prefill=14, decode=14, apart=True, spare_nodes=1)
    assert none.slo_availability <= shared.slo_availability <= apart.slo_availability


def test_a_sizing_of_an_older_plan_file_loads() -> None:
    _, sizing = _several()
    old = sizing.model_dump(mode="json", exclude={"needed_prefill_workers", "prefill_unavailable_share"})
    assert Sizing.model_validate(old).needed_prefill_workers is None

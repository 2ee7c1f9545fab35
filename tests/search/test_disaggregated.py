"""Pairs of pools: what is left out before pairing is never better than what stays."""

from pathlib import Path

import numpy as np
import pytest

import planner
from planner.search import disaggregated, planning
from planner.search.planning import plan
from planner.search.selection import Feasible, Key, frontier

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["deepseek-r1-h200", "kimi-k2-gb200"])
def test_points_left_out_before_pairing_win_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = planner.load_scenario(EXAMPLES / f"{name}.yaml").to_dict()
    data["search"]["serving"] = ["disagg"]
    for choice in data["hardware"]["candidates"]:
        choice.pop("max_nodes")
    scenario = planner.Scenario.from_dict(data)
    found: list[Feasible] = []

    def seen(feasible: Feasible, best: Key | None) -> list[Key]:
        found.append(feasible)
        return frontier(feasible, best)

    monkeypatch.setattr(planning, "frontier", seen)
    plan(scenario)
    monkeypatch.setattr(disaggregated, "_unbeaten", lambda _, points, *__: points)
    plan(scenario)
    few, every = found
    for column in ("gpus", "usd_per_mtok", "goodput_rps", "joules_per_token", "ttft_s", "tbt_s"):
        best = np.nanmax if column == "goodput_rps" else np.nanmin
        assert best(few.column(column)) == pytest.approx(best(every.column(column)), rel=0.01)
    assert len(few) < len(every)


def test_a_stream_shared_by_thousands_of_prefill_workers() -> None:
    """Next to nothing varies at one of them, so that the chain of its steps has several ends."""
    data = planner.load_scenario(EXAMPLES / "deepseek-v3-h800.yaml").to_dict()
    data["workload"]["arrival"]["rate_rps"] = 1e6
    data["search"]["serving"] = ["disagg"]
    best = plan(planner.Scenario.from_dict(data)).best
    assert best is not None
    assert best.prefill_pool is not None
    assert best.prefill_pool.workers > 1000
    assert best.ttft_ms.p99 is not None
    assert best.ttft_ms.mean is not None
    assert best.ttft_ms.p99 >= best.ttft_ms.mean

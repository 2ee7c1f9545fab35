"""What deployments cost where nothing is to be paid."""

from __future__ import annotations

import warnings
from pathlib import Path

from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario
from planner.search.planning import plan

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama-3.3-70b-mi300x.yaml"


def test_pools_of_free_gpus_cost_nothing_without_a_warning() -> None:
    data = load_scenario(EXAMPLE).to_dict()
    data["hardware"] = {"candidates": [{"node": "dgx-h100"}]}
    data["economics"] = {"usd_per_gpu_hour": {"dgx-h100": 0.0}}
    data["search"]["serving"] = ["disagg"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best = plan(Scenario.from_dict(data)).best
    assert best is not None
    assert best.usd_per_hour == 0.0
    assert best.usd_per_mtok.output == 0.0
    assert best.usd_per_mtok.input == 0.0

"""Pairs of pools: what is left out before pairing is never better than what stays."""

from pathlib import Path

import numpy as np
import pytest

import planner
from planner.search import disaggregated
from planner.search.planning import plan

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["deepseek-r1-h200", "kimi-k2-gb200"])
def test_points_left_out_before_pairing_win_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = planner.load_scenario(EXAMPLES / f"{name}.yaml")
    scenario = scenario.model_copy(update={"search": scenario.search.model_copy(update={"serving": ("disagg",)})})
    few = plan(scenario)
    monkeypatch.setattr(disaggregated, "_unbeaten", lambda points, result, metrics: points)
    every = plan(scenario)
    assert every.evaluated >= few.evaluated
    assert bool(every.candidates) == bool(few.candidates)
    for column in ("gpus", "usd_per_mtok_output", "ttft_p99_ms", "tbt_p99_ms", "joules_per_token"):
        best, found = (min((getattr(p, column) for p in plan_.pareto), default=np.inf) for plan_ in (every, few))
        # frontier points within 3 % of each other count as one
        assert found <= best * 1.03

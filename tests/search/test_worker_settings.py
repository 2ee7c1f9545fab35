"""Settings that plans write, and the memory that goes with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.catalog.loader import catalog
from planner.layout.layouts import Layouts
from planner.model.kv import kv_bytes_per_token
from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario
from planner.search.evaluation import budget_of
from planner.search.plan_schema import Candidate
from planner.search.planning import plan
from planner.search.setup import Setup, setup
from planner.units import GIB

EXAMPLES = Path(__file__).parents[2] / "examples"


def scenario(serving: str, **engine: object) -> Scenario:
    data = load_scenario(EXAMPLES / "llama-3.3-70b-mi300x.yaml").to_dict()
    data["search"]["serving"] = [serving]
    data["workload"]["arrival"] = {"kind": "gamma", "rate_rps": 12.0, "cv": 2.0}
    data["engine"]["options"] |= engine
    return Scenario.from_dict(data)


def memory_with(
    s: Setup, node: str, layout: Layouts, concurrency: float, budget: int, sequences: int
) -> dict[str, float]:
    hw = s.hardware(next(c for c in s.scenario.hardware.candidates if c.node == node))
    return budget_of(s, hw, layout, np.array([concurrency]), budget, np.array([float(sequences)])).gib(0)


@pytest.mark.parametrize("serving", ["agg", "disagg"])
def test_memory_is_that_of_the_sequences_written(serving: str) -> None:
    """The workspace grows with max_num_seqs, so the plan's memory must be that of the number it writes."""
    question = scenario(serving)
    s = setup(question, catalog())
    for c in plan(question).candidates[:6]:
        written = c.settings
        assert written.max_num_seqs is not None
        assert written.max_num_batched_tokens is not None
        layout = Layouts.of(**c.layout.model_dump())
        held = max(c.concurrency_per_worker or 1.0, 1.0)
        expected = memory_with(s, c.node, layout, held, written.max_num_batched_tokens, written.max_num_seqs)
        assert c.memory_gib.workspace == pytest.approx(expected["workspace"])
        assert c.memory_gib.graphs == pytest.approx(expected["graphs"])
        assert c.memory_gib.total <= c.memory_gib.capacity
        held_tokens = c.memory_gib.kv * GIB
        assert held_tokens > 0
        assert c.max_concurrency is not None
        assert written.max_num_seqs * layout.attention_dp[0] * c.replicas <= c.max_concurrency * 1.001 + c.replicas


def test_pools_have_settings_of_their_own() -> None:
    best_question = scenario("disagg")
    best = plan(best_question).best
    assert best is not None
    assert best.prefill_pool is not None
    assert best.decode_pool is not None
    first, second = best.prefill_pool.settings, best.decode_pool.settings
    assert second == best.settings
    assert first.max_num_batched_tokens is not None
    assert first.max_num_seqs is not None
    assert first.max_num_batched_tokens >= second.max_num_batched_tokens  # type: ignore[operator]
    assert best.prefill_pool.memory_gib is not None
    layout = best.prefill_pool.layout
    token = float(kv_bytes_per_token(setup(best_question, catalog()).spec, "bf16", layout.tp)) / layout.pp
    assert best.prefill_pool.memory_gib.kv * GIB > first.max_num_batched_tokens * token  # a full step's prompts
    again = Candidate.model_validate(best.model_dump(mode="json"))
    assert again.prefill_pool == best.prefill_pool


def test_the_users_limits_bind_both_pools() -> None:
    best = plan(scenario("disagg", max_num_seqs=16, max_num_batched_tokens=4096)).best
    assert best is not None
    assert best.prefill_pool is not None
    for settings in (best.prefill_pool.settings, best.settings):
        assert settings.max_num_seqs is not None
        assert settings.max_num_seqs <= 16
        assert settings.max_num_batched_tokens == 4096

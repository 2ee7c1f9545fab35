"""What a result is a result of: from the scenario, and from the model where the scenario is silent."""

from __future__ import annotations

from scenario_data import VALID, changed

from planner.catalog import Catalog
from planner.scenario.identity import identity_difference, identity_of
from planner.scenario.load import resolve_model, scenario_from_data


def test_the_scenario_fills_the_tuple(cat: Catalog) -> None:
    scenario = scenario_from_data(VALID)
    identity = identity_of(scenario, resolve_model(scenario, cat), {"kv": "bf16"}, "h200-sxm", "dgx-h200 × 1")
    assert identity.checkpoint == "deepseek-ai/DeepSeek-V3"
    assert identity.max_context == 16384
    assert identity.max_new_tokens == 1000
    assert identity.sampling == "temperature 0.6, top_p 0.95"
    assert (identity.engine, identity.engine_version) == ("vllm", "0.11.0")
    assert None not in identity.flat().values()


def test_a_changed_setting_shows_in_the_difference(cat: Catalog) -> None:
    tuples = []
    for value in (0.6, 0.0):
        scenario = scenario_from_data(changed("workload.sampling.temperature", value))
        tuples.append(identity_of(scenario, resolve_model(scenario, cat), {}))
    assert identity_difference(*tuples) == {
        "sampling": ("temperature 0.6, top_p 0.95", "temperature 0, top_p 0.95"),
    }

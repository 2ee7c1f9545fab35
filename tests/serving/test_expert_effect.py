"""A placement's effect on a step: better balance never costs time, and nothing beats even ranks."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog import Catalog
from planner.errors import InputError
from planner.layout.experts import place_experts
from planner.layout.layouts import Layouts
from planner.scenario.load import load_scenario
from planner.search.setup import setup
from planner.serving.expert_effect import placement_effect


def test_balance_saves_time(cat: Catalog) -> None:
    s = setup(load_scenario("examples/deepseek-v3-h800.yaml"), cat)
    hw = s.hardware(s.scenario.hardware.candidates[0])
    layout = Layouts.of(attention_dp=32, ep=32, redundant_experts=32)
    popularity = np.random.default_rng(0).lognormal(0.0, 1.0, (58, 256))
    placement = place_experts(popularity, ranks=32, redundant=32)
    for prefill in (False, True):
        found = placement_effect(hw.ctx, layout, placement, 32 * 128.0, deepep=True, prefill=prefill)
        assert found.balanced_s <= found.after_s < found.before_s
        assert found.saved_s == pytest.approx(found.before_s - found.after_s)
    with pytest.raises(InputError, match="EP ranks"):
        placement_effect(hw.ctx, Layouts.of(attention_dp=16, ep=16), placement, 1e3, deepep=True)


def test_dense_models_have_no_experts(cat: Catalog) -> None:
    s = setup(load_scenario("examples/qwen3-32b-l40s.yaml"), cat)
    hw = s.hardware(s.scenario.hardware.candidates[0])
    with pytest.raises(InputError, match="experts"):
        placement_effect(hw.ctx, Layouts.of(), place_experts(np.ones(8), 8), 64.0, deepep=False)

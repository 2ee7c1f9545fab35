"""Layers on pipeline stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.memory.stages import group_layers_per_stage, layers_per_stage


@given(layers=st.integers(1, 130), pp=st.integers(1, 32), rule=st.sampled_from(["before_last", "first"]))
def test_every_layer_is_on_one_stage_and_stages_differ_by_one(layers: int, pp: int, rule) -> None:
    if pp > layers:
        with pytest.raises(InputError, match=r"layout\.pp"):
            layers_per_stage(layers, pp, rule)
        return
    counts = layers_per_stage(layers, pp, rule)
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1


def test_the_stage_with_the_head_takes_no_layer_left_over() -> None:
    # vllm/distributed/utils.py get_pp_indices; TensorRT-LLM gives them to the first stages.
    assert layers_per_stage(61, 4, "before_last") == (15, 15, 16, 15)
    assert layers_per_stage(61, 4, "first") == (16, 15, 15, 15)
    assert layers_per_stage(30, 4, "before_last") == (7, 8, 8, 7)


def test_groups_follow_the_order_of_layers() -> None:
    order = (0, 0, 0, 1, 1, 1, 1, 1)
    assert group_layers_per_stage(order, 2, 2, "first").tolist() == [[3, 1], [0, 4]]


def test_layers_chosen_by_hand_replace_the_split() -> None:
    order = (0, 1, 0, 1, 0, 0)
    table = group_layers_per_stage(order, 2, 2, "before_last", (2, 4))
    assert table.tolist() == [[1, 1], [3, 1]]
    for wrong in ((6,), (3, 4), (0, 6), (7, -1)):
        with pytest.raises(InputError, match="stage_layers"):
            group_layers_per_stage(order, 2, 2, "before_last", wrong)

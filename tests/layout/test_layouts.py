from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.layout.layouts import Layouts


def test_of_fills_moe_tp_and_keeps_both_products_equal() -> None:
    one = Layouts.of(tp=4, attention_dp=2, ep=4, pp=2)
    assert one.row(0) == {
        "tp": 4, "pp": 2, "attention_dp": 2, "moe_tp": 2, "ep": 4, "redundant_experts": 0,
    }  # fmt: skip
    assert one.gpus.tolist() == [16]
    assert one.stage_gpus.tolist() == [8]
    assert one.describe(0) == "TP4 DP2 EP4 MoE-TP2 PP2"


def test_describe_shows_redundant_experts() -> None:
    assert Layouts.of(attention_dp=32, ep=32, redundant_experts=32).describe(0) == "TP1 DP32 EP32+32"
    assert Layouts.of(tp=8).describe(0) == "TP8"


@pytest.mark.parametrize(
    "bad",
    [{"tp": 4, "ep": 3}, {"tp": 0}, {"tp": 4, "ep": 2, "moe_tp": 4}, {"ep": 0}, {"redundant_experts": -1}],
)
def test_inconsistent_layouts_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InputError, match="layout"):
        Layouts.of(**bad)


def test_broadcast_and_take() -> None:
    several = Layouts.of(tp=[1, 2, 4, 8], pp=2)
    assert several.pp.tolist() == [2, 2, 2, 2]
    assert several.take(several.gpus <= 8).tp.tolist() == [1, 2, 4]
    assert several.take([3, 0]).tp.tolist() == [8, 1]
    assert len(Layouts.concatenate([several, several])) == 8
    assert len(Layouts.concatenate([])) == 0


@given(st.integers(1, 16), st.integers(1, 4), st.integers(1, 8), st.integers(1, 64), st.integers(0, 64))
def test_products_always_agree(tp: int, pp: int, dp: int, ep: int, redundant: int) -> None:
    if tp * dp % ep:
        with pytest.raises(InputError):
            Layouts.of(tp=tp, pp=pp, attention_dp=dp, ep=ep)
        return
    one = Layouts.of(tp=tp, pp=pp, attention_dp=dp, ep=ep, redundant_experts=redundant)
    assert np.array_equal(one.gpus, one.moe_tp * one.ep * one.pp)
    assert Layouts.from_rows([tuple(one.row(0).values())]).row(0) == one.row(0)

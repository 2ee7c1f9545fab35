from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError, UnknownNameError
from planner.search.ranking import OBJECTIVES, rank, round_significant

COLUMNS = {
    "usd_per_mtok": np.array([2.0, 1.0, 1.0, np.nan, 0.5]),
    "gpus": np.array([8, 16, 8, 4, 8]),
    "goodput_rps": np.array([5.0, 9.0, 4.0, 1.0, 2.0]),
    "joules_per_token": np.array([1.0, 2.0, 3.0, 4.0, np.nan]),
    "ttft_s": np.array([0.1, 0.2, 0.3, 0.4, 0.5]),
    "tbt_s": np.array([0.05, 0.04, 0.03, 0.02, 0.01]),
}


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("lowest_cost", [4, 2, 1, 0, 3]),
        ("fewest_gpus", [3, 4, 2, 0, 1]),
        ("highest_goodput", [1, 0, 2, 4, 3]),
        ("lowest_energy", [0, 1, 2, 3, 4]),
        ("lowest_ttft", [0, 1, 2, 3, 4]),
        ("lowest_tbt", [4, 3, 2, 1, 0]),
    ],
)
def test_each_objective(name: str, order: list[int]) -> None:
    assert rank(COLUMNS, name).tolist() == order


def test_at_the_same_known_cost_room_to_the_limits_decides_before_the_number_of_gpus() -> None:
    columns = {"gpus": np.array([6, 8]), "limit_share": np.array([0.9, 0.5])}
    assert rank({"usd_per_mtok": np.array([1.1, 1.1]), **columns}, "lowest_cost").tolist() == [1, 0]
    for unknown in (0.0, np.nan):  # nothing is paid, or the price is not known: fewer GPUs are less
        assert rank({"usd_per_mtok": np.full(2, unknown), **columns}, "lowest_cost").tolist() == [0, 1]


def test_at_the_same_known_cost_and_room_times_decide_before_the_number_of_gpus() -> None:
    columns = {"gpus": np.array([6, 8]), "limit_share": np.zeros(2), "tbt_s": np.array([0.099, 0.031])}
    assert rank({"usd_per_mtok": np.array([1.1, 1.1]), **columns}, "lowest_cost").tolist() == [1, 0]
    assert rank({"usd_per_mtok": np.full(2, np.nan), **columns}, "lowest_cost").tolist() == [0, 1]


def test_only_feasible_and_unknown_objectives() -> None:
    assert rank(COLUMNS, "lowest_cost", [True, False, True, True, False]).tolist() == [2, 0, 3]
    with pytest.raises(UnknownNameError, match="lowest_cost"):
        rank(COLUMNS, "lowest_cots")
    with pytest.raises(InputError, match="ttft_s"):
        rank({"gpus": np.array([1])}, "lowest_ttft")


def test_last_digits_do_not_decide() -> None:
    columns = {"usd_per_mtok": np.array([1.0, 1.0 - 1e-13]), "gpus": np.array([8, 16])}
    assert rank(columns, "lowest_cost").tolist() == [0, 1]


@given(st.permutations(range(5)))
def test_order_does_not_depend_on_the_input_order(shuffle: list[int]) -> None:
    moved = {k: v[shuffle] for k, v in COLUMNS.items()}
    for name in OBJECTIVES:
        assert [shuffle[i] for i in rank(moved, name)] == rank(COLUMNS, name).tolist()


def test_rounding_keeps_special_values() -> None:
    values = np.array([0.0, np.inf, np.nan, -123456789.123, 1.00000000049])
    found = round_significant(values)
    assert found[0] == 0.0
    assert np.isinf(found[1])
    assert np.isnan(found[2])
    assert found[3] == -123456789.0
    assert found[4] == pytest.approx(1.0, abs=1e-12)

"""Fleets for a rate and over a day."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.economics.sizing import Fleet, day_size, scaled_profile, smallest_fleet
from planner.errors import InfeasibleError, InputError


def _carried(workers: int) -> float:
    return 2.0 * workers * (1.0 - 0.3 / workers)


@settings(deadline=None)
@given(st.floats(0.1, 5000.0))
def test_the_smallest_fleet_carries_and_one_fewer_does_not(rate: float) -> None:
    count = smallest_fleet(rate, _carried)
    assert _carried(count) >= rate
    assert count == 1 or _carried(count - 1) < rate


def test_nothing_carries() -> None:
    with pytest.raises(InfeasibleError):
        smallest_fleet(10.0, lambda _: 1.0)
    with pytest.raises(InputError):
        smallest_fleet(0.0, _carried)


def test_gpus_are_replicas_of_a_layout() -> None:
    assert Fleet(5, 8).describe("TP8") == "40 GPUs = 5 replicas × TP8"
    assert Fleet(1, 8, 1).describe("TP8") == "16 GPUs = 2 replicas × TP8 (1 spare)"


def test_a_day_has_a_peak_and_an_average() -> None:
    rates = scaled_profile(10.0, [1] * 12 + [3] * 12)
    assert rates.mean() == pytest.approx(10.0)
    day = day_size(rates.tolist(), _carried)
    assert day.peak == smallest_fleet(15.0, _carried)
    assert day.lowest == smallest_fleet(5.0, _carried)
    assert day.lowest < day.average < day.peak
    assert 0 < day.saved_share < 1
    assert day.peak_utilisation == pytest.approx(10 / 15)


def test_workers_that_start_slowly_start_an_hour_before() -> None:
    rates = [1.0] * 11 + [20.0] + [1.0] * 12
    quick, slow = day_size(rates, _carried), day_size(rates, _carried, start_s=300.0)
    assert slow.workers[10] == slow.workers[11] == quick.workers[11] > quick.workers[10]
    assert slow.workers[12] == quick.workers[12]


def test_a_profile_has_24_rates() -> None:
    with pytest.raises(InputError, match="24"):
        day_size([1.0] * 23, _carried)
    with pytest.raises(InputError):
        scaled_profile(1.0, np.zeros(24).tolist())

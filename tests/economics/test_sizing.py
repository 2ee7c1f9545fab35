"""Fleets for a rate and over a day."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from planner.economics.sizing import day_size, most_carried, scaled_profile, smallest_fleets, smooth_day
from planner.errors import InfeasibleError, InputError


def _holds(rates: NDArray[np.float64], workers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Pooling: one worker carries 1.4, many almost 2 each."""
    return np.asarray(2.0 * workers * (1.0 - 0.3 / workers) >= rates)


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 5000.0), min_size=1, max_size=5), st.integers(1, 4000))
def test_the_smallest_fleet_holds_and_one_fewer_does_not(rates: list[float], guess: int) -> None:
    asked = np.array(rates)
    count = smallest_fleets(asked, _holds, guess)
    assert _holds(asked, count).all()
    assert ((count == 1) | ~_holds(asked, np.maximum(count - 1, 1))).all()


def test_nothing_carries() -> None:
    with pytest.raises(InfeasibleError):
        smallest_fleets(10.0, lambda rates, _: rates < 0, 1)
    with pytest.raises(InputError):
        smallest_fleets(0.0, _holds, 1)


@settings(deadline=None)
@given(st.integers(1, 500), st.floats(-6.0, 6.0))
def test_the_highest_rate_is_close_below_the_limit_from_anywhere(workers: int, power: float) -> None:
    limit = 2.0 * (workers - 0.3)
    found = most_carried(workers, 10.0**power * limit, _holds)
    assert limit / 1.003 <= found <= limit


def test_a_fleet_that_carries_nothing_or_everything_says_so() -> None:
    assert np.isnan(most_carried(3, 1.0, lambda rates, _: rates < 0))
    assert np.isinf(most_carried(3, 1.0, lambda rates, _: rates > 0))


def test_a_day_has_a_peak_and_an_average() -> None:
    rates = scaled_profile(15.0, [1] * 12 + [3] * 12)
    assert rates.max() == pytest.approx(15.0)
    assert rates.mean() == pytest.approx(10.0)
    day = day_size(rates.tolist(), _holds)
    assert day.peak == smallest_fleets(15.0, _holds, 1)[0]
    assert day.lowest == smallest_fleets(5.0, _holds, 1)[0]
    assert day.lowest < day.average < day.peak
    assert 0 < day.saved_share < 1
    assert day.peak_utilisation == pytest.approx(10 / 15)


def test_the_planned_fleet_is_the_peak() -> None:
    day = day_size([4.0] * 12 + [15.0] * 12, _holds, peak_workers=11)
    assert day.peak == 11
    assert day.lowest == smallest_fleets(4.0, _holds, 1)[0]


def test_a_closer_look_may_ask_for_more() -> None:
    """It is put to what was found for every rate but the planned one, before workers are started ahead."""

    def confirmed(rates: NDArray[np.float64], workers: NDArray[np.int64]) -> NDArray[np.int64]:
        assert rates.tolist() == [1.0, 4.0]
        assert _holds(rates, workers).all()
        return workers + (rates > 2.0)

    rates = [1.0] * 10 + [4.0] * 4 + [15.0] * 10
    plain = day_size(rates, _holds, peak_workers=11)
    more = day_size(rates, _holds, confirmed=confirmed, peak_workers=11, start_s=60.0)
    assert more.workers[0] == plain.workers[0]
    assert more.workers[9] == more.workers[10] == plain.workers[10] + 1
    assert more.workers[13] == more.peak == 11


def test_workers_that_start_slowly_start_an_hour_before() -> None:
    rates = [1.0] * 11 + [20.0] + [1.0] * 12
    quick, slow = day_size(rates, _holds), day_size(rates, _holds, start_s=300.0)
    assert slow.workers[10] == slow.workers[11] == quick.workers[11] > quick.workers[10]
    assert slow.workers[12] == quick.workers[12]


def test_an_hour_without_load_needs_no_worker() -> None:
    assert day_size([0.0] * 23 + [5.0], _holds).workers == (0,) * 23 + (3,)


def test_a_profile_has_24_rates() -> None:
    with pytest.raises(InputError, match="24"):
        day_size([1.0] * 23, _holds)
    with pytest.raises(InputError):
        scaled_profile(1.0, np.zeros(24).tolist())


@given(st.floats(1.0, 24.0))
def test_a_smooth_day_has_the_mean_that_is_asked_for(ratio: float) -> None:
    day = smooth_day(ratio, peak_hour=14)
    assert day.max() == day[14] == 1.0
    assert day.mean() == pytest.approx(1.0 / ratio, rel=1e-6)
    assert np.all(np.diff(day[14:]) <= 0)


def test_a_smooth_day_has_no_peak_below_its_mean() -> None:
    with pytest.raises(InputError):
        smooth_day(0.9)

"""Numbers as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from planner.search.plan_schema import Interval
from planner.ui import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4123, "0.412"),
        (1605.0, "1,605"),
        (1604.6, "1,605"),
        (9999.7, "10,000"),
        (12_345.0, "12,300"),
        (73_712.0, "73,700"),
        (9.996, "10.0"),
        (49.0, "49.0"),
        (0.0, "0"),
        (-3.14159, "-3.14"),
        (2.0e-7, "2.00e-7"),
        (None, "–"),
        (math.inf, "–"),
    ],
)
def test_three_significant_digits(value, text):
    assert numbers.sig(value) == text


@given(some.floats(min_value=1e-4, max_value=1e11))
def test_never_off_by_more_than_half_of_the_third_digit(value):
    assert float(numbers.sig(value).replace(",", "")) == pytest.approx(value, rel=5.001e-3)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.12096, "121 µs"), (43.2, "43.2 ms"), (1390.0, "1.39 s"), (600_000.0, "10.0 min"), (None, "–")],
)
def test_duration_picks_its_unit(ms, text):
    assert numbers.duration(ms) == text


def test_given_numbers_are_not_rounded():
    assert numbers.exact(4383) == "4,383"
    assert numbers.exact(0.5) == "0.5"


def test_quantity_carries_its_unit():
    assert numbers.quantity(166.94, "GiB") == "167 GiB"
    assert numbers.quantity(51.26, "ms") == "51.3 ms"
    assert numbers.quantity(1204, "GPUs") == "1,204 GPUs"
    assert numbers.quantity(None, "GiB") == "–"


def test_interval_is_a_span():
    assert numbers.span(Interval(low80=0.386, high80=0.5051)) == "0.386–0.505"
    assert numbers.span(None) is None


@pytest.mark.parametrize(
    ("value", "most", "text"),
    [
        (1604.6, 1604.6, "1,604.6"),
        (1604.6, None, "1,605"),
        (1601.2, 1604.6, "1,601"),
        (12_678.0, 12_678.0, "12,678"),
        (7.5 - 1e-9, 7.5, "7.5"),
    ],
)
def test_a_rate_is_never_rounded_beyond_the_load(value, most, text):
    assert numbers.within(value, most) == text


def test_tables_hold_what_is_written():
    assert [numbers.shown(v) for v in (0.41234, 1605.2, 73_712.0)] == [0.412, 1605.0, 73_700.0]


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(-0.5, "−50 %"), (0.09, "+9.0 %"), (0.0, "0 %"), (-0.0, "0 %"), (-0.002, "−0.20 %")],
)
def test_a_change_wears_its_sign_and_zero_none(fraction, text):
    assert numbers.signed(fraction) == text
    assert numbers.signed(-0.004, "0 %") == "0 %"


def test_factors_are_one_range():
    assert numbers.factors(0.894, 1.128) == "× 0.89–1.13"

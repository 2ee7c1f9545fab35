"""How numbers stand wherever people read them."""

from __future__ import annotations

import pytest

from planner.units import spaced, stays_whole, uptime


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.9924, "99.24 %"), (0.99, "99.00 %"), (0.9999914, "99.99914 %"), (1.0, "100.00 %"), (0.5, "50.00 %")],
)
def test_uptime_shows_what_is_missing(share: float, text: str) -> None:
    assert uptime(share) == text


def test_uptime_below_one_is_never_a_whole_hundred() -> None:
    assert all(uptime(1.0 - 10.0**-k) != "100.00 %" for k in range(1, 10))
    assert all(float(uptime(1.0 - 10.0**-k).split()[0]) < 100.0 for k in range(1, 10))
    assert uptime(1.0 - 1e-15) == uptime(1.0 - 1e-11) == "> 99.99999999 %"


def test_percentages_get_a_space_and_other_signs_none() -> None:
    assert spaced("35% of 3.5%, -4%; a%20b, 100%x") == "35 % of 3.5 %, -4 %; a%20b, 100%x"


def test_counts_stay_whole_from_a_thousand_to_ten_thousand() -> None:
    assert [stays_whole(v) for v in (999.9, 1000.0, -1605.0, 9999.9, 10_000.0)] == [False, True, True, True, False]

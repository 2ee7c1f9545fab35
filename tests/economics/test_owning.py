"""Owning, renting, buying tokens: parts add up, known totals are met, break-even is where costs cross."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.economics.owning import (
    HOURS_A_YEAR,
    OwningInputs,
    api_bill,
    api_offers,
    break_even,
    owning_cost,
    owning_defaults,
    purchase_usd_per_gpu,
)
from planner.errors import InputError


def inputs(**changes):
    base = {
        "purchase_usd": 30_000.0,
        "server_share": 0.0,
        "years": 4.0,
        "residual_share": 0.0,
        "capital_rate_per_year": 0.0,
        "maintenance_share_per_year": 0.0,
        "hosting_usd_per_kw_month": 0.0,
        "electricity_usd_per_kwh": 0.0,
        "average_w": 1000.0,
        "provisioned_w": 1700.0,
    }
    return OwningInputs(**(base | changes))


def test_each_part_by_hand():
    found = owning_cost(
        inputs(
            server_share=0.5,
            residual_share=0.2,
            capital_rate_per_year=0.1,
            maintenance_share_per_year=0.05,
            hosting_usd_per_kw_month=100.0,
            electricity_usd_per_kwh=0.1,
        )
    )
    price = 45_000.0
    assert found.depreciation == pytest.approx(price * 0.8 / 4 / HOURS_A_YEAR)
    assert found.capital == pytest.approx(price * 0.6 * 0.1 / HOURS_A_YEAR)
    assert found.maintenance == pytest.approx(price * 0.05 / HOURS_A_YEAR)
    assert found.hosting == pytest.approx(1.7 * 100 * 12 / HOURS_A_YEAR)
    assert found.electricity == pytest.approx(0.1)
    assert found.total == pytest.approx(sum(vars(found).values()))


def test_the_defaults_meet_a_published_total():
    """SemiAnalysis: an H100 costs its owner $1.30 (hyperscaler) to $1.69 (neocloud) an hour, 1.73 kW all in."""
    prices, defaults = catalog().prices(), owning_defaults()
    purchase = purchase_usd_per_gpu("h100-sxm", prices)
    assert purchase is not None
    found = owning_cost(
        OwningInputs(
            purchase[0],
            *(getattr(defaults, name).value for name in type(defaults).model_fields),
            average_w=1200.0,
            provisioned_w=1730.0,
        )
    )
    tco = prices.tco("h100-sxm")
    assert tco is not None
    assert 0.9 * tco.own_hyperscaler < found.total < 1.2 * tco.own_neocloud


@pytest.mark.parametrize(("field", "value"), [("years", 0.0), ("residual_share", 1.5)])
def test_impossible_inputs_are_refused(field, value):
    with pytest.raises(InputError, match=field):
        owning_cost(inputs(**{field: value}))


def test_an_api_bill_counts_cached_tokens_apart():
    bill = api_bill(1000.0, 100.0, 0.5, 0.27, 0.07, 1.1)
    assert bill.input == pytest.approx(1000 * 3600 / 1e6 * 0.5 * 0.27)
    assert bill.cached == pytest.approx(1000 * 3600 / 1e6 * 0.5 * 0.07)
    assert bill.output == pytest.approx(100 * 3600 / 1e6 * 1.1)
    offers = api_offers("deepseek-v3", catalog().prices())
    assert offers[0].checked is not None
    assert api_offers("nonesuch", catalog().prices()) == ()


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_at_break_even_both_cost_the_same(fixed, elastic):
    assert float(break_even(fixed, elastic)) * elastic == pytest.approx(fixed)


def test_nothing_elastic_has_no_break_even():
    assert np.isnan(break_even(1.0, 0.0))

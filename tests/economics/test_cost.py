from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.economics.cost import gpu_price, token_cost, usd_per_day, usd_per_hour
from planner.errors import InputError

RATES = st.floats(1e-3, 1e7)


def test_deepseek_day_six() -> None:
    """DeepSeek open-infra-index, day 6: 226.75 nodes of 8 H800 at $2 per GPU-hour cost $87,072 a day."""
    price = gpu_price({}, "hgx-h800", "h800-sxm", catalog().prices())
    assert price is not None
    assert (price.usd_per_gpu_hour, price.basis) == (2.0, "assumed")
    assert float(usd_per_day(226.75 * 8, price.usd_per_gpu_hour)) == pytest.approx(87_072)


def test_own_prices_come_first() -> None:
    prices = catalog().prices()
    own = {"h100-sxm": 2.2, "dgx-h100": 1.9}
    for node, expected in (("dgx-h100", 1.9), ("hgx-h100-cloud", 2.2)):
        price = gpu_price(own, node, "h100-sxm", prices)
        assert price is not None
        assert price.usd_per_gpu_hour == expected
        assert not price.assumed
    assert gpu_price({"h100-sxm": 0.0}, "n", "h100-sxm", prices).usd_per_gpu_hour == 0.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("accelerator", "usd", "low", "high", "basis"),
    [
        ("h100-sxm", 2.95, 1.47, 6.88, "median"),
        ("h200-sxm", 4.625, 2.25, 7.0, "on_demand"),
        ("mi325x", 1.95, 1.95, 1.95, "on_demand"),
        ("mi355x", 2.1, 2.1, 2.1, "reserved_3yr"),
    ],
)
def test_catalogue_prices_keep_both_ends(accelerator: str, usd: float, low: float, high: float, basis: str) -> None:
    price = gpu_price({}, "some-node", accelerator, catalog().prices())
    assert price is not None
    assert (price.usd_per_gpu_hour, price.low, price.high, price.basis) == (pytest.approx(usd), low, high, basis)
    text = price.assumption("H")
    assert f"${price.usd_per_gpu_hour:g} per GPU-hour" in text
    assert ("quoted from" in text) == (high > low)


def test_unknown_prices_stay_unknown() -> None:
    assert gpu_price({}, "ascend-910b-8", "ascend-910b2", catalog().prices()) is None
    assert gpu_price({}, "hgx-h20-96g", "h20-96g", catalog().prices()) is None


@given(RATES, RATES, RATES, st.floats(0, 1))
def test_input_and_output_pay_for_everything(usd: float, inputs: float, outputs: float, share: float) -> None:
    cost = token_cost(usd, inputs, outputs, share)
    per_second = usd / 3600 * 1e6
    assert float(cost.input * inputs + cost.output * outputs) == pytest.approx(per_second)
    assert float(cost.blended * (inputs + outputs)) == pytest.approx(per_second)
    assert float(cost.output_only * outputs) == pytest.approx(per_second)
    assert cost.output <= cost.output_only * (1 + 1e-12)


def test_known_number_and_broadcast() -> None:
    """8 GPUs at $2, 10,000 output tok/s: $16 an hour over 36 M tokens is $0.444 per million."""
    cost = token_cost(usd_per_hour(8, 2.0), [0.0, 20_000.0], 10_000.0, [0.0, 0.5])
    assert cost.output_only == pytest.approx([16 / 36, 16 / 36])
    assert np.isnan(cost.input[0])
    assert cost.input[1] == pytest.approx(8 / 72)
    assert np.isnan(token_cost(float("nan"), 1.0, 1.0, 0.5).output)
    with pytest.raises(InputError, match="prefill_share"):
        token_cost(1.0, 1.0, 1.0, 1.5)

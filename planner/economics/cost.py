"""What a deployment costs: price of a GPU-hour, cost per hour and day, and dollars per million tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from planner.catalog.prices import Prices, Rental
from planner.economics.ratio import FloatArray, per
from planner.errors import InputError
from planner.units import DAY_S, HOUR_S, MEGA

Basis = Literal["own", "median", "on_demand", "assumed", "reserved_3yr"]


@dataclass(frozen=True)
class GpuPrice:
    """Rent of one GPU-hour in US dollars, and where it comes from."""

    usd_per_gpu_hour: float
    low: float
    """Lowest quoted; the price itself where there is no range."""
    high: float
    basis: Basis
    source: str

    @property
    def assumed(self) -> bool:
        """Whether the planner chose the figure; it then belongs among the plan's assumptions."""
        return self.basis != "own"

    def assumption(self, subject: str) -> str:
        """The sentence for a plan's assumptions."""
        if not self.assumed:
            return f"{subject} costs ${self.usd_per_gpu_hour:g} per GPU-hour (your price)"
        spread = f", quoted from ${self.low:g} to ${self.high:g}" if self.high > self.low else ""
        kind = {
            "median": "median of on-demand offers",
            "on_demand": "middle of on-demand offers",
            "assumed": "taken from a published calculation",
            "reserved_3yr": "three-year contract, no on-demand price is known",
        }[self.basis]
        return f"{subject} costs ${self.usd_per_gpu_hour:g} per GPU-hour ({kind}{spread}; {self.source})"


def gpu_price(
    own_usd_per_gpu_hour: Mapping[str, float], node: str, accelerator: str, prices: Prices
) -> GpuPrice | None:
    """The price of a GPU-hour: the user's for the node, else for the accelerator, else the catalogue's.

    None where neither knows one: costs are then not computed, never guessed.
    """
    for name in (node, accelerator):
        if name in own_usd_per_gpu_hour:
            own = float(own_usd_per_gpu_hour[name])
            return GpuPrice(own, own, own, "own", "scenario")
    rental = next((r for r in prices.rental_usd_per_gpu_hour if r.accelerator == accelerator), None)
    return None if rental is None else _catalogue_price(rental)


def _catalogue_price(rental: Rental) -> GpuPrice | None:
    typical = rental.typical_usd_per_gpu_hour()
    if typical is None:
        return None
    low = rental.on_demand_low or typical
    basis: Basis = "reserved_3yr"
    if rental.median is not None:
        basis = "median"
    elif rental.on_demand_low is not None:
        basis = "on_demand"
    elif rental.assumed is not None:
        basis = "assumed"
    return GpuPrice(typical, low, rental.on_demand_high or max(low, typical), basis, rental.source)


def usd_per_hour(gpus: ArrayLike, usd_per_gpu_hour: ArrayLike) -> FloatArray:
    """Rent of a deployment: every GPU is paid for every hour, busy or not."""
    return np.asarray(gpus, dtype=np.float64) * np.asarray(usd_per_gpu_hour, dtype=np.float64)


def usd_per_day(gpus: ArrayLike, usd_per_gpu_hour: ArrayLike) -> FloatArray:
    """:func:`usd_per_hour` over 24 hours. DeepSeek's day 6: 226.75 nodes x 8 GPUs x $2 x 24 h = $87,072."""
    return usd_per_hour(gpus, usd_per_gpu_hour) * (DAY_S / HOUR_S)


@dataclass(frozen=True)
class TokenCost:
    """US dollars per million tokens, arrays; NaN where no such token is produced or the price is unknown."""

    input: FloatArray
    """Cost of the prefill time per input token."""
    output: FloatArray
    """Cost of the decode time per output token."""
    blended: FloatArray
    """All cost over input and output tokens together."""
    output_only: FloatArray
    """All cost on the output tokens: what lowest_cost ranks by, independent of any attribution."""


def token_cost(
    usd_per_hour_: ArrayLike, input_tokens_per_s: ArrayLike, output_tokens_per_s: ArrayLike, prefill_share: ArrayLike
) -> TokenCost:
    """Cost per million tokens of a deployment, split by the time that prefill and decode take.

    With rent C, input rate I, output rate O and ``prefill_share`` f (of busy GPU time; for disaggregated
    pools the prefill pool's share of the GPUs), input tokens carry f C / I and output tokens (1 - f) C /
    O: idle time is shared in the same proportion and input x I + output x O = C. ``input_tokens_per_s``
    counts all prompt tokens, cached ones too: a higher hit rate lowers f, and so the price of an input
    token. All broadcast. Raises InputError for f outside 0..1.
    """
    given = (usd_per_hour_, input_tokens_per_s, output_tokens_per_s, prefill_share)
    hourly, inputs, outputs, share = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in given))
    if np.any((share < 0) | (share > 1)):
        raise InputError("prefill_share", float(np.nanmax(np.abs(share))), "between 0 and 1")
    cost = hourly / HOUR_S * MEGA
    return TokenCost(
        input=per(cost * share, inputs),
        output=per(cost * (1.0 - share), outputs),
        blended=per(cost, inputs + outputs),
        output_only=per(cost, outputs),
    )

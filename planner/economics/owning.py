"""Owning instead of renting: dollars of a GPU-hour from purchase, money, upkeep, space and energy; and API prices.

Every hour of the life is paid, used or not: that is what break-even utilisations compare. Starting values and their
sources: ``hardware_db/owning.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.catalog.model_spec import Strict
from planner.catalog.prices import ApiPrice, Prices
from planner.economics.defaults import Coefficient, read_defaults, shipped
from planner.economics.ratio import FloatArray, per
from planner.errors import InputError
from planner.units import DAY_S, HOUR_S, KILO, MEGA

FILE = "owning.yaml"
DAYS_A_YEAR = 365.25
HOURS_A_YEAR = DAYS_A_YEAR * DAY_S / HOUR_S
MONTHS_A_YEAR = 12.0


class OwningDefaults(Strict):
    """Starting values of what an owner pays."""

    server_and_network_share_of_gpu_price: Coefficient
    depreciation_years: Coefficient
    residual_share: Coefficient
    capital_rate_per_year: Coefficient
    maintenance_share_per_year: Coefficient
    hosting_usd_per_kw_month: Coefficient
    electricity_usd_per_kwh: Coefficient


def owning_defaults() -> OwningDefaults:
    """The shipped starting values."""
    return read_defaults(OwningDefaults, shipped(FILE))


def purchase_usd_per_gpu(accelerator: str, prices: Prices) -> tuple[float, str] | None:
    """Middle of the quoted purchase prices of one accelerator and their source; None where none is known."""
    found = next((p for p in prices.purchase_usd if p.accelerator == accelerator), None)
    return None if found is None else ((found.low + found.high) / 2 / found.accelerators_in_item, found.source)


@dataclass(frozen=True)
class OwningInputs:
    """What an owner pays for one GPU; scalars or arrays that broadcast."""

    purchase_usd: ArrayLike
    """Price of the accelerator."""
    server_share: ArrayLike
    """Server and network on top, part of that price."""
    years: ArrayLike
    residual_share: ArrayLike
    capital_rate_per_year: ArrayLike
    maintenance_share_per_year: ArrayLike
    hosting_usd_per_kw_month: ArrayLike
    electricity_usd_per_kwh: ArrayLike
    average_w: ArrayLike
    """Draw at the meter per GPU, facility overhead included."""
    provisioned_w: ArrayLike
    """Power to provision per GPU."""


@dataclass(frozen=True)
class OwningCost:
    """US dollars per GPU-hour, by part; arrays."""

    depreciation: FloatArray
    capital: FloatArray
    maintenance: FloatArray
    hosting: FloatArray
    electricity: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.depreciation + self.capital + self.maintenance + self.hosting + self.electricity


def owning_cost(i: OwningInputs) -> OwningCost:
    """Cost of owning one GPU for one hour.

    With price P = purchase (1 + server share), residual r and life L: depreciation P (1 - r) / L, money bound on
    average P (1 + r) / 2 at the capital rate, maintenance as a share of P, hosting by provisioned and electricity by
    average power. Raises InputError for a life that is not positive or a residual outside 0..1.
    """
    years, residual = np.asarray(i.years, dtype=float), np.asarray(i.residual_share, dtype=float)
    if np.any(years <= 0):
        raise InputError("years", i.years, "more than 0")
    if np.any((residual < 0) | (residual > 1)):
        raise InputError("residual_share", i.residual_share, "between 0 and 1")
    price = np.asarray(i.purchase_usd, dtype=float) * (1.0 + np.asarray(i.server_share, dtype=float))
    provisioned_kw = np.asarray(i.provisioned_w, dtype=float) / KILO
    average_kw = np.asarray(i.average_w, dtype=float) / KILO
    hosting = provisioned_kw * np.asarray(i.hosting_usd_per_kw_month, dtype=float) * MONTHS_A_YEAR / HOURS_A_YEAR
    return OwningCost(
        depreciation=price * (1.0 - residual) / years / HOURS_A_YEAR,
        capital=price * (1.0 + residual) / 2.0 * np.asarray(i.capital_rate_per_year, dtype=float) / HOURS_A_YEAR,
        maintenance=price * np.asarray(i.maintenance_share_per_year, dtype=float) / HOURS_A_YEAR,
        hosting=hosting,
        electricity=average_kw * np.asarray(i.electricity_usd_per_kwh, dtype=float),
    )


@dataclass(frozen=True)
class ApiBill:
    """US dollars per hour of buying the same tokens, by kind; arrays."""

    input: FloatArray
    cached: FloatArray
    output: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.input + self.cached + self.output


def api_bill(
    input_tokens_per_s: ArrayLike,
    output_tokens_per_s: ArrayLike,
    cached_share: ArrayLike,
    input_usd: ArrayLike,
    cached_usd: ArrayLike,
    output_usd: ArrayLike,
) -> ApiBill:
    """Bill of an API at prices per million tokens; ``cached_share`` of the input tokens are charged as cached."""
    inputs, outputs = (np.asarray(v, dtype=float) * HOUR_S / MEGA for v in (input_tokens_per_s, output_tokens_per_s))
    share = np.asarray(cached_share, dtype=float)
    return ApiBill(
        input=inputs * (1.0 - share) * np.asarray(input_usd, dtype=float),
        cached=inputs * share * np.asarray(cached_usd, dtype=float),
        output=outputs * np.asarray(output_usd, dtype=float),
    )


def break_even(fixed_usd_per_hour: ArrayLike, elastic_usd_per_hour: ArrayLike) -> FloatArray:
    """Part of the time (or of the load) from which a fixed cost is cheaper than one that is paid by use.

    ``fixed`` is paid every hour, ``elastic`` only for what is used, stated at full use. Above 1: never cheaper. NaN
    where the elastic cost is 0.
    """
    return per(np.asarray(fixed_usd_per_hour, dtype=float), np.asarray(elastic_usd_per_hour, dtype=float))


def api_offers(model_id: str, prices: Prices) -> tuple[ApiPrice, ...]:
    """API prices of a catalogue model: those with a date first, then by the price of output."""
    found = [p for p in prices.api_usd_per_mtok if p.model_id == model_id]
    return tuple(sorted(found, key=lambda p: (p.checked is None, p.output)))

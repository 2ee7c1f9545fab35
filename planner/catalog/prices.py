"""Schema of hardware_db/prices.yaml: rentals, API prices, purchase, electricity, PUE; US dollars unless stated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat

from planner.catalog.model_spec import Strict


class Rental(Strict):
    """Rent of one accelerator, dollars per GPU-hour; low and high are the ends of what was quoted."""

    accelerator: str
    on_demand_low: PositiveFloat | None = None
    on_demand_high: PositiveFloat | None = None
    median: PositiveFloat | None = None
    spot: PositiveFloat | None = None
    capacity_block_low: PositiveFloat | None = None
    capacity_block_high: PositiveFloat | None = None
    reserved_1yr_low: PositiveFloat | None = None
    reserved_1yr_high: PositiveFloat | None = None
    reserved_3yr: PositiveFloat | None = None
    reserved_other: PositiveFloat | None = None
    "Reserved, the term not given in the source."
    assumed: PositiveFloat | None = None
    "Taken by a published calculation, not quoted by a seller."
    on_demand_cny: PositiveFloat | None = None
    "In yuan, as listed."
    date: str | None = None
    source: str
    note: str | None = None

    def typical_usd_per_gpu_hour(self) -> float | None:
        """One number to start from: median, else middle of on-demand, else assumed, else 3-year; None without."""
        if self.median is not None:
            return self.median
        if self.on_demand_low is not None:
            return (self.on_demand_low + (self.on_demand_high or self.on_demand_low)) / 2
        return self.assumed or self.reserved_3yr


class Tco(Strict):
    """Total cost of owning or renting one accelerator over its economic life, dollars per GPU-hour."""

    accelerator: str
    own_hyperscaler: PositiveFloat
    own_neocloud: PositiveFloat
    rental_3yr: PositiveFloat
    all_in_kw_per_gpu: PositiveFloat
    placeholder: bool = False
    "The source scales the previous part by 1.2 instead of pricing this one."
    date: str
    source: str


class Purchase(Strict):
    """What one item costs to buy, dollars."""

    item: str
    accelerator: str | None = None
    accelerators_in_item: PositiveFloat = 1
    low: PositiveFloat
    high: PositiveFloat
    date: str | None = None
    source: str


class ApiPrice(Strict):
    """Price of a served model, dollars per million tokens."""

    model: str
    model_id: str | None = None
    "Id in model_specs/ where the model is in the catalogue."
    provider: str
    input: NonNegativeFloat
    cached: NonNegativeFloat | None = None
    output: NonNegativeFloat
    checked: str | None = None
    source: str
    note: str | None = None
    disagreement: str | None = None


class Electricity(Strict):
    """A price of energy; one of the price keys is set."""

    what: str
    usd_per_kwh: PositiveFloat | None = None
    cny_per_kwh_low: PositiveFloat | None = None
    cny_per_kwh_high: PositiveFloat | None = None
    pue: PositiveFloat | None = None
    date: str | None = None
    source: str
    note: str | None = None


class Pue(Strict):
    """Power usage effectiveness of a kind of site: facility power over IT power."""

    site: str
    low: PositiveFloat
    high: PositiveFloat
    source: str


class Depreciation(Strict):
    """Years over which servers are written off."""

    who: str
    years_low: PositiveFloat
    years_high: PositiveFloat
    source: str


class Service(Strict):
    """A published service's own economics."""

    id: str
    date: str
    source: str
    average_nodes: PositiveFloat
    node: str
    usd_per_gpu_hour: PositiveFloat
    daily_cost_usd: PositiveFloat
    theoretical_daily_revenue_usd: PositiveFloat
    cost_profit_margin_pct: PositiveFloat
    prefill_tokens_per_s_per_node: PositiveFloat
    decode_tokens_per_s_per_node: PositiveFloat
    note: str | None = None


class Prices(Strict):
    """All price facts; every entry says its source."""

    currency: Literal["USD"] = "USD"
    rental_usd_per_gpu_hour: tuple[Rental, ...]
    tco_usd_per_gpu_hour: tuple[Tco, ...]
    purchase_usd: tuple[Purchase, ...]
    api_usd_per_mtok: tuple[ApiPrice, ...]
    electricity: tuple[Electricity, ...]
    pue: tuple[Pue, ...]
    depreciation: tuple[Depreciation, ...]
    services: tuple[Service, ...] = ()
    notes: tuple[str, ...] = ()
    not_sourced: tuple[str, ...] = ()
    sources: dict[str, str] = Field(default_factory=dict)

    def rental(self, accelerator: str) -> Rental | None:
        """The rental entry of an accelerator id, or None."""
        return next((r for r in self.rental_usd_per_gpu_hour if r.accelerator == accelerator), None)

    def tco(self, accelerator: str) -> Tco | None:
        """The cost-of-ownership entry of an accelerator id, or None."""
        return next((t for t in self.tco_usd_per_gpu_hour if t.accelerator == accelerator), None)

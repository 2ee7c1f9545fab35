"""Numbers of the cost page: the shown deployment rented, owned or replaced by an API; its power and energy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.economics.energy import PowerModel, power_model
from planner.economics.owning import ApiBill, OwningCost, break_even
from planner.search.plan_schema import Candidate
from planner.search.sizing_schema import DayPlan
from planner.search.standing import billed_gpus, gpus_paid
from planner.ui.sections.load_data import sizing_for
from planner.ui.subject import Subject
from planner.units import HOUR_S, MEGA

Array = NDArray[np.float64]
LOWEST_SHARE, HIGHEST_SHARE, POINTS = 0.05, 1.0, 96


@dataclass(frozen=True)
class Deployed:
    """What is paid for, and what it delivers."""

    gpus: int
    """GPUs of whole nodes, spares included."""
    input_tokens_per_s: float
    output_tokens_per_s: float
    cached_share: float
    accelerator: str


def deployed(subject: Subject) -> Deployed:
    """Of the shown candidate."""
    c, s = subject.candidate, subject.setup
    outputs = c.output_tokens_per_s_per_gpu * c.gpus
    inputs = (c.input_tokens_per_s_per_gpu or 0.0) * c.gpus
    paid = int(billed_gpus(s, tuple(subject.pools.values()))[0])
    last = list(subject.pools.values())[-1]
    return Deployed(paid, inputs, outputs, float(s.traffic.prefix_hit_rate), last.hardware.accelerator.id)


@dataclass(frozen=True)
class Way:
    """One way to get the tokens: US dollars per hour by part, in order."""

    name: str
    parts: dict[str, float]
    fixed: bool
    """Paid every hour whatever the load; an API is paid by the token."""
    by_the_hour: bool = False
    """Could be given back in quiet hours."""

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    def times(self, factor: float) -> Way:
        """The same way at a part of its cost."""
        return replace(self, parts={part: usd * factor for part, usd in self.parts.items()})


@dataclass(frozen=True)
class Day:
    """A day's load beside that of its busiest hour, for which the deployment is planned."""

    share: float
    """Mean over the busiest hour, above 0 and at most 1."""
    sizing: DayPlan
    """The fleet hour by hour."""

    @property
    def scaled(self) -> float | None:
        """Rent of a fleet that follows the load, a part of that of the fixed one; None where no price is known."""
        fixed, scaled = self.sizing.usd_per_day_fixed, self.sizing.usd_per_day_autoscaled
        return None if not fixed or scaled is None else scaled / fixed


def day_of(subject: Subject) -> Day | None:
    """Of the shown deployment; None where the scenario has no day."""
    profile = subject.scenario.workload.daily_profile
    if profile is None:
        return None
    sizing = subject.candidate.sizing or sizing_for(subject)
    return None if sizing.day is None else Day(profile.mean_over_peak, sizing.day)


def over_the_day(ways: list[Way], day: Day, scaled_name: str) -> list[Way]:
    """What ways that are told at the planned load cost on average over the day: a fixed one as much in every hour, one
    that is paid by the token by the mean load. After rent by the hour stands the same rent following the load, under
    ``scaled_name``.
    """
    found = []
    for way in ways:
        found.append(way if way.fixed else way.times(day.share))
        if way.by_the_hour and day.scaled is not None:
            found.append(replace(way.times(day.scaled), name=scaled_name))
    return found


def rented(name: str, part: str, gpus: int, usd_per_gpu_hour: float) -> Way:
    """All GPUs rented by the hour."""
    return Way(name, {part: gpus * usd_per_gpu_hour}, True, by_the_hour=True)


def owned(name: str, words: dict[str, str], gpus: int, cost: OwningCost) -> Way:
    """All GPUs owned; ``words`` names the parts of OwningCost."""
    return Way(name, {words[key]: gpus * float(getattr(cost, key)) for key in words}, True)


def bought(name: str, words: dict[str, str], bill: ApiBill) -> Way:
    """The same tokens from an API."""
    return Way(name, {words[key]: float(getattr(bill, key)) for key in words}, False)


def per_mtok(way: Way, tokens_per_s: float) -> float | None:
    """US dollars per million of these tokens, all cost on them."""
    return None if tokens_per_s <= 0 else way.total / (tokens_per_s * HOUR_S) * MEGA


@dataclass(frozen=True)
class ByLoad:
    """US dollars per million output tokens by part of the planned load, arrays (n,)."""

    share: Array
    usd_per_mtok: dict[str, Array]


def by_load(ways: list[Way], output_tokens_per_s: float) -> ByLoad:
    """A fixed cost is spread over fewer tokens at a lower load; one paid by the token stays."""
    share = np.linspace(LOWEST_SHARE, HIGHEST_SHARE, POINTS)
    found = {}
    for way in ways:
        full = per_mtok(way, output_tokens_per_s)
        if full is not None:
            found[way.name] = full / share if way.fixed else np.full(share.shape, full)
    return ByLoad(share, found)


def crossing(fixed: Way, elastic: Way) -> float | None:
    """Part of the planned load from which ``fixed`` is cheaper than ``elastic``; above 1: never at this size."""
    share = float(break_even(fixed.total, elastic.total))
    return share if np.isfinite(share) else None


@dataclass(frozen=True)
class TokenPrices:
    """US dollars per million tokens with the deployment's rent divided between prompts and answers."""

    input: float | None
    """All input tokens, those found in the cache too: the plan's own figure."""
    uncached: float | None
    """The same cost on the input tokens that are computed: what one found in the cache saves."""
    output: float | None
    """Output tokens with input tokens paid apart."""
    output_all: float | None
    """All cost on output tokens: the plan's own figure, by which it ranks."""


def token_prices(c: Candidate, d: Deployed) -> TokenPrices:
    """From the plan's own attribution: prefill's share of busy time on prompts, the rest on answers."""
    told = c.usd_per_mtok
    output = None
    if c.usd_per_hour is not None and told.input is not None and d.output_tokens_per_s:
        hourly = c.usd_per_hour / HOUR_S * MEGA
        output = (hourly - told.input * d.input_tokens_per_s) / d.output_tokens_per_s
    return TokenPrices(told.input, told.uncached_input, output, told.output)


@dataclass(frozen=True)
class Power:
    """Watts of the whole deployment, by part; None where the accelerator's TDP is not sourced."""

    gpus_w: float
    rest_w: float
    """CPUs, fans, NICs and switches."""
    facility_w: float
    """Cooling and distribution."""
    gpus_provisioned_w: float
    rest_provisioned_w: float
    facility_provisioned_w: float

    @property
    def average_w(self) -> float:
        return self.gpus_w + self.rest_w + self.facility_w

    @property
    def provisioned_w(self) -> float:
        return self.gpus_provisioned_w + self.rest_provisioned_w + self.facility_provisioned_w


def power(subject: Subject, d: Deployed) -> Power | None:
    """Average draw from the plan's joules per token, taken apart with the power model; provisioned from datasheets."""
    c = subject.candidate
    if c.joules_per_token is None:
        return None
    model: PowerModel = power_model()
    average = c.joules_per_token * d.output_tokens_per_s
    pools, s = tuple(subject.pools.values()), subject.setup
    rest = gpus = rest_max = facility = 0.0
    for w, used, billed in zip(pools, gpus_paid(s, pools, spares=False), gpus_paid(s, pools), strict=True):
        node, running, paid = w.hardware.power, float(used[0]), float(billed[0])
        rest += running * node.rest_provisioned_w * model.rest_of_node_draw_share.value
        gpus += paid * node.tdp_w
        rest_max += paid * node.rest_provisioned_w
        facility += paid * node.facility_provisioned_w
    if not np.isfinite(facility):
        return None
    electrical = average / model.pue.value
    return Power(
        gpus_w=electrical - rest,
        rest_w=rest,
        facility_w=average - electrical,
        gpus_provisioned_w=gpus,
        rest_provisioned_w=rest_max,
        facility_provisioned_w=max(facility - gpus - rest_max, 0.0),
    )

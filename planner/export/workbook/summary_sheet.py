"""The sheet Summary: the chosen candidate, its bill, and the same GPUs owned, part by part as on the Cost page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner.economics.owning import OwningCost, OwningInputs, owning_cost, owning_defaults
from planner.export.answers import best_text, headline_of
from planner.export.workbook.book import Sheet, cell
from planner.export.workbook.candidates_sheet import (
    AT,
    CANDIDATES_FIRST,
    HOURS_PER_MONTH,
    PRICES_FIRST,
    NodePrice,
    looked_up,
    priced,
    values_of,
)
from planner.search.plan_schema import Candidate, Plan
from planner.units import KILO

OWNER = (
    ("server_and_network_share_of_gpu_price", "server and network, part of the GPU price"),
    ("depreciation_years", "years of use"),
    ("residual_share", "value left at the end, part of the price"),
    ("capital_rate_per_year", "cost of money, part a year"),
    ("maintenance_share_per_year", "maintenance, part of the price a year"),
    ("hosting_usd_per_kw_month", "hosting, USD per kW and month"),
    ("electricity_usd_per_kwh", "electricity, USD per kWh"),
)
"""Inputs of an owner: name in hardware_db/owning.yaml, label."""
INPUTS, RESULTS = 4, 16
"""First rows of the inputs and of the results."""
MONTHS = 12
Row = tuple[str, str, Any, str, str]
"""Label, formula, value now, style, how."""


def write_summary(sheet: Sheet, plan: Plan, chosen: Candidate, prices: dict[str, NodePrice]) -> None:
    """Inputs on top, results below: rent, tokens, and what buying would have to cost less than.

    It opens on ``chosen``, a candidate of the plan.
    """
    sheet.widths(50, 20, 90)
    sheet.put(0, 0, plan.scenario.name, "title")
    sheet.put(1, 0, headline_of(plan, chosen))
    if chosen is not plan.best:
        sheet.put(2, 0, best_text(plan, chosen), "note")
    sheet.line(INPUTS - 1, ("input", "value", "meaning"), "head")
    defaults = owning_defaults()
    inputs: list[tuple[str, float, str]] = [
        ("candidate", chosen.rank, f"a rank from 1 to {len(plan.candidates)} of the sheet Candidates"),
        ("hours per month", HOURS_PER_MONTH, "hours that the deployment runs and is paid for in a month; a year / 12"),
        ("months", MONTHS, "length of the comparison"),
    ]
    for name, label in OWNER:
        one = getattr(defaults, name)
        inputs.append((label, one.value, f"{one.note}. {one.status}: {one.source}"))
    for i, (name, value, meaning) in enumerate(inputs, start=INPUTS):
        sheet.put(i, 0, name)
        sheet.enter(i, 1, value)
        sheet.put(i, 2, meaning, "note")
    sheet.line(RESULTS - 1, ("result", "value", "how"), "head")
    for i, (name, formula, value, style, how) in enumerate(_results(plan, chosen, prices), start=RESULTS):
        sheet.put(i, 0, name)
        sheet.formula(i, 1, formula, value, style)
        sheet.put(i, 2, how, "note")
    sheet.xlsx.activate()


def _input(place: int) -> str:
    return cell(INPUTS + place, 1)


def _results(plan: Plan, chosen: Candidate, prices: dict[str, NodePrice]) -> list[Row]:
    values = values_of(plan, chosen)
    rows = _rent(plan, chosen, values)
    owned = _owned_now(values, prices)
    usd = chosen.usd_per_hour
    return rows + _own(len(plan.candidates), len(prices), RESULTS + len(rows), owned, usd, values["output_rate"])


def _look(key: str, candidates: int) -> str:
    column, last = AT[key], CANDIDATES_FIRST + candidates - 1
    return f"INDEX(Candidates!{cell(CANDIDATES_FIRST, column)}:{cell(last, column)},{_input(0)})"


def _rent(plan: Plan, chosen: Candidate, values: dict[str, Any]) -> list[Row]:
    n = len(plan.candidates)
    usd, money, interval = chosen.usd_per_hour, chosen.usd_per_mtok, chosen.interval.get("usd_per_mtok")
    monthly = None if usd is None else usd * HOURS_PER_MONTH
    month = _look("usd_month", n)
    nodes = f"{_look('nodes', n)}+{_look('prefill_nodes', n)}"
    output = _look("output_rate", n)
    tokens = values["output_rate"] * HOURS_PER_MONTH * 3600 / 1e6
    whole = None if monthly is None else monthly * MONTHS

    def known(value: float | None) -> float | str:
        return "not known" if value is None else value

    return [
        ("GPUs", f"={_look('gpus', n)}", chosen.gpus, "whole", "of the whole deployment, spares left out"),
        ("nodes billed", f"={nodes}", values["nodes"] + values["prefill_nodes"], "whole", "spares included"),
        ("TTFT ms", f"={_look('ttft', n)}", chosen.ttft_ms.mean, "number", "mean"),
        ("TPOT ms", f"={_look('tpot', n)}", chosen.tpot_ms.mean, "number", "mean"),
        ("USD per hour", f"={_look('usd_hour', n)}", known(usd), "number", "nodes x GPUs per node x price"),
        ("USD per month", f"={month}", known(monthly), "number", "x hours per month"),
        (
            "USD over all months",
            f'=IF(ISNUMBER({month}),{month}*{_input(2)},"no price")',
            known(whole),
            "number",
            "rent",
        ),
        (
            "USD per million input tokens",
            f"={_look('usd_input', n)}",
            known(money.input),
            "money",
            "prefill's share of the rent, over all input tokens, cached ones included",
        ),
        (
            "USD per million uncached input tokens",
            f"={_look('usd_computed', n)}",
            known(money.uncached_input),
            "money",
            "the same over those that no cache holds",
        ),
        (
            "USD per million output tokens",
            f"={_look('usd_output', n)}",
            known(money.output),
            "money",
            f"all cost on output tokens{_of_the_day(plan)}: what plans are ranked by",
        ),
        (
            "USD per million output tokens, low (80 %)",
            f"={_look('usd_output_low', n)}",
            known(None if interval is None else interval.low80),
            "money",
            "at the upper end of the rate's interval",
        ),
        (
            "USD per million output tokens, high (80 %)",
            f"={_look('usd_output_high', n)}",
            known(None if interval is None else interval.high80),
            "money",
            "at the lower end of the rate's interval",
        ),
        (
            "million output tokens per month",
            f"={output}*{_input(1)}*3600/1000000",
            tokens,
            "number",
            f"at the planned rate{_of_the_day(plan)}, all hours",
        ),
    ]


def _of_the_day(plan: Plan) -> str:
    """Which hour a price or a rate is of, and how the day's mean stands to it, where the load of the day is known."""
    profile = plan.scenario.workload.daily_profile
    if profile is None:
        return ""
    return f" of the busiest hour (mean of the day: {profile.mean_over_peak:.3g} of its load)"


@dataclass(frozen=True)
class _Owned:
    """The chosen candidate's GPUs bought at the prices of now; None where a price or a power is not known."""

    purchase_usd: float | None
    provisioned_kw: float | None
    average_w: float | None
    cost: OwningCost

    def monthly(self, part: str) -> float | None:
        """USD a month of a part of ``cost``, or of its total."""
        missing = {"hosting": self.provisioned_kw is None, "electricity": self.average_w is None}
        if missing.get(part, self.purchase_usd is None):
            return None
        return float(getattr(self.cost, part)) * HOURS_PER_MONTH


def _owned_now(values: dict[str, Any], prices: dict[str, NodePrice]) -> _Owned:
    pools = [(values["nodes"], values["node"]), (values["prefill_nodes"], values["prefill_node"])]
    used = [(count * prices[node].gpus, prices[node]) for count, node in pools if node is not None and count]
    bills = [None if p.purchase_usd is None else gpus * p.purchase_usd for gpus, p in used]
    watts = [None if p.provisioned_w is None else gpus * p.provisioned_w for gpus, p in used]
    purchase, provisioned = (None if None in x else sum(v for v in x if v is not None) for x in (bills, watts))
    d = owning_defaults()
    cost = owning_cost(
        OwningInputs(
            purchase or 0.0,
            d.server_and_network_share_of_gpu_price.value,
            d.depreciation_years.value,
            d.residual_share.value,
            d.capital_rate_per_year.value,
            d.maintenance_share_per_year.value,
            d.hosting_usd_per_kw_month.value,
            d.electricity_usd_per_kwh.value,
            values["watts"] or 0.0,
            provisioned or 0.0,
        )
    )
    return _Owned(purchase, None if provisioned is None else provisioned / KILO, values["watts"], cost)


def _own(
    n: int,
    node_types: int,
    first: int,
    now: _Owned,
    usd_per_hour: float | None,
    output_rate: float,
) -> list[Row]:
    """The formulas of planner.economics.owning.owning_cost by the month, over all GPUs; rows from ``first``."""
    last = PRICES_FIRST + node_types - 1
    node, prefill = _look("node", n), _look("prefill_node", n)
    nodes, prefill_nodes = _look("nodes", n), _look("prefill_nodes", n)
    share, years, residual, rate, upkeep, hosting, kwh = (_input(3 + i) for i in range(len(OWNER)))

    def total(column: int) -> str:
        pools = ((nodes, node), (prefill_nodes, prefill))
        return "+".join(f"{c}*{looked_up(2, at, last)}*{looked_up(column, at, last)}" for c, at in pools)

    def has(column: int) -> str:
        return f"AND({priced(column, node, last)},OR({prefill_nodes}=0,{priced(column, prefill, last)}))"

    def row(place: int) -> str:
        return cell(first + place, 1)

    buy, power, parts, owning = row(0), row(1), f"{row(2)}:{row(6)}", row(7)
    price, watts = f"{buy}*(1+{share})", _look("watts", n)
    none, unknown = '"no purchase price"', '"not known"'

    def paid(formula: str) -> str:
        return f"=IF(ISNUMBER({buy}),{formula},{none})"

    def powered(test: str, formula: str) -> str:
        return f"=IF(ISNUMBER({test}),{formula},{unknown})"

    def or_text(value: float | None, text: str = "no purchase price") -> float | str:
        return text if value is None else value

    whole = now.monthly("total")
    per_mtok = None if whole is None else whole / (output_rate * HOURS_PER_MONTH * 3600) * 1e6
    compared = None if whole is None or not usd_per_hour else whole / (usd_per_hour * HOURS_PER_MONTH)
    month, tokens = cell(RESULTS + 5, 1), cell(RESULTS + 12, 1)
    both = f"AND(ISNUMBER({owning}),ISNUMBER({month}),{month}<>0)"
    return [
        (
            "purchase, USD for all GPUs",
            f"=IF({has(4)},{total(4)},{none})",
            or_text(now.purchase_usd),
            "number",
            "sheet Prices; without server and network",
        ),
        (
            "provisioned power, kW",
            f"=IF({has(5)},({total(5)})/1000,{unknown})",
            or_text(now.provisioned_kw, "not known"),
            "number",
            "sheet Prices; nodes and facility included",
        ),
        (
            "owning: depreciation, USD per month",
            paid(f"{price}*(1-{residual})/{years}/12"),
            or_text(now.monthly("depreciation")),
            "number",
            "straight line",
        ),
        (
            "owning: cost of money, USD per month",
            paid(f"{price}*(1+{residual})/2*{rate}/12"),
            or_text(now.monthly("capital")),
            "number",
            "on half of price and rest",
        ),
        (
            "owning: maintenance, USD per month",
            paid(f"{price}*{upkeep}/12"),
            or_text(now.monthly("maintenance")),
            "number",
            "part of the price",
        ),
        (
            "owning: hosting, USD per month",
            powered(power, f"{power}*{hosting}"),
            or_text(now.monthly("hosting"), "not known"),
            "number",
            "provisioned power; left out where not known",
        ),
        (
            "owning: electricity, USD per month",
            powered(watts, f"{watts}/1000*{_input(1)}*{kwh}"),
            or_text(now.monthly("electricity"), "not known"),
            "number",
            "average power, facility overhead included; left out where not known",
        ),
        ("owning, USD per month", paid(f"SUM({parts})"), or_text(whole), "number", "the five parts above"),
        (
            "owning, USD per million output tokens",
            f'=IF(ISNUMBER({owning}),{owning}/{tokens},"not compared")',
            or_text(per_mtok, "not compared"),
            "money",
            "all cost on output",
        ),
        (
            "owning costs of renting",
            f'=IF({both},{owning}/{month},"not compared")',
            or_text(compared, "not compared"),
            "number",
            "below 1: buying is cheaper",
        ),
    ]

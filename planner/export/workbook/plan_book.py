"""A plan as a workbook: the prices are inputs and every cost is a formula, so that a buyer needs no Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.catalog import catalog
from planner.economics.cost import gpu_price
from planner.errors import InfeasibleError
from planner.export.workbook.book import Book, Sheet, cell, new_book
from planner.export.workbook.sizing_sheet import write_sizing
from planner.search.headline import headline
from planner.search.plan_schema import Candidate, Plan

HOURS_PER_MONTH = 365.25 * 24 / 12
CANDIDATE_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("rank", "#", "whole"),
    ("serving", "serving", "text"),
    ("node", "node", "text"),
    ("layout", "layout", "text"),
    ("prefill_node", "prefill node", "text"),
    ("prefill_layout", "prefill layout", "text"),
    ("gpus", "GPUs", "whole"),
    ("nodes", "nodes billed (spares included)", "whole"),
    ("prefill_nodes", "prefill nodes billed", "whole"),
    ("ttft", "TTFT ms", "number"),
    ("ttft_low", "TTFT low (80 %)", "number"),
    ("ttft_high", "TTFT high (80 %)", "number"),
    ("tpot", "TPOT ms", "number"),
    ("tpot_low", "TPOT low (80 %)", "number"),
    ("tpot_high", "TPOT high (80 %)", "number"),
    ("goodput", "requests/s within limits", "number"),
    ("input_rate", "input tokens/s", "number"),
    ("output_rate", "output tokens/s", "number"),
    ("prefill_share", "prefill's share of busy time", "money"),
    ("watts", "average power W", "whole"),
    ("usd_hour", "USD per hour", "number"),
    ("usd_month", "USD per month", "number"),
    ("usd_input", "USD per million input tokens", "money"),
    ("usd_output", "USD per million output tokens", "money"),
)
_AT = {key: i for i, (key, _, _) in enumerate(CANDIDATE_COLUMNS)}
PRICES_FIRST, CANDIDATES_FIRST = 3, 1
"""First data row of the two sheets that formulas look at."""


@dataclass(frozen=True)
class NodePrice:
    """A node type's line of the price sheet."""

    node: str
    accelerator: str
    gpus: int
    usd_per_gpu_hour: float | None
    source: str


def write_plan_book(plan: Plan, path: Path) -> None:
    """Writes ``plan`` as ``path`` (.xlsx). Raises InfeasibleError for a plan without candidates."""
    if plan.best is None:
        raise InfeasibleError(headline(plan))
    prices = node_prices(plan)
    with new_book(path) as book:
        summary = book.sheet("Summary")
        _prices(book.sheet("Prices"), prices)
        _candidates(book.sheet("Candidates"), plan, prices)
        _summary(summary, plan)
        _frontier(book, plan)
        if plan.best.sizing is not None:
            write_sizing(book, plan.best.sizing)
        _scenario(book.sheet("Scenario"), plan)
        _reasons(book.sheet("Why not"), plan)
        _about(book.sheet("About"), plan)


def node_prices(plan: Plan) -> dict[str, NodePrice]:
    """Price lines of every node type that a candidate uses, the scenario's prices first."""
    scenario, known = plan.scenario, catalog()
    pools = scenario.hardware.pools
    choices = [*scenario.hardware.candidates, *(() if pools is None else (*pools.prefill, *pools.decode))]
    used = {c.node: c.gpus for c in choices if c.gpus is not None}
    found = {}
    for candidate in plan.candidates:
        for node in {candidate.node, candidate.prefill_pool.node if candidate.prefill_pool else candidate.node}:
            entry = known.node(node)
            price = gpu_price(scenario.economics.usd_per_gpu_hour, node, entry.accelerator, known.prices())
            found[node] = NodePrice(
                node,
                entry.accelerator,
                used.get(node, entry.gpus),
                None if price is None else price.usd_per_gpu_hour,
                "no price is known: enter yours" if price is None else f"{price.basis}: {price.source}",
            )
    return dict(sorted(found.items()))


def _prices(sheet: Sheet, prices: Mapping[str, NodePrice]) -> None:
    sheet.widths(22, 20, 14, 20, 60)
    sheet.put(0, 0, "Prices: change the yellow cells", "title")
    sheet.line(2, ("node", "GPU", "GPUs per node", "USD per GPU-hour", "where the number comes from"), "head")
    for i, price in enumerate(prices.values()):
        row = PRICES_FIRST + i
        sheet.line(row, (price.node, price.accelerator))
        sheet.put(row, 2, price.gpus, "whole")
        if price.usd_per_gpu_hour is None:
            sheet.xlsx.write_blank(row, 3, None, sheet.book.formats["input"])
        else:
            sheet.put(row, 3, price.usd_per_gpu_hour, "input")
        sheet.put(row, 4, price.source, "note")


def _values(plan: Plan, c: Candidate) -> dict[str, Any]:
    """What the formulas start from; rates of the whole deployment."""
    spare = plan.scenario.reliability.spare_nodes
    pool, decode = c.prefill_pool, c.decode_pool
    ttft, tpot = c.interval.get("ttft_ms"), c.interval.get("tpot_ms")
    inputs, outputs = (c.input_tokens_per_s_per_gpu or 0.0) * c.gpus, c.output_tokens_per_s_per_gpu * c.gpus
    share = None
    if pool is None and c.usd_per_hour and c.usd_per_mtok.input is not None:
        share = c.usd_per_mtok.input * inputs * 3600 / 1e6 / c.usd_per_hour
    return {
        "rank": c.rank,
        "serving": c.serving,
        "node": c.node,
        "layout": c.layout.describe(),
        "prefill_node": None if pool is None else pool.node,
        "prefill_layout": None if pool is None else pool.layout.describe(),
        "gpus": c.gpus,
        "nodes": c.nodes if decode is None or decode.nodes is None else decode.nodes + spare,
        "prefill_nodes": 0 if pool is None or pool.nodes is None else pool.nodes + spare,
        "ttft": c.ttft_ms.mean,
        "ttft_low": None if ttft is None else ttft.low80,
        "ttft_high": None if ttft is None else ttft.high80,
        "tpot": c.tpot_ms.mean,
        "tpot_low": None if tpot is None else tpot.low80,
        "tpot_high": None if tpot is None else tpot.high80,
        "goodput": c.goodput_rps,
        "input_rate": inputs,
        "output_rate": outputs,
        "prefill_share": share,
        "watts": None if c.joules_per_token is None else c.joules_per_token * outputs,
    }


def _candidates(sheet: Sheet, plan: Plan, prices: Mapping[str, NodePrice]) -> None:
    """Values of every candidate; the four costs are formulas on the price sheet."""
    sheet.widths(5, 9, 16, 24, 16, 24, *([13] * (len(CANDIDATE_COLUMNS) - 6)))
    sheet.line(0, [title for _, title, _ in CANDIDATE_COLUMNS], "head")
    sheet.xlsx.freeze_panes(1, 1)
    last = PRICES_FIRST + len(prices) - 1
    for i, c in enumerate(plan.candidates):
        row = CANDIDATES_FIRST + i
        values = _values(plan, c)
        for key, _, style in CANDIDATE_COLUMNS:
            if key in values:
                sheet.put(row, _AT[key], values[key], style)
        _costs(sheet, row, c, last)


def _costs(sheet: Sheet, row: int, c: Candidate, last: int) -> None:
    def at(key: str) -> str:
        return cell(row, _AT[key])

    def looked_up(column: int, node: str) -> str:
        names = f"Prices!{cell(PRICES_FIRST, 0)}:{cell(last, 0)}"
        return f"SUMIF({names},{node},Prices!{cell(PRICES_FIRST, column)}:{cell(last, column)})"

    def known(node: str) -> str:
        names, money = (f"Prices!{cell(PRICES_FIRST, k)}:{cell(last, k)}" for k in (0, 3))
        return f'COUNTIFS({names},{node},{money},">=0")>0'

    def rent(nodes: str, node: str) -> str:
        return f"{at(nodes)}*{looked_up(2, at(node))}*{looked_up(3, at(node))}"

    hourly, usd = rent("nodes", "node"), c.usd_per_hour
    if c.prefill_pool is None:
        share, priced = at("prefill_share"), known(at("node"))
    else:
        first = rent("prefill_nodes", "prefill_node")
        priced = f"AND({known(at('node'))},{known(at('prefill_node'))})"
        share = f"({first})/({first}+{hourly})"
        hourly = f"{first}+{hourly}"
    sheet.formula(row, _AT["usd_hour"], f'=IF({priced},{hourly},"no price")', usd)
    paid = f"ISNUMBER({at('usd_hour')})"
    monthly = None if usd is None else usd * HOURS_PER_MONTH
    sheet.formula(row, _AT["usd_month"], f'=IF({paid},{at("usd_hour")}*Summary!{cell(5, 1)},"no price")', monthly)
    per = f"{at('usd_hour')}/3600*1000000"
    money = c.usd_per_mtok
    inputs = f'=IF(AND({paid},{at("input_rate")}>0),{per}*{share}/{at("input_rate")},"no price")'
    sheet.formula(row, _AT["usd_input"], inputs, money.input, "money")
    outputs = f'=IF({paid},{per}/{at("output_rate")},"no price")'
    sheet.formula(row, _AT["usd_output"], outputs, money.output, "money")


def _summary(sheet: Sheet, plan: Plan) -> None:
    """The chosen candidate, its bill, and what buying would have to cost less than."""
    best = plan.candidates[0]
    sheet.widths(46, 20, 70)
    sheet.put(0, 0, plan.scenario.name, "title")
    sheet.put(1, 0, headline(plan))
    sheet.line(3, ("input", "value", "meaning"), "head")
    power, source = _electricity()
    inputs: tuple[tuple[str, float | None, str], ...] = (
        ("candidate", 1, f"a rank from 1 to {len(plan.candidates)} of the sheet Candidates"),
        ("hours per month", HOURS_PER_MONTH, "hours that the deployment is paid for in a month; a year / 12"),
        ("months", 12, "length of the comparison"),
        ("purchase, USD per node", None, "to compare with renting; empty: not compared"),
        ("depreciation, months", *_depreciation()),
        ("electricity, USD per kWh", power, source),
        ("hosting and staff, USD per node and month", None, "empty: none"),
    )
    for i, (name, value, meaning) in enumerate(inputs):
        sheet.put(4 + i, 0, name)
        if value is None:
            sheet.xlsx.write_blank(4 + i, 1, None, sheet.book.formats["input"])
        else:
            sheet.put(4 + i, 1, value, "input")
        sheet.put(4 + i, 2, meaning, "note")
    chosen, hours, months, buy, write_off, kwh, hosting = (cell(4 + i, 1) for i in range(7))
    sheet.line(12, ("result", "value", "how"), "head")
    values = _values(plan, best)
    last = CANDIDATES_FIRST + len(plan.candidates) - 1

    def look(key: str) -> str:
        column = _AT[key]
        return f"INDEX(Candidates!{cell(CANDIDATES_FIRST, column)}:{cell(last, column)},{chosen})"

    usd = best.usd_per_hour
    nodes, watts = f"({look('nodes')}+{look('prefill_nodes')})", look("watts")
    energy_now = None
    if values["watts"] is not None and power is not None:
        energy_now = values["watts"] / 1000 * HOURS_PER_MONTH * power
    rows: tuple[tuple[str, str, Any, str, str], ...] = (
        ("GPUs", f"={look('gpus')}", best.gpus, "whole", "of the whole deployment, spares left out"),
        ("nodes billed", f"={nodes}", values["nodes"] + values["prefill_nodes"], "whole", "spares included"),
        ("TTFT ms", f"={look('ttft')}", best.ttft_ms.mean, "number", "mean"),
        ("TPOT ms", f"={look('tpot')}", best.tpot_ms.mean, "number", "mean"),
        ("USD per hour", f"={look('usd_hour')}", usd, "number", "nodes x GPUs per node x price of a GPU-hour"),
        ("USD per month", f"={look('usd_month')}", usd and usd * HOURS_PER_MONTH, "number", "x hours per month"),
        (
            "USD over all months",
            f'=IF(ISNUMBER({look("usd_month")}),{look("usd_month")}*{months},"no price")',
            usd and usd * HOURS_PER_MONTH * 12,
            "number",
            "rent",
        ),
        (
            "USD per million input tokens",
            f"={look('usd_input')}",
            best.usd_per_mtok.input,
            "money",
            "prefill's share of the rent",
        ),
        (
            "USD per million output tokens",
            f"={look('usd_output')}",
            best.usd_per_mtok.output,
            "money",
            "all cost on output",
        ),
        (
            "million output tokens per month",
            f"={look('output_rate')}*{hours}*3600/1000000",
            values["output_rate"] * HOURS_PER_MONTH * 3600 / 1e6,
            "number",
            "at the planned rate, all hours",
        ),
        (
            "electricity, USD per month",
            f'=IF(AND(ISNUMBER({watts}),ISNUMBER({kwh})),{watts}/1000*{hours}*{kwh},"not known")',
            energy_now if energy_now is not None else "not known",
            "number",
            "average power, facility overhead (PUE) included",
        ),
        (
            "owning, USD per month",
            f'=IF(ISNUMBER({buy}),{nodes}*({buy}/{write_off}+N({hosting}))+N({cell(23, 1)}),"no purchase price")',
            "no purchase price",
            "number",
            "depreciation + hosting + electricity",
        ),
        (
            "owning costs of renting",
            f'=IF(AND(ISNUMBER({cell(24, 1)}),ISNUMBER({cell(18, 1)})),{cell(24, 1)}/{cell(18, 1)},"not compared")',
            "not compared",
            "number",
            "below 1: buying is cheaper",
        ),
    )
    for i, (name, formula, value, style, how) in enumerate(rows):
        sheet.put(13 + i, 0, name)
        sheet.formula(13 + i, 1, formula, value if value is not None else "no price", style)
        sheet.put(13 + i, 2, how, "note")
    sheet.xlsx.activate()


def _electricity() -> tuple[float | None, str]:
    """The catalogue's first price of a kWh, with its source."""
    for entry in catalog().prices().electricity:
        if entry.usd_per_kwh is not None:
            return entry.usd_per_kwh, f"{entry.what} ({entry.source}); enter yours"
    return None, "enter yours"


def _depreciation() -> tuple[float | None, str]:
    """Months of the catalogue's first depreciation rule, with its source."""
    for entry in catalog().prices().depreciation:
        return entry.years_low * 12, f"{entry.who} ({entry.source}); enter yours"
    return None, "enter yours"


def _frontier(book: Book, plan: Plan) -> None:
    sheet = book.sheet("Frontier")
    titles = ("#", "serving", "node", "layout", "GPUs", "TTFT ms", "TPOT ms", "tokens/s per GPU", "USD per Mtok out")
    sheet.widths(5, 9, 16, 24, 9, 11, 11, 14, 14)
    sheet.line(0, titles, "head")
    for i, p in enumerate(plan.pareto, start=1):
        sheet.line(i, (p.rank, p.serving, p.node, p.layout.describe(), p.gpus), "whole")
        sheet.line_from(i, 5, (p.ttft_ms, p.tpot_ms, p.output_tokens_per_s_per_gpu, p.usd_per_mtok_output))
    if not plan.pareto:
        return
    last = len(plan.pareto)
    chart = book.xlsx.add_chart({"type": "scatter"})
    chart.add_series(
        {
            "name": "frontier",
            "categories": ["Frontier", 1, 6, last, 6],
            "values": ["Frontier", 1, 7, last, 7],
            "marker": {"type": "circle", "size": 6, "fill": {"color": "#0072b2"}, "border": {"color": "#0072b2"}},
        }
    )
    chart.set_title({"name": "What nothing else beats"})
    chart.set_x_axis({"name": "TPOT in ms", "min": 0})
    chart.set_y_axis({"name": "output tokens/s per GPU", "min": 0})
    chart.set_legend({"none": True})
    chart.set_size({"width": 620, "height": 380})
    sheet.xlsx.insert_chart(1, 10, chart)


def _scenario(sheet: Sheet, plan: Plan) -> None:
    sheet.widths(44, 60)
    sheet.put(0, 0, "The question (change it in the YAML and plan again)", "title")
    sheet.line(2, ("key", "value"), "head")
    for i, (key, value) in enumerate(flatten(plan.scenario.to_dict()), start=3):
        sheet.put(i, 0, key)
        sheet.put(i, 1, value)


def _reasons(sheet: Sheet, plan: Plan) -> None:
    sheet.widths(18, 10, 14, 14, 8, 60, 60)
    sheet.line(0, ("reason", "refused", "needed", "available", "unit", "nearest to fitting", "change"), "head")
    for i, r in enumerate(plan.rejected, start=1):
        sheet.put(i, 0, r.reason.replace("_", " "))
        sheet.put(i, 1, r.count, "whole")
        sheet.line_from(i, 2, (r.needed, r.available, r.unit))
        sheet.put(i, 5, r.example, "wrap")
        sheet.put(i, 6, r.fix, "wrap")


def _about(sheet: Sheet, plan: Plan) -> None:
    sheet.widths(26, 100)
    sheet.put(0, 0, "What the numbers are numbers of", "title")
    row = 2
    v = plan.versions
    known = {**plan.identity.flat(), "planner": v.planner, "catalogue": v.catalogue, "coefficients": v.coefficients}
    for key, value in known.items():
        sheet.put(row, 0, key)
        sheet.put(row, 1, value if value is None else str(value), "wrap")
        row += 1
    for text in plan.assumptions:
        sheet.put(row, 0, "assumption")
        sheet.put(row, 1, text, "wrap")
        row += 1
    for mark in plan.candidates[0].evidence.marks:
        sheet.put(row, 0, "extrapolated")
        sheet.put(row, 1, f"{mark.subject}: {mark.text}", "wrap")
        row += 1


def flatten(data: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Nested data as (dotted key, value) pairs."""
    if isinstance(data, Mapping):
        items = [(str(k), v) for k, v in data.items()]
    elif isinstance(data, list | tuple):
        items = [(str(i), v) for i, v in enumerate(data)]
    else:
        return [(prefix, data)]
    return [pair for key, value in items for pair in flatten(value, f"{prefix}.{key}" if prefix else key)]

"""The sheets Prices and Candidates: prices are inputs, and every cost of a candidate is a formula on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.catalog import Catalog
from planner.economics.cost import gpu_price
from planner.economics.energy import node_power, power_model
from planner.economics.owning import purchase_usd_per_gpu
from planner.export.workbook.book import Sheet, cell
from planner.search.in_flight import set_to_run
from planner.search.plan_schema import Candidate, Plan

HOURS_PER_MONTH = 365.25 * 24 / 12
CANDIDATE_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("rank", "#", "whole"),
    ("serving", "serving", "text"),
    ("node", "node", "text"),
    ("layout", "layout", "text"),
    ("prefill_node", "prefill node", "text"),
    ("prefill_layout", "prefill layout", "text"),
    ("step_tokens", "tokens of a step", "whole"),
    ("prefill_step_tokens", "tokens of a prefill step", "whole"),
    ("gpus", "GPUs", "whole"),
    ("gpus_paid", "GPUs paid for (whole nodes, spares included)", "whole"),
    ("nodes", "nodes billed (spares included)", "whole"),
    ("prefill_nodes", "prefill nodes billed (0 where they are among the nodes of both pools)", "whole"),
    ("ttft", "TTFT ms", "number"),
    ("ttft_low", "TTFT ms, low (80 %)", "number"),
    ("ttft_high", "TTFT ms, high (80 %)", "number"),
    ("tpot", "TPOT ms", "number"),
    ("tpot_low", "TPOT ms, low (80 %)", "number"),
    ("tpot_high", "TPOT ms, high (80 %)", "number"),
    ("goodput", "requests/s within limits", "number"),
    ("in_workers", "requests in the workers (separate pools: decode), mean", "number"),
    ("at_once", "requests that the engines are set to run at once", "whole"),
    ("memory_holds", "requests that memory would hold", "whole"),
    ("input_rate", "input tokens/s", "number"),
    ("output_rate", "output tokens/s", "number"),
    ("output_low", "output tokens/s, low (80 %)", "number"),
    ("output_high", "output tokens/s, high (80 %)", "number"),
    ("prefill_share", "prefill's share of busy time or, of pools on the same nodes, of GPUs, 0 to 1", "money"),
    ("cached_share", "cached share of prompt tokens, 0 to 1", "money"),
    ("watts", "average power W, facility included", "whole"),
    ("usd_hour", "USD per hour", "number"),
    ("usd_month", "USD per month", "number"),
    ("usd_input", "USD per million input tokens", "money"),
    ("usd_computed", "USD per million uncached input tokens", "money"),
    ("usd_output", "USD per million output tokens, all cost on them", "money"),
    ("usd_output_low", "USD per million output tokens, low (80 %)", "money"),
    ("usd_output_high", "USD per million output tokens, high (80 %)", "money"),
)
AT = {key: i for i, (key, _, _) in enumerate(CANDIDATE_COLUMNS)}
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
    purchase_usd: float | None
    purchase_source: str
    provisioned_w: float | None
    """Of one GPU, with its part of the node and of the facility; None where its power is not known."""


def node_prices(plan: Plan, known: Catalog) -> dict[str, NodePrice]:
    """Price lines of every node type that a candidate uses, the scenario's prices first."""
    scenario = plan.scenario
    used = {c.node: c.gpus for c in scenario.hardware.choices if c.gpus is not None}
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
                *_purchase(entry.accelerator, known),
                _provisioned_w(node, known),
            )
    return dict(sorted(found.items()))


def _purchase(accelerator: str, known: Catalog) -> tuple[float | None, str]:
    found = purchase_usd_per_gpu(accelerator, known.prices())
    return (None, "none is known: enter yours") if found is None else found


def _provisioned_w(node_id: str, known: Catalog) -> float | None:
    node = known.node(node_id)
    power = node_power(node, known.accelerator(node.accelerator), power_model())
    watts = max(power.facility_provisioned_w, power.tdp_w + power.rest_provisioned_w)
    return watts if math.isfinite(watts) else None


def write_prices(sheet: Sheet, prices: Mapping[str, NodePrice]) -> None:
    """The yellow prices of every node type that a candidate uses, to rent and to buy."""
    sheet.widths(22, 20, 14, 20, 20, 18, 60, 60)
    sheet.put(0, 0, "Prices: change the yellow cells", "title")
    heads = ("node", "GPU", "GPUs per node", "USD per GPU-hour", "purchase, USD per GPU", "provisioned W per GPU")
    sheet.line(2, (*heads, "where the rent comes from", "where the purchase price comes from"), "head")
    for i, price in enumerate(prices.values()):
        row = PRICES_FIRST + i
        sheet.line(row, (price.node, price.accelerator))
        sheet.put(row, 2, price.gpus, "whole")
        sheet.enter(row, 3, price.usd_per_gpu_hour)
        sheet.enter(row, 4, price.purchase_usd)
        sheet.put(row, 5, price.provisioned_w, "whole")
        sheet.put(row, 6, price.source, "note")
        sheet.put(row, 7, price.purchase_source, "note")


def values_of(plan: Plan, c: Candidate) -> dict[str, Any]:
    """What the formulas start from; rates of the whole deployment."""
    spare = plan.scenario.reliability.spare_nodes
    pool, decode = c.prefill_pool, c.decode_pool
    apart = pool is not None and c.shared_nodes is None
    ttft, tpot = c.interval.get("ttft_ms"), c.interval.get("tpot_ms")
    rate = c.interval.get("output_tokens_per_s_per_gpu")
    inputs, outputs = (c.input_tokens_per_s_per_gpu or 0.0) * c.gpus, c.output_tokens_per_s_per_gpu * c.gpus
    share = None
    if pool is None and c.usd_per_hour and c.usd_per_mtok.input is not None:
        share = c.usd_per_mtok.input * inputs * 3600 / 1e6 / c.usd_per_hour
    elif pool is not None and not apart:
        share = pool.gpus / c.gpus
    return {
        "rank": c.rank,
        "serving": c.serving,
        "node": c.node,
        "layout": c.layout.describe(),
        "prefill_node": None if pool is None else pool.node,
        "prefill_layout": None if pool is None else pool.layout.describe(),
        "step_tokens": c.settings.max_num_batched_tokens,
        "prefill_step_tokens": None if pool is None else pool.settings.max_num_batched_tokens,
        "gpus": c.gpus,
        "gpus_paid": c.gpus_paid,
        "nodes": c.nodes if not apart or decode is None or decode.nodes is None else decode.nodes + spare,
        "prefill_nodes": 0 if not apart or pool is None or pool.nodes is None else pool.nodes + spare,
        "ttft": c.ttft_ms.mean,
        "ttft_low": None if ttft is None else ttft.low80,
        "ttft_high": None if ttft is None else ttft.high80,
        "tpot": c.tpot_ms.mean,
        "tpot_low": None if tpot is None else tpot.low80,
        "tpot_high": None if tpot is None else tpot.high80,
        "goodput": c.goodput_rps,
        "in_workers": c.concurrency,
        "at_once": set_to_run(c),
        "memory_holds": c.max_concurrency,
        "input_rate": inputs,
        "output_rate": outputs,
        "output_low": None if rate is None else rate.low80 * c.gpus,
        "output_high": None if rate is None else rate.high80 * c.gpus,
        "prefill_share": share,
        "cached_share": plan.scenario.workload.prefix_hit_rate,
        "watts": None if c.joules_per_token is None else c.joules_per_token * outputs,
    }


def write_candidates(sheet: Sheet, plan: Plan, prices: Mapping[str, NodePrice]) -> None:
    """Values of every candidate; the costs are formulas on the price sheet."""
    sheet.widths(5, 9, 16, 24, 16, 24, *([13] * (len(CANDIDATE_COLUMNS) - 6)))
    sheet.line(0, [title for _, title, _ in CANDIDATE_COLUMNS], "head")
    sheet.xlsx.freeze_panes(1, 1)
    last = PRICES_FIRST + len(prices) - 1
    for i, c in enumerate(plan.candidates):
        row = CANDIDATES_FIRST + i
        values = values_of(plan, c)
        for key, _, style in CANDIDATE_COLUMNS:
            if key in values:
                sheet.put(row, AT[key], values[key], style)
        _costs(sheet, row, c, last)


def looked_up(column: int, node: str, last: int) -> str:
    """Formula: column of the price sheet, whose last row is ``last``, for the node type in cell ``node``."""
    names = f"Prices!{cell(PRICES_FIRST, 0)}:{cell(last, 0)}"
    return f"SUMIF({names},{node},Prices!{cell(PRICES_FIRST, column)}:{cell(last, column)})"


def priced(column: int, node: str, last: int) -> str:
    """Formula: whether that cell of the price sheet holds a number."""
    names, money = (f"Prices!{cell(PRICES_FIRST, k)}:{cell(last, k)}" for k in (0, column))
    return f'COUNTIFS({names},{node},{money},">=0")>0'


def _costs(sheet: Sheet, row: int, c: Candidate, last: int) -> None:
    def at(key: str) -> str:
        return cell(row, AT[key])

    def rent(nodes: str, node: str) -> str:
        return f"{at(nodes)}*{looked_up(2, at(node), last)}*{looked_up(3, at(node), last)}"

    hourly, usd = rent("nodes", "node"), c.usd_per_hour
    if c.prefill_pool is None or c.shared_nodes is not None:
        share, known = at("prefill_share"), priced(3, at("node"), last)
    else:
        first = rent("prefill_nodes", "prefill_node")
        known = f"AND({priced(3, at('node'), last)},{priced(3, at('prefill_node'), last)})"
        share = f"({first})/({first}+{hourly})"
        hourly = f"{first}+{hourly}"
    sheet.formula(row, AT["usd_hour"], f'=IF({known},{hourly},"no price")', usd)
    paid = f"ISNUMBER({at('usd_hour')})"
    monthly = None if usd is None else usd * HOURS_PER_MONTH
    sheet.formula(row, AT["usd_month"], f'=IF({paid},{at("usd_hour")}*Summary!{cell(5, 1)},"no price")', monthly)
    per = f"{at('usd_hour')}/3600*1000000"
    money, interval = c.usd_per_mtok, c.interval.get("usd_per_mtok")
    fresh = f"({at('input_rate')}*(1-{at('cached_share')}))"
    low, high = (None, None) if interval is None else (interval.low80, interval.high80)
    for key, value, part, tokens in (
        ("usd_input", money.input, f"*{share}", at("input_rate")),
        ("usd_computed", money.uncached_input, f"*{share}", fresh),
        ("usd_output", money.output, "", at("output_rate")),
        ("usd_output_low", low, "", at("output_high")),
        ("usd_output_high", high, "", at("output_low")),
    ):
        formula = f'=IF(AND({paid},N({tokens})>0),{per}{part}/{tokens},"not known")'
        sheet.formula(row, AT[key], formula, "not known" if value is None else value, "money")

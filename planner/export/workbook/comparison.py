"""Answered scenarios side by side in a workbook: cells are formulas on the table, prices of GPU-hours are to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.catalog import catalog
from planner.errors import InputError
from planner.export.workbook.book import Book, Sheet, cell, new_book
from planner.export.workbook.table_book import SHEET
from planner.search.record import RESULT_COLUMNS

HEAD = (
    *("option", "status", "GPU", "layout", "GPUs", "nodes", "GPUs per node", "TTFT ms", "TPOT ms", "output tokens/s"),
    *("USD per GPU-hour", "USD per hour", "USD per year", "USD per million output tokens", "rank by cost", "message"),
)
HOURS_PER_YEAR = 365.25 * 24
FIRST = 3
"""First row of options."""
STATUS, GPUS, NODES, PER_NODE, OUTPUT, PRICE, HOURLY, YEARLY, PER_MTOK, RANK, MESSAGE = (
    1,
    4,
    5,
    6,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
)
ROOM = 20
"""Further rows of formulas, for options that are added to the table."""
NODE_SHEET = "Nodes"
OWN_GPUS = "hardware.candidates.0.gpus"
"""Column of a table of scenarios: GPUs used in each node, where that is not all of them."""
TABLE, NAMES = f"{SHEET}!$A$1:$CV$10001", f"{SHEET}!$A$1:$CV$1"
"""The table of scenarios with its header, as far as one may grow (planner.sheet.table.MAX_ROWS), and its header."""
NO_PRICE, NOT_KNOWN = "no price", "not known"


def write_comparison(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes rows of :func:`planner.sheet.plan_table` (mappings) as ``path`` (.xlsx).

    The sheet Scenarios holds the table itself, which ``planner sheet run`` takes and fills in again; the sheet
    Comparison has one option a row, each cell a formula on that table, found by column name, so that it follows every
    run. Raises InputError for no rows.
    """
    if not rows:
        raise InputError("rows", "nothing", "at least one row of planner.sheet.plan_table")
    with new_book(path) as book:
        _comparison(book, rows)
        _chart(book, len(rows))
        _scenarios(book.sheet(SHEET), rows)
        _nodes(book.sheet(NODE_SHEET))


def _comparison(book: Book, rows: Sequence[Mapping[str, Any]]) -> None:
    sheet = book.sheet("Comparison")
    sheet.widths(36, 10, 14, 26, 8, 8, 9, 10, 10, 12, 12, 12, 14, 14, 9, 60)
    sheet.put(0, 0, "Options: change the yellow prices", "title")
    follows = f"Rows follow the sheet {SHEET}: change it and fill it in again with planner sheet run."
    sheet.put(1, 0, f"{follows} A price typed over a yellow cell stays.", "note")
    shown = len(rows) + ROOM
    more = f'"{SHEET} holds more than the {shown} rows that are shown here."'
    filled = f'COUNTA(INDEX({TABLE},0,MATCH("status",{NAMES},0)))-1'
    sheet.formula(0, GPUS, f'=IF({filled}>{shown},{more},"")', "", "note")
    sheet.line(2, HEAD, "head")
    sheet.xlsx.freeze_panes(3, 1)
    costs = [_costs(row) for row in rows]
    ranked = [c["per_mtok"] for c in costs]
    for i in range(shown):
        row = rows[i] if i < len(rows) else {}
        _option(sheet, FIRST + i, FIRST + shown - 1, row, costs[i] if i < len(rows) else {}, ranked)


def _option(
    sheet: Sheet, at: int, last: int, row: Mapping[str, Any], cost: Mapping[str, Any], ranked: Sequence[Any]
) -> None:
    """One row of formulas with the values that they have now; empty where the table has no such row yet."""

    def here(column: int) -> str:
        return cell(at, column)

    def known(*columns: int) -> str:
        return f"AND({','.join(f'ISNUMBER({here(c)})' for c in columns)})"

    ok = row.get("status") == "ok"
    served = f'{here(STATUS)}="ok"'
    for column, name, style in (
        (STATUS, "status", "text"),
        (2, "accelerator", "text"),
        (GPUS, "gpus", "whole"),
        (NODES, "nodes", "whole"),
        (7, "ttft_mean_ms", "number"),
        (8, "tpot_mean_ms", "number"),
        (MESSAGE, "message", "wrap"),
    ):
        sheet.formula(at, column, f"={_of(name)}", row.get(name), style)
    sheet.formula(at, 0, f"={_label_of()}", _label(row), "text")
    pools = (
        f'"prefill "&{_of("prefill_workers")}&" × ("&{_of("prefill_layout")}&"), decode "&{_of("replicas")}'
        f'&" × ("&{_of("layout")}&")"'
    )
    sheet.formula(at, 3, f'=IF({_of("prefill_layout")}="",{_of("layout")},{pools})', _layout(row), "text")
    in_node = f'IFERROR(VLOOKUP({_of("node_chosen")},{NODE_SHEET}!$A:$C,3,FALSE),"{NOT_KNOWN}")'
    own = _of(OWN_GPUS)
    sheet.formula(
        at, PER_NODE, f'=IF({served},IF(ISNUMBER({own}),{own},{in_node}),"")', cost.get("gpus_per_node"), "whole"
    )
    rate = f"{_of('output_tokens_per_s_per_gpu')}*{here(GPUS)}"
    sheet.formula(at, OUTPUT, f'=IF({served},{rate},"")', cost.get("output"))
    billed, usd = f"({here(NODES)}*{here(PER_NODE)})", _of("usd_per_hour")
    priced = f"AND(ISNUMBER({usd}),{known(NODES, PER_NODE)})"
    sheet.formula(at, PRICE, f'=IF({priced},{usd}/{billed},"")', cost.get("price"), "input")

    def else_text(number: Any) -> Any:
        return number if number is not None else NO_PRICE if ok else ""

    none = f'IF({served},"{NO_PRICE}","")'
    sheet.formula(
        at, HOURLY, f"=IF({known(PRICE, PER_NODE)},{billed}*{here(PRICE)},{none})", else_text(cost.get("hourly"))
    )
    yearly = f"{here(HOURLY)}*{HOURS_PER_YEAR:g}"
    sheet.formula(at, YEARLY, f"=IF({known(HOURLY)},{yearly},{none})", else_text(cost.get("yearly")), "whole")
    per = f"{here(HOURLY)}/3600*1000000/{here(OUTPUT)}"
    own_cost = cost.get("per_mtok")
    sheet.formula(at, PER_MTOK, f"=IF({known(HOURLY)},{per},{none})", else_text(own_cost), "money")
    every = f"{cell(FIRST, PER_MTOK)}:{cell(last, PER_MTOK)}"
    rank = None if own_cost is None else 1 + sum(v is not None and v < own_cost for v in ranked)
    sheet.formula(at, RANK, f'=IF({known(PER_MTOK)},RANK({here(PER_MTOK)},{every},1),"")', rank, "whole")


def _of(name: str) -> str:
    """Formula: the cell of the table of scenarios in column ``name``, of the option in this row; else empty text."""
    place = f'INDEX({TABLE},ROW()-{FIRST - 1},MATCH("{name}",{NAMES},0))'
    return f'IFERROR(IF({place}="","",{place}),"")'


def _label_of() -> str:
    """Formula of :func:`_label`."""
    rate, flight = _of("rate_rps"), _of("concurrency")
    load = f'IF(ISNUMBER({rate}),", "&{rate}&" requests/s",IF(ISNUMBER({flight}),", "&{flight}&" in flight",""))'
    made = f'IF({_of("model")}="","",{_of("model")}&" on "&{_of("node")}&{load})'
    return f'IF({_of("name")}="",{made},{_of("name")})'


def _label(row: Mapping[str, Any]) -> str:
    """The option's name; without one what it is of, which follows a changed row."""
    if row.get("name"):
        return str(row["name"])
    loads = (("rate_rps", "requests/s"), ("concurrency", "in flight"))
    load = next((f", {row[key]:g} {unit}" for key, unit in loads if row.get(key) is not None), "")
    return f"{row['model']} on {row['node']}{load}" if row.get("model") else ""


def _layout(row: Mapping[str, Any]) -> Any:
    if not row.get("prefill_layout"):
        return row.get("layout")
    prefill = f"prefill {row['prefill_workers']} × ({row['prefill_layout']})"
    return f"{prefill}, decode {row['replicas']} × ({row['layout']})"


def _costs(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the formulas of a row have now."""
    if row["status"] != "ok":
        return dict.fromkeys(("gpus_per_node", "output", "price", "hourly", "yearly", "per_mtok"))
    per_node = int(row.get(OWN_GPUS) or catalog().node(str(row["node_chosen"])).gpus)
    output, hourly = row["output_tokens_per_s_per_gpu"] * row["gpus"], row["usd_per_hour"]
    paid = hourly is not None
    return {
        "gpus_per_node": per_node,
        "output": output,
        "price": hourly / (row["nodes"] * per_node) if paid else None,
        "hourly": hourly,
        "yearly": hourly * HOURS_PER_YEAR if paid else None,
        "per_mtok": hourly / 3600 * 1e6 / output if paid else None,
    }


def _chart(book: Book, options: int) -> None:
    sheet = book.sheet("Chart")
    last = FIRST + options - 1
    chart = book.xlsx.add_chart({"type": "bar"})
    chart.add_series(
        {
            "categories": ["Comparison", FIRST, 0, last, 0],
            "values": ["Comparison", FIRST, PER_MTOK, last, PER_MTOK],
            "fill": {"color": "#0072b2"},
        }
    )
    chart.set_title({"name": "USD per million output tokens"})
    chart.set_legend({"none": True})
    chart.set_y_axis({"reverse": True})
    chart.set_size({"width": 900, "height": 60 + 32 * options})
    sheet.put(0, 0, f"The first {options} options of the sheet Comparison", "note")
    sheet.xlsx.insert_chart(1, 0, chart)


def _nodes(sheet: Sheet) -> None:
    """What the formulas need of the catalogue: how many GPUs a node of each type has."""
    known = catalog()
    sheet.widths(26, 20, 14)
    sheet.line(0, ("node", "GPU", "GPUs per node"), "head")
    for i, id in enumerate(known.node_ids(), start=1):
        node = known.node(id)
        sheet.line(i, (node.id, node.accelerator, node.gpus), "whole")


def _scenarios(sheet: Sheet, rows: Sequence[Mapping[str, Any]]) -> None:
    """The table as it was planned."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    sheet.widths(*([30] + [14] * (len(names) - 1)))
    sheet.line(0, names, "head")
    sheet.xlsx.freeze_panes(1, 1)
    for i, row in enumerate(rows, start=1):
        for column, name in enumerate(names):
            value = row.get(name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            style = "note" if name in RESULT_COLUMNS and isinstance(value, str) else "whole" if whole else None
            sheet.put(i, column, value, style)

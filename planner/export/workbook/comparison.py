"""Answered scenarios side by side in a workbook, the prices of GPU-hours as inputs and costs as formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.catalog import catalog
from planner.economics.cost import gpu_price
from planner.errors import InputError
from planner.export.workbook.book import Book, Sheet, cell, new_book
from planner.search.record import RESULT_COLUMNS

HEAD = (
    *("option", "status", "GPU", "layout", "GPUs", "nodes", "GPUs per node", "TTFT ms", "TPOT ms", "output tokens/s"),
    *("USD per GPU-hour", "USD per hour", "USD per year", "USD per million output tokens", "rank by cost", "message"),
)
HOURS_PER_YEAR = 365.25 * 24
FIRST = 3
"""First row of options."""
PRICE, HOURLY, YEARLY, PER_MTOK, RANK = 10, 11, 12, 13, 14


def write_comparison(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes rows of :func:`planner.sheet.plan_table` (mappings) as ``path`` (.xlsx).

    The sheet Comparison has one option a row with live costs; the sheet Scenarios holds the table itself, which
    ``planner sheet run`` takes. Raises InputError for no rows.
    """
    if not rows:
        raise InputError("rows", "nothing", "at least one row of planner.sheet.plan_table")
    with new_book(path) as book:
        _comparison(book, rows)
        _scenarios(book.sheet("Scenarios"), rows)


def _comparison(book: Book, rows: Sequence[Mapping[str, Any]]) -> None:
    sheet = book.sheet("Comparison")
    sheet.widths(36, 10, 14, 26, 8, 8, 9, 10, 10, 12, 12, 12, 14, 14, 9, 60)
    sheet.put(0, 0, "Options: change the yellow prices", "title")
    sheet.line(2, HEAD, "head")
    sheet.xlsx.freeze_panes(3, 1)
    per_mtok = [_per_mtok(row) for row in rows]
    for i, row in enumerate(rows):
        _option(sheet, FIRST + i, len(rows), row, per_mtok)
    last = FIRST + len(rows) - 1
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
    chart.set_size({"width": 900, "height": 60 + 32 * len(rows)})
    sheet.xlsx.insert_chart(last + 2, 0, chart)


def _option(sheet: Sheet, at: int, count: int, row: Mapping[str, Any], per_mtok: Sequence[float | None]) -> None:
    """One option; its costs follow from nodes, GPUs per node and the price in the same row."""
    sheet.line(at, (row["name"], row["status"], row["accelerator"], row["layout"]))
    sheet.put(at, 15, row["message"], "wrap")
    if row["status"] != "ok":
        return
    gpus_per_node, price = _node(row)
    output = row["output_tokens_per_s_per_gpu"] * row["gpus"]
    sheet.line_from(at, 4, (row["gpus"], row["nodes"], gpus_per_node), "whole")
    sheet.line_from(at, 7, (row["ttft_mean_ms"], row["tpot_mean_ms"], output))
    sheet.enter(at, PRICE, price)
    hourly = row["usd_per_hour"]
    paid, money = f"ISNUMBER({cell(at, PRICE)})", f"{cell(at, 5)}*{cell(at, 6)}*{cell(at, PRICE)}"
    none = '"no price"'
    sheet.formula(at, HOURLY, f"=IF({paid},{money},{none})", hourly if hourly is not None else "no price")
    yearly = "no price" if hourly is None else hourly * HOURS_PER_YEAR
    sheet.formula(at, YEARLY, f"=IF({paid},{cell(at, HOURLY)}*{HOURS_PER_YEAR:g},{none})", yearly, "whole")
    per = f"{cell(at, HOURLY)}/3600*1000000/{cell(at, 9)}"
    own = _per_mtok(row)
    sheet.formula(at, PER_MTOK, f"=IF({paid},{per},{none})", own if own is not None else "no price", "money")
    column = f"{cell(FIRST, PER_MTOK)}:{cell(FIRST + count - 1, PER_MTOK)}"
    place = "" if own is None else 1 + sum(v is not None and v < own for v in per_mtok)
    sheet.formula(at, RANK, f'=IF({paid},RANK({cell(at, PER_MTOK)},{column},1),"")', place, "whole")


def _per_mtok(row: Mapping[str, Any]) -> float | None:
    value = row["usd_per_mtok_output"]
    return None if value is None else float(value)


def _node(row: Mapping[str, Any]) -> tuple[int, float | None]:
    """GPUs used in each node, and the price the plan used: the row's own, else the catalogue's."""
    known = catalog()
    node = known.node(str(row["node_chosen"]))
    own = row.get("usd_per_gpu_hour")
    price = gpu_price({} if own is None else {node.id: float(own)}, node.id, node.accelerator, known.prices())
    used = row.get("hardware.candidates.0.gpus") or node.gpus
    return int(used), None if price is None else price.usd_per_gpu_hour


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

"""A plan as a workbook: the prices are inputs and every cost is a formula, so that a buyer needs no Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.catalog import Catalog, catalog
from planner.export.answers import identity_of, point_layout
from planner.export.roles import pick
from planner.export.workbook.book import Book, Sheet, new_book
from planner.export.workbook.candidates_sheet import node_prices, write_candidates, write_prices
from planner.export.workbook.sizing_sheet import write_sizing
from planner.export.workbook.summary_sheet import write_summary
from planner.search.plan_schema import Candidate, Plan
from planner.units import spaced


def write_plan_book(plan: Plan, path: Path, known: Catalog | None = None, candidate: int = 1) -> None:
    """Writes ``plan`` as ``path`` (.xlsx); ``known`` is the catalogue planned with, None the usual.

    ``candidate`` is the rank that the sheet Summary opens on, and that the sheets on sizes and evidence are about.
    Raises InfeasibleError for a plan without candidates, InputError for a rank that there is not.
    """
    chosen = pick(plan, candidate)
    prices = node_prices(plan, known or catalog())
    with new_book(path) as book:
        summary = book.sheet("Summary")
        write_prices(book.sheet("Prices"), prices)
        write_candidates(book.sheet("Candidates"), plan, prices)
        write_summary(summary, plan, chosen, prices)
        _frontier(book, plan)
        if chosen.sizing is not None:
            write_sizing(book, chosen.sizing)
        _scenario(book.sheet("Scenario"), plan)
        _reasons(book.sheet("Why not"), plan)
        _about(book.sheet("About"), plan, chosen)


def _frontier(book: Book, plan: Plan) -> None:
    sheet = book.sheet("Frontier")
    titles = ("#", "serving", "node", "layout", "GPUs", "TTFT ms", "TPOT ms", "tokens/s per GPU", "USD per Mtok out")
    sheet.widths(5, 9, 16, 44, 9, 11, 11, 14, 14)
    sheet.line(0, titles, "head")
    for i, p in enumerate(plan.pareto, start=1):
        sheet.line(i, (p.rank, p.serving, p.node, point_layout(plan, p), p.gpus), "whole")
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
        sheet.put(i, 5, spaced(r.example), "wrap")
        sheet.put(i, 6, None if r.fix is None else spaced(r.fix), "wrap")


def _about(sheet: Sheet, plan: Plan, chosen: Candidate) -> None:
    sheet.widths(26, 100)
    sheet.put(0, 0, "What the numbers are numbers of", "title")
    row = 2
    v = plan.versions
    made = {"planner": v.planner, "catalogue": v.catalogue, "coefficients": v.coefficients}
    for key, value in (identity_of(plan, chosen).flat() | made).items():
        sheet.put(row, 0, key)
        sheet.put(row, 1, value if value is None else str(value), "wrap")
        row += 1
    for text in plan.assumptions:
        sheet.put(row, 0, "assumption")
        sheet.put(row, 1, spaced(text), "wrap")
        row += 1
    for mark in chosen.evidence.marks:
        sheet.put(row, 0, "extrapolated")
        sheet.put(row, 1, spaced(f"{mark.subject}: {mark.text}"), "wrap")
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

"""``planner split-map``: where separate prefill and decode pools start to pay, over prompt length and rate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption
from planner.cli.output import console, print_json, table
from planner.cli.questions import read_question
from planner.errors import InputError
from planner.search.headline import sig3
from planner.units import spaced

if TYPE_CHECKING:
    from planner.search.plan_schema import Candidate
    from planner.search.split_map import SplitCell


def split_map_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario YAML, or a plan YAML for its scenario.")],
    lengths: Annotated[str, typer.Option("--lengths", help="Prompt lengths in tokens, separated by commas.")],
    rates: Annotated[str, typer.Option("--rates", help="Requests per second, separated by commas.")],
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare aggregated serving with separate pools over prompt lengths and rates, with what decides in each cell."""
    question = read_question(scenario, catalog)
    from planner.search.split_map import split_map

    tokens = [_whole(part) for part in lengths.split(",")]
    cells = split_map(question.scenario, tokens, [_number(part) for part in rates.split(",")], question.catalog)
    if as_json:
        print_json({"scenario": question.scenario.name, "cells": [document(c) for c in cells]})
        return 0
    out = console()
    out.print(_table(cells))
    for cell in cells:
        text = f"{cell.input_tokens:,} tokens at {sig3(cell.rate_rps)} requests/s: {cell.reason}."
        out.print(text, markup=False, soft_wrap=True)
    return 0


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not 0.0 < found < float("inf"):
        raise InputError("--rates", text, "numbers above 0 separated by commas")
    return found


def _whole(text: str) -> int:
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found < 1:
        raise InputError("--lengths", text, "whole numbers of at least 1 separated by commas")
    return found


def document(cell: SplitCell) -> dict[str, Any]:
    """A cell as JSON: who wins, what it saves, GPUs and cost of both."""
    sides = {"aggregated": cell.aggregated, "disaggregated": cell.disaggregated}
    return {
        "input_tokens": cell.input_tokens,
        "rate_rps": cell.rate_rps,
        "winner": cell.winner,
        "saving": cell.saving,
        "reason": cell.reason,
        **{name: None if c is None else _side(c) for name, c in sides.items()},
    }


def _side(c: Candidate) -> dict[str, Any]:
    from planner.search.split_map import nodes_of

    return {
        "gpus": c.gpus,
        "nodes": nodes_of(c),
        "usd_per_hour": c.usd_per_hour,
        "layout": c.layout.describe(),
    }


def _table(cells: tuple[SplitCell, ...]) -> Any:
    names = {"agg": "together", "disagg": "separate pools", "none": "neither"}
    rows = [
        (
            f"{c.input_tokens:,}",
            sig3(c.rate_rps),
            *_billed(c.aggregated),
            *_billed(c.disaggregated),
            names[c.winner],
            against(c.saving),
        )
        for c in cells
    ]
    sides = [f"{what} {where}" for where in ("together", "in pools") for what in ("GPUs", "nodes", "$/h")]
    head = ("prompt tokens", "requests/s", *sides, "better", "pools cost")
    return table("Prefill and decode together or in separate pools", head, rows)


def _billed(c: Candidate | None) -> tuple[str, str, str]:
    """GPUs, nodes and dollars per hour of one side."""
    from planner.search.split_map import nodes_of

    if c is None:
        return "–", "–", "–"
    nodes = nodes_of(c)
    dollars = "–" if c.usd_per_hour is None else f"{c.usd_per_hour:,.2f}"
    return f"{c.gpus:,}", "–" if nodes is None else f"{nodes:,}", dollars


def against(saving: float | None) -> str:
    """What pools cost against serving together, in words: ``100 % more``."""
    if saving is None:
        return "–"
    if abs(saving) < SAME:
        return "the same"
    return spaced(f"{abs(saving):.0%} {'less' if saving > 0 else 'more'}")


SAME = 0.005
"""Parts of the cost that print as 0 %."""

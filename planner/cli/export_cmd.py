"""``planner export``: a plan as engine launch, Kubernetes manifest or report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import CatalogOption, JsonOption, OutOption
from planner.cli.output import log, print_json, write_text
from planner.cli.questions import catalog_of_plan, read_plan
from planner.export.formats import FORMATS, REPORTS, endings, export_text
from planner.writing import check_ending


def export_command(
    plan: Annotated[Path, typer.Argument(help="Plan YAML, as written by planner plan SCENARIO.yaml --out.")],
    format: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")],
    candidate: Annotated[int, typer.Option("--candidate", min=1, help="Rank of the candidate.")] = 1,
    out: OutOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write one candidate of a plan for an engine, for Kubernetes or for people."""
    if out is not None and format in FORMATS:
        check_ending(out, endings(format), needed=format in REPORTS)
    given = read_plan(plan)
    text = export_text(given, format, candidate, catalog=catalog_of_plan(given, catalog))
    if out is not None:
        write_text(out, text)
        log(f"{format} written to {out}")
    if as_json:
        print_json({"format": format, "candidate": candidate, "out": None if out is None else str(out), "text": text})
    elif out is None:
        print(text, end="")
    return 0

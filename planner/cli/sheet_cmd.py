"""``planner sheet``: a plan as a workbook; ``planner sheet run``: a table of scenarios filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import EXIT_BAD_INPUT, CatalogOption, JsonOption, OutOption
from planner.cli.output import log, print_json
from planner.cli.questions import catalog_of_plan, read_plan
from planner.errors import InputError
from planner.writing import check_ending

WORKBOOK = (".xlsx",)


def sheet_command(
    words: Annotated[
        list[str], typer.Argument(metavar="PLAN.yaml | run IN.xlsx OUT.xlsx | template OUT.xlsx", show_default=False)
    ],
    out: OutOption = None,
    candidate: Annotated[
        int | None, typer.Option("--candidate", min=1, help="Rank of the candidate that the workbook opens on.")
    ] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write a plan as a workbook with live prices, or fill in a workbook of scenarios, one a row."""
    if catalog is not None and words[0] in ("run", "template"):
        raise InputError("--catalog", str(catalog), f"absent: sheet {words[0]} takes the folder in PLANNER_CATALOG_DIR")
    if candidate is not None and words[0] in ("run", "template"):
        raise InputError("--candidate", candidate, f"absent: it is of a plan, sheet {words[0]} has none")
    if words[0] == "run":
        if len(words) != 3:
            raise InputError("sheet run", " ".join(words[1:]), "two files: IN.xlsx OUT.xlsx")
        check_ending(Path(words[2]), WORKBOOK, "sheet run")
        return _run(Path(words[1]), Path(words[2]), as_json)
    if words[0] == "template":
        if len(words) != 2:
            raise InputError("sheet template", " ".join(words[1:]), "one file: OUT.xlsx")
        check_ending(Path(words[1]), WORKBOOK, "sheet template")
        return _template(Path(words[1]), as_json)
    if len(words) != 1 or out is None:
        raise InputError("sheet", " ".join(words), "PLAN.yaml --out PLAN.xlsx, or run IN.xlsx OUT.xlsx")
    check_ending(out, WORKBOOK)
    from planner.export.workbook.plan_book import write_plan_book

    plan = read_plan(Path(words[0]))
    write_plan_book(plan, out, catalog_of_plan(plan, catalog), candidate or 1)
    log(f"workbook written to {out}")
    if as_json:
        print_json({"out": str(out)})
    return 0


def _run(source: Path, target: Path, as_json: bool) -> int:
    """Exit 2 where a row is wrong: the file is written all the same, with the message in the row."""
    from planner.export.workbook.table_book import fill_table
    from planner.sheet.rows import check_once, foreign_columns
    from planner.sheet.table import answer

    left: list[str] = []

    def foreign(columns: list[tuple[str, str]]) -> list[str]:
        check_once(columns)
        left.extend(foreign_columns([name for _, name in columns]))
        if left:
            log(f"left as they are, no columns of a scenario: {', '.join(left)}")
        return left

    counts = fill_table(
        source, target, answer, foreign, lambda done, total, status: log(f"row {done} of {total}: {status}")
    )
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no rows"
    log(f"{target}: {summary}")
    if as_json:
        print_json({"rows": sum(counts.values()), "by_status": counts, "columns_left": left, "out": str(target)})
    return EXIT_BAD_INPUT if counts.get("error") else 0


def _template(target: Path, as_json: bool) -> int:
    from planner.export.workbook.table_book import template
    from planner.sheet.rows import COLUMNS

    example = {
        "name": "chat on H200",
        "model": "deepseek-r1",
        "node": "dgx-h200",
        "engine": "sglang",
        "input_tokens": 1500,
        "output_tokens": 500,
        "rate_rps": 10,
        "tpot_limit_ms": 50,
    }
    template(target, {name: column.meaning for name, column in COLUMNS.items()}, example)
    log(f"table to fill in written to {target}")
    if as_json:
        print_json({"out": str(target)})
    return 0

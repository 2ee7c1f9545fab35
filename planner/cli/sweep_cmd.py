"""``planner sweep``: a grid of scenarios, planned in parallel, to CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.options import EXIT_BAD_INPUT, JsonOption
from planner.cli.output import log, print_json
from planner.errors import InputError


def sweep_command(
    file: Annotated[Path, typer.Argument(help="Grid YAML: base scenario and lists of values by dotted key.")],
    out: Annotated[Path | None, typer.Option("--out", help="CSV or Parquet file; a sweep goes on there.")] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, max=1024, help="Processes; 1 works in this one.")] = 1,
    as_json: JsonOption = False,
) -> int:
    """Plan every combination of a grid; a scenario that fails keeps its row with the reason."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from planner.search.record import Record
    from planner.sweeps.grid import load_grid
    from planner.sweeps.run import sweep

    def told(done: int, total: int, row: Record) -> None:
        log(f"{done} of {total}: {row['status']} {row['name']}")

    def resumed(kept: int, left: int) -> None:
        if kept:
            log(f"{kept:,} kept, {left:,} to plan: {out}")

    def pool() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    scenarios = load_grid(file)
    check_keys(scenarios[0])
    try:
        rows = sweep(scenarios, pool if workers > 1 else None, out, progress=told, kept=resumed)
    except InputError as error:
        if error.field != "out":
            raise
        raise InputError("--out", error.given, error.allowed) from None
    except KeyboardInterrupt:
        if out is not None:
            log(f"stopped; the rows made so far are kept, and the same command goes on from them: {out}")
        raise
    counts: dict[str, int] = {}
    for row in rows:
        counts[str(row["status"])] = counts.get(str(row["status"]), 0) + 1
    if as_json:
        print_json({"rows": rows, "by_status": counts})
    elif out is None:
        from planner.cli.render_sweep import render_sweep

        render_sweep(rows)
    log(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    return EXIT_BAD_INPUT if counts.get("error") or counts.get("lost") else 0


def check_keys(first: dict[str, Any]) -> None:
    """Refuses a grid whose keys no scenario has, before anything is planned; wrong values are left to their rows."""
    from planner.scenario.schema import Scenario

    try:
        Scenario.from_dict(first)
    except InputError as error:
        if error.allowed.startswith("unknown key"):
            raise InputError(f"grid.{error.field.split(': ')[-1]}", error.given, error.allowed) from None

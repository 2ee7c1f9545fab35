"""``planner calibrate``: coefficients from measured profiles, written as data with their residuals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import JsonOption
from planner.cli.output import console, log, print_json
from planner.errors import InputError

app = typer.Typer(help="Fit coefficients from measured profiles.", no_args_is_help=True, rich_markup_mode=None)

MeasuredArgument = Annotated[Path, typer.Argument(help="Folder of measured profiles (holds ops/).")]
OutFolderOption = Annotated[
    Path | None, typer.Option("--out", help="Folder to write the coefficients to; absent only prints the residuals.")
]


@app.command("ops")
def ops_command(measured: MeasuredArgument, out: OutFolderOption = None, as_json: JsonOption = False) -> int:
    """Fit the operator curves from measured/ops and print the residual table."""
    from planner.evidence.ops_calibrate import calibrate_ops, render_table, summary

    fits = calibrate_ops(_folder(measured, "ops"), out)
    if out is not None:
        log(f"coefficients written to {out}")
    if as_json:
        print_json({"kind": "ops", "curves": len(fits), "groups": summary(fits)})
    else:
        console().print(render_table(fits))
    return 0


def _folder(path: Path, part: str) -> Path:
    if not (path / part).is_dir():
        raise InputError("MEASURED", str(path), f"a folder of measured profiles that holds {part}/")
    return path

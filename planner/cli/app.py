"""The application: its commands, and how errors become exit codes.

0 done, 1 output that could not be written, 2 bad input, 3 nothing feasible.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import typer

from planner.cli import (
    calibrate_cmd,
    catalog_cmd,
    compare_cmd,
    estimate_cmd,
    export_cmd,
    memory_cmd,
    plan_cmd,
    replay_cmd,
    schema_cmd,
    sheet_cmd,
    size_cmd,
    split_cmd,
    sweep_cmd,
    usage,
    validate_cmd,
)
from planner.cli.options import EXIT_BAD_INPUT, EXIT_INFEASIBLE, EXIT_NOT_WRITTEN
from planner.cli.output import log, print_json
from planner.errors import InfeasibleError, InputError, PlannerError

app = typer.Typer(
    name="planner",
    help="Capacity planning for LLM inference: which GPUs, how many, in which layout, at what cost, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("plan")(plan_cmd.plan_command)
app.command("size")(size_cmd.size_command)
app.command("split-map")(split_cmd.split_map_command)
app.command("replay")(replay_cmd.replay_command)
app.command("estimate")(estimate_cmd.estimate_command)
app.command("memory")(memory_cmd.memory_command)
app.command("catalog")(catalog_cmd.catalog_command)
app.command("import-model")(catalog_cmd.import_model_command)
app.command("schema")(schema_cmd.schema_command)
app.command("validate")(validate_cmd.validate_command)
app.command("compare")(compare_cmd.compare_command)
app.command("export")(export_cmd.export_command)
app.command("sheet")(sheet_cmd.sheet_command)
app.command("sweep")(sweep_cmd.sweep_command)
app.add_typer(calibrate_cmd.app, name="calibrate")


def main() -> NoReturn:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Runs one command; returns its exit code. Bad input is one sentence on standard error, never a traceback."""
    try:
        code = _run(args)
        sys.stdout.flush()
        return code
    except OSError as error:
        _drop_output()
        if not isinstance(error, BrokenPipeError):  # whoever read the output has enough of it
            what = "standard output" if error.filename is None else error.filename
            log(f"planner: {what}: {error.strerror or error}")
        return EXIT_NOT_WRITTEN


def _drop_output() -> None:
    """Sends the rest of standard output nowhere: Python writes it once more at its end, and would fail again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _run(args: Sequence[str]) -> int:
    as_json = "--json" in args
    try:
        code = typer.main.get_command(app).main(args=list(args), prog_name="planner", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except InfeasibleError as error:
        return _failed(EXIT_INFEASIBLE, str(error), as_json, {"kind": "infeasible"})
    except InputError as error:
        return _refused(error, "input", as_json)
    except PlannerError as error:
        return _failed(EXIT_BAD_INPUT, str(error), as_json, {"kind": "input"})
    except typer.Abort:
        return _failed(EXIT_BAD_INPUT, "stopped", as_json, {"kind": "stopped"})
    except Exception as error:
        # The parser's own usage errors: their class lives in click or in typer, by typer's version.
        if not hasattr(error, "format_message"):
            raise
        named = usage.input_error(error, args)
        if named is not None:
            return _refused(named, "usage", as_json)
        sentence = " ".join(str(error.format_message()).split())
        if not sentence:  # no command given: the help has been printed
            return EXIT_BAD_INPUT
        return _failed(EXIT_BAD_INPUT, sentence, as_json, {"kind": "usage"})


def _refused(error: InputError, kind: str, as_json: bool) -> int:
    details = {"kind": kind, "field": error.field, "given": repr(error.given), "allowed": error.allowed}
    return _failed(EXIT_BAD_INPUT, str(error), as_json, details)


def _failed(code: int, sentence: str, as_json: bool, details: dict[str, Any]) -> int:
    if as_json:
        print_json({"error": {**details, "message": sentence}})
    log(f"planner: {sentence}")
    return code

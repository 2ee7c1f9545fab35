"""``planner calibrate ops|memory|e2e|evidence``: the shipped coefficients from measured profiles, written as data with
their residuals. Without a part it learns from a user's own runs (planner.cli.profile_cmd).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption
from planner.cli.output import console, log, print_json, table, write_text
from planner.cli.profile_cmd import profile_command
from planner.errors import InputError
from planner.search.headline import sig3
from planner.writing import check_target, write_bytes

if TYPE_CHECKING:
    from planner.catalog import Catalog

app = typer.Typer(rich_markup_mode=None)
app.callback(invoke_without_command=True)(profile_command)

MeasuredArgument = Annotated[Path, typer.Argument(help="Folder of measured profiles, as measured/ of the project.")]
OutFolderOption = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder to write the coefficients to (made if it is not there); absent only prints the residuals."
    ),
]
MEASURED = Path("measured")


@app.command("ops")
def ops_command(measured: MeasuredArgument = MEASURED, out: OutFolderOption = None, as_json: JsonOption = False) -> int:
    """Fit the operator curves from MEASURED/ops and print the residual table."""
    from planner.evidence.ops_calibrate import calibrate_ops, render_table, summary

    with _staged(out) as folder:
        fits = calibrate_ops(_holding(measured, "ops"), folder)
    if as_json:
        print_json({"kind": "ops", "curves": len(fits), "groups": summary(fits)})
    else:
        console().print(render_table(fits))
    return 0


@app.command("memory")
def memory_command(
    measured: MeasuredArgument = MEASURED,
    out: OutFolderOption = None,
    engine: Annotated[str, typer.Option("--engine", help="Engine of the runs.")] = "vllm",
    as_json: JsonOption = False,
) -> int:
    """Fit an engine's memory coefficients from MEASURED/memory_runs.csv and print them with their residuals."""
    from planner.evidence.memory_calibrate import calibrate_memory

    _holding(measured, "memory_runs.csv")
    with _staged(out) as folder:
        found = calibrate_memory(measured, folder, engine=engine)
    fitted = found["fitted"]
    if as_json:
        print_json({"kind": "memory", "engine": engine, "fitted": fitted})
        return 0
    eras = [f"from {era['from_version']}" for era in fitted]
    names = [name for name, value in fitted[0].items() if isinstance(value, int | float) and name != "from_version"]
    rows = [(name, *(sig3(era.get(name)) for era in fitted)) for name in names]
    rows += [
        (f"median |residual| {term}, GiB", *(sig3(era["median_abs_residual_gib"].get(term)) for era in fitted))
        for term in fitted[0]["median_abs_residual_gib"]
    ]
    console().print(table(f"Memory coefficients of {engine}", ("", *eras), rows))
    return 0


@app.command("e2e")
def e2e_command(
    measured: MeasuredArgument = MEASURED,
    out: OutFolderOption = None,
    cross_validate: Annotated[
        bool,
        typer.Option("--cross-validate", help="Also predict every run by a fit without it, and fit the intervals."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Markdown page to write the cross-validation to.")
    ] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fit the engines' coefficients from MEASURED/e2e_runs.csv and print their residuals."""
    from planner.catalog import catalog as open_catalog
    from planner.evidence.e2e_calibrate import calibrate_e2e

    _holding(measured, "e2e_runs.csv")
    if report is not None and not cross_validate:
        raise InputError("--report", str(report), "together with --cross-validate, whose results it holds")
    if report is not None:
        check_target(report, "--report")
    held_out: dict[str, Any] = {}
    with _staged(out) as folder:
        document = calibrate_e2e(measured, folder, open_catalog(catalog))
        if cross_validate:
            held_out = _cross_validation(measured, folder, report, document, open_catalog(catalog))
    if as_json:
        print_json({"kind": "e2e", **document, **({"cross_validation": held_out} if held_out else {})})
        return 0
    groups = {"all engines": document["pooled"]["pooled"]}
    for engine, found in document["engines"].items():
        groups[engine] = found["pooled"]
        groups |= {f"{engine} on {generation}": fit for generation, fit in found["generations"].items()}
    metrics = [f"{metric}_{figure}" for metric in ("tpot", "ttft") for figure in ("median_ape", "p90_ape", "bias")]
    rows = [
        (name, f"{fit['runs']:,}", *(_percent(fit["residuals"].get(metric)) for metric in metrics))
        for name, fit in groups.items()
    ]
    columns = ("coefficients of", "runs", *(metric.replace("_", " ") for metric in metrics))
    console().print(table("End-to-end fit: residuals in sample", columns, rows))
    if held_out:
        rows = [
            (name, *(_percent(e[metric][figure]) for metric in ("tpot", "ttft") for figure in _FIGURES))
            for name, e in held_out.items()
        ]
        columns = ("left out", *(f"{metric} {figure}" for metric in ("tpot", "ttft") for figure in _FIGURES))
        console().print(table("Cross-validation: residuals of runs held out of the fit", columns, rows))
    return 0


_FIGURES = ("median_ape", "p90_ape", "bias")


def _cross_validation(
    measured: Path, folder: Path, report: Path | None, document: dict[str, Any], known: Catalog
) -> dict[str, Any]:
    """Errors by scheme; writes intervals.yaml into ``folder`` and the page ``report`` if there is one."""
    from planner.evidence.e2e_crossval import cross_validate, errors, write_intervals
    from planner.evidence.e2e_report import accuracy_markdown
    from planner.evidence.runs import read_runs

    runs = read_runs(measured / "e2e_runs.csv")
    found = cross_validate(runs, known)
    write_intervals(folder, runs, found)
    if report is not None:
        write_text(report, accuracy_markdown(runs, found, document), "--report")
        log(f"cross-validation written to {report}")
    return {scheme: errors(residuals) for scheme, residuals in found.items()}


@app.command("evidence")
def evidence_command(
    measured: MeasuredArgument = MEASURED,
    out: OutFolderOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Predict every run in MEASURED with the coefficients in force, for installations without it; run this last."""
    from planner.catalog import catalog as open_catalog
    from planner.evidence.evidence_table import write_evidence

    _holding(measured, "e2e_runs.csv")
    _holding(measured, "memory_runs.csv")
    with _staged(out) as folder:
        written = {path.name: path.stat().st_size for path in write_evidence(measured, folder, open_catalog(catalog))}
    if as_json:
        print_json({"kind": "evidence", "bytes": written})
    else:
        rows = [(name, f"{size:,}") for name, size in written.items()]
        console().print(table("Runs with their predictions", ("file", "bytes"), rows))
    return 0


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


@contextmanager
def _staged(out: Path | None) -> Iterator[Path]:
    """A scratch folder whose files move to ``out`` at the end, each whole; without ``out`` they are dropped."""
    if out is not None and out.exists() and not out.is_dir():
        raise InputError("--out", str(out), "a folder, there or to be made")
    with tempfile.TemporaryDirectory(prefix="planner-calibrate-") as name:
        yield Path(name)
        if out is not None:
            try:
                out.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError("--out", str(out), f"a folder that can be made ({error.strerror})") from None
            for path in sorted(Path(name).iterdir()):
                write_bytes(out / path.name, path.read_bytes())
            log(f"coefficients written to {out}")


def _holding(path: Path, part: str) -> Path:
    if not (path / part).exists():
        raise InputError("MEASURED", str(path), f"a folder of measured profiles that holds {part}")
    return path

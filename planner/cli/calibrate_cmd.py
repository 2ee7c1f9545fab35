"""``planner calibrate``: coefficients from measured profiles, written as data with their residuals."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption
from planner.cli.output import console, log, print_json, table, write_bytes, write_text
from planner.errors import InputError
from planner.evidence.intervals import NORMAL_SCORE_80
from planner.search.headline import sig3

if TYPE_CHECKING:
    from planner.catalog import Catalog

app = typer.Typer(help="Fit coefficients from measured profiles.", no_args_is_help=True, rich_markup_mode=None)

MeasuredArgument = Annotated[Path, typer.Argument(help="Folder of measured profiles, as measured/ of the project.")]
OutFolderOption = Annotated[
    Path | None, typer.Option("--out", help="Folder to write the coefficients to; absent only prints the residuals.")
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
        write_text(report, accuracy_markdown(runs, found, document))
        log(f"cross-validation written to {report}")
    return {scheme: errors(residuals) for scheme, residuals in found.items()}


@app.command("profile")
def profile_command(
    files: Annotated[list[Path], typer.Argument(help="CSV of your own runs, or result files of benchmark tools.")],
    out: Annotated[Path | None, typer.Option("--out", help="Overlay to write; PLANNER_CATALOG_DIR/profiles/.")] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the profile.")] = "own runs",
    model: Annotated[str | None, typer.Option("--model", help="Model, where a file does not say.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="Accelerator, where a file does not say.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="vllm, sglang or trtllm.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="Precision of the weights.")] = None,
    tp: Annotated[int | None, typer.Option(min=1)] = None,
    pp: Annotated[int | None, typer.Option(min=1)] = None,
    attention_dp: Annotated[int | None, typer.Option(min=1)] = None,
    ep: Annotated[int | None, typer.Option(min=1)] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Learn from your own runs: an overlay that shifts the prediction of their deployment and narrows its interval."""
    from datetime import date

    from planner.catalog import catalog as open_catalog
    from planner.evidence.importers import read_results
    from planner.evidence.importers.to_runs import Given, to_runs
    from planner.evidence.profile_overlay import fit_overlay, overlay_document
    from planner.scenario.safe_yaml import dump_yaml

    known = open_catalog(catalog)
    given = Given(
        model=model, gpu=gpu, engine=engine, precision=precision, tp=tp, pp=pp, attention_dp=attention_dp, ep=ep
    )
    imported = [read_results(path) for path in files]
    converted = to_runs([record for file in imported for record in file.records], given, known)
    for note in (*converted.assumptions, *dict.fromkeys(w for f in imported for r in f.records for w in r.warnings)):
        log(note)
    overlay, left_out = fit_overlay(
        converted.runs,
        known,
        name=name,
        source=", ".join(file.name for file in imported),
        date=date.today().isoformat(),
    )
    document = overlay_document(overlay)
    for reason in filter(None, converted.reasons):
        left_out[reason] = left_out.get(reason, 0) + 1
    if out is not None:
        write_text(out, dump_yaml(document))
        log(f"overlay written to {out}")
    if as_json:
        print_json({"kind": "profile", "left_out": left_out, **document})
        return 0
    rows = [
        (f"{d['model']} on {d['gpu']}, {d['engine']}", metric, str(s["runs"]), *_shift_cells(s))
        for d in document["deployments"]
        for metric, s in d["metrics"].items()
    ]
    columns = ("deployment", "metric", "runs", "measured / predicted", "factor taken", "80 % interval", "without")
    console().print(table("Profile", columns, rows, text=2))
    for reason, count in left_out.items():
        console().print(f"  {count} × {reason}", markup=False, soft_wrap=True)
    return 0


def _shift_cells(shift: dict[str, float]) -> tuple[str, ...]:
    """Observed ratio, factor taken, half-width of the 80 % interval with and without the runs."""
    widths = (math.expm1(NORMAL_SCORE_80 * shift[k]) for k in ("log_spread", "prior_log_spread"))
    return (
        f"{shift['median_ratio']:.2f}",
        f"{math.exp(shift['log_shift']):.2f}",
        *(f"± {100 * w:.0f} %" for w in widths),
    )


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
    if out is not None and not out.is_dir():
        raise InputError("--out", str(out), "a folder that exists")
    with tempfile.TemporaryDirectory(prefix="planner-calibrate-") as name:
        yield Path(name)
        if out is not None:
            for path in sorted(Path(name).iterdir()):
                write_bytes(out / path.name, path.read_bytes())
            log(f"coefficients written to {out}")


def _holding(path: Path, part: str) -> Path:
    if not (path / part).exists():
        raise InputError("MEASURED", str(path), f"a folder of measured profiles that holds {part}")
    return path

"""``planner validate``: predicted against measured, for a table recognised by its columns."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.given import (
    ConcurrencyOption,
    EngineOption,
    EngineVersionOption,
    GpuOption,
    ModelOption,
    PrecisionOption,
    RanksOption,
)
from planner.cli.options import EXIT_BAD_INPUT, CatalogOption, JsonOption
from planner.cli.output import console, log, print_json, table, write_text
from planner.errors import InputError
from planner.writing import check_ending, check_target

if TYPE_CHECKING:
    from rich.console import Console

    from planner.catalog import Catalog
    from planner.evidence.importers.to_runs import Given


def validate_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV of runs, start-up memory or operator latencies, a benchmark tool's result file, a start-up "
            "log, or a YAML list of start-ups or published points."
        ),
    ],
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="CSV to write, one row a run: measured, predicted, interval.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option("--models", help="Folder of further models: specification YAML or config.json files.")
    ] = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    engine: EngineOption = None,
    engine_version: EngineVersionOption = None,
    precision: PrecisionOption = None,
    concurrency: ConcurrencyOption = None,
    tp: RanksOption = None,
    pp: RanksOption = None,
    attention_dp: RanksOption = None,
    moe_tp: RanksOption = None,
    ep: RanksOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Predict every run of a file and print the errors, overall and by group.

    A result file of vllm bench serve, sglang.bench_serving, GuideLLM, GenAI-Perf, AIPerf, trtllm-bench, inference-perf,
    llm-d-benchmark or InferenceX is recognised by its content; what it does not state (accelerator, engine, layout) is
    given by options. A start-up log is compared with the memory budget term by term, a table of operator latencies with
    the curves that a plan takes for its accelerator and engine.
    """
    from planner.evidence.importers.to_runs import Given

    if predictions is not None:
        check_ending(predictions, (".csv",), "--predictions", needed=False)
        check_target(predictions, "--predictions")
    kind = profile_kind(file)
    given = Given(
        model=model,
        gpu=gpu,
        engine=engine,
        engine_version=engine_version,
        precision=precision,
        concurrency=concurrency,
        tp=tp,
        pp=pp,
        attention_dp=attention_dp,
        moe_tp=moe_tp,
        ep=ep,
    )
    if given != Given() and kind == "e2e":
        kind = "results"  # read row by row, as a tool's report: options stand in for its columns, aloud
    if given != Given() and kind not in ("results", "log"):
        raise InputError("--model, --gpu, --tp ...", file.name, "options only for runs and logs; it states its own")
    with catalog_with_models(models, catalog) as known:
        document = _validated(kind, file, given, known)
    made = document.pop("predictions", [])
    rows = [_flat(row) for row in made]
    if predictions is not None:
        write_text(predictions, csv_text(rows), "--predictions")
        log(f"{len(rows)} predictions written to {predictions}")
    if as_json:
        print_json(document)
    else:
        _render(console(), document, made)
    return _judged(file, document)


def _judged(file: Path, document: Mapping[str, Any]) -> int:
    """The exit code: 2, with one sentence, where nothing in the file could be predicted."""
    if document["predicted"]:
        return 0
    count, failed = document["rows"], document["failed"]
    if not count:
        log(f"planner: {file.name}: no rows under its header; at least one run")
        return EXIT_BAD_INPUT
    more = f" and {len(failed) - 1} other reasons" if len(failed) > 1 else ""
    why = next(iter(failed), "no reason is stated")
    log(f"planner: {file.name}: none of {count} rows could be predicted: {why}{more}")
    return EXIT_BAD_INPUT


def profile_kind(file: Path) -> str:
    """What kind of measurements a file holds (planner.evidence.recognise); raises InputError where it holds none."""
    from planner.evidence.recognise import kind_of

    return kind_of(file)


def _validated(kind: str, file: Path, given: Given, known: Catalog) -> dict[str, Any]:
    """The report of a file, its rows under ``predictions``."""
    if kind == "memory":
        from planner.evidence.memory_table import read_rows
        from planner.evidence.memory_validate import validate_memory

        return validate_memory(read_rows(file), known)
    if kind == "results":
        from planner.evidence.importers import read_results
        from planner.evidence.importers.report import validate_results

        return validate_results(read_results(file), given, known)
    if kind == "log":
        from planner.evidence.log_report import validate_log
        from planner.evidence.logs import read_log

        return validate_log(read_log(file), given, known)
    if kind == "operators":
        from planner.evidence.ops_validate import read_operators, validate_operators

        return validate_operators(read_operators(file), known)
    if kind == "memory_logs":
        from planner.evidence.memory_logs import read_logs, validate_logs

        return validate_logs(read_logs(file), known)
    if kind == "published":
        from planner.evidence.published import read_points, validate_published

        return validate_published(read_points(file), known)
    from planner.evidence.e2e_validate import validate_e2e
    from planner.evidence.runs import read_runs

    return validate_e2e(read_runs(file), known)


@contextmanager
def catalog_with_models(models: Path | None, overlay: Path | None) -> Iterator[Catalog]:
    """The catalogue with the files of a plain folder as further models, over a user's overlay if there is one.

    Files are specifications in YAML, or Hugging Face configurations in JSON.
    """
    from planner.catalog import catalog as open_catalog
    from planner.catalog import load_model
    from planner.catalog.loader import Catalog
    from planner.scenario.safe_yaml import dump_yaml

    if models is None:
        yield open_catalog(overlay)
        return
    if not models.is_dir():
        raise InputError("--models", str(models), "a folder that exists")
    below = open_catalog(overlay).user_dir
    with tempfile.TemporaryDirectory(prefix="planner-models-") as name:
        joined = Path(name)
        own = joined / "models"
        own.mkdir()
        folders = [models]
        if below is not None:
            folders = [p for p in (below / "model_specs", below / "models") if p.is_dir()] + [models]
            for entry in below.iterdir():
                if entry.name not in ("models", "model_specs"):
                    (joined / entry.name).symlink_to(entry.resolve())
        linked: dict[str, Path] = {}
        for path in (p for folder in folders for p in sorted(folder.iterdir()) if p.suffix in MODEL_FILES):
            spec = load_model(path)
            if spec.id in linked and linked[spec.id].parent == path.parent:
                raise InputError(f"{path}: id", spec.id, f"an id of its own: {linked[spec.id].name} has this one")
            linked[spec.id] = path
            text = dump_yaml(spec.model_dump(mode="json", exclude_none=True))
            (own / f"{spec.id}.yaml").write_text(text, encoding="utf-8")
        yield Catalog(joined)


MODEL_FILES = (".yaml", ".yml", ".json")


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A prediction as one line of a table: nested mappings become ``measured_<metric>``, ``predicted_<metric>``."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            out |= {f"{key}_{name}": number for name, number in value.items()}
        else:
            out[key] = value
    return out


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV of mappings; columns in order of appearance, missing numbers are empty cells."""
    out = io.StringIO()
    names = list(dict.fromkeys(key for row in rows for key in row)) or ["run_id"]
    writer = csv.DictWriter(out, fieldnames=names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _render(out: Console, document: Mapping[str, Any], made: Sequence[Mapping[str, Any]]) -> None:
    out.print(f"{document['kind']}: {document['predicted']} of {document['rows']} rows predicted", style="bold")
    for reason, count in document["failed"].items():
        out.print(f"  {count} × {reason}", markup=False, soft_wrap=True)
    for label, found in (
        ("read", document.get("warnings", {})),
        ("taken", dict.fromkeys(document.get("assumptions", ()))),
    ):
        for text, count in found.items():
            out.print(
                f"  {label}{'' if count in (None, 1) else f' ({count} runs)'}: {text}", markup=False, soft_wrap=True
            )
    if document["kind"] == "memory_log":
        _render_log(out, document)
    elif document["kind"] == "published":
        _render_published(out, document)
    elif document["kind"] == "e2e" and document["metrics"] and len(made) <= FEW_RUNS:
        out.print(
            table("Runs", ("run", "metric", "measured", "predicted", "ratio", "80 % interval"), _runs(made), text=2)
        )
    elif document["metrics"]:
        out.print(table("Errors", _COLUMNS, _metric_rows("", document["metrics"]), text=2))
        groups = [row for g in document["groups"] for row in _metric_rows(f"{g['group']} = {g['value']}", g["metrics"])]
        if groups:
            out.print(table("By group", _COLUMNS, groups, text=2))
        if document["kind"] in ("memory", "memory_logs"):
            _render_memory(out, document)
        elif document.get("worst"):
            columns = ("row", "what", "measured to predicted", "largest terms of its steps, ms")
            worst = [_worst(row) for row in document["worst"]]
            shown = len(columns) if any(row[-1] for row in worst) else len(columns) - 1
            out.print(table("Worst rows", columns[:shown], [row[:shown] for row in worst], text=shown))


RUN_METRICS = ("ttft_ms", "tpot_ms", "output_tokens_per_s")
FEW_RUNS = 30
"""Up to this many runs are listed one by one."""


def _runs(made: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[str]]:
    """Measured and predicted of each run, a line a metric."""
    for row in made:
        for metric in RUN_METRICS:
            measured, predicted = row.get(f"measured_{metric}"), row.get(f"predicted_{metric}")
            if measured is None or predicted is None:
                continue
            bounds = (f"{row[f'{bound}_{metric}']:,.4g}" for bound in ("low80", "high80"))
            ratio = f"{predicted / measured:.2f}"
            yield row["run_id"], metric, f"{measured:,.4g}", f"{predicted:,.4g}", ratio, " to ".join(bounds)


def _worst(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """A row that is far off: what it was, its figures, and where the predicted time goes."""
    what = " ".join(str(row[k]) for k in ("model", "operator", "gpu", "engine", "serving") if row.get(k))
    if row.get("concurrency"):
        what += f", {row['concurrency']:g} in flight"
    figures = [
        f"{metric.replace('_', ' ')} {row[f'measured_{metric}']:,.4g} → {row[f'predicted_{metric}']:,.4g}"
        for metric in (*RUN_METRICS, "latency_us")
        if row.get(f"measured_{metric}") is not None and row.get(f"predicted_{metric}") is not None
    ]
    parts = sorted(row.get("breakdown_ms", {}).items(), key=lambda part: -part[1])[:WORST_TERMS]
    terms = ", ".join(f"{name.replace('_', ' ')} {ms:,.3g}" for name, ms in parts)
    return str(row.get("run_id", "")), what, "; ".join(figures), terms


WORST_TERMS = 3


def _render_memory(out: Console, document: Mapping[str, Any]) -> None:
    """What the budget says of starts that failed, and the start-ups furthest off with their terms."""
    told = document.get("failures", {})
    if told.get("memory_failures"):
        out.print(f"Starts that failed for lack of memory: {told['memory_failures']}, {told['predicted']} predicted.")
    for label, key in (("not predicted", "missed"), ("predicted to fail but ran", "wrongly_refused")):
        names = told.get(key, ())
        for name in names:
            out.print(f"  {label}: {name}", markup=False, soft_wrap=True)
    rows = []
    for row in document["worst"]:
        version = f" {row['engine_version']}" if row["engine_version"] else ""
        figure = f"{row['metric'].replace('_', ' ')} {row['measured']:,.4g} → {row['predicted']:,.4g}"
        terms = [
            f"{name.removesuffix('_gib').replace('_', ' ')} {a:,.4g} → {b:,.4g}"
            for name, (a, b) in row["terms"].items()
        ]
        what = " ".join(filter(None, (row["model"], row["gpu"], row["layout"]))) + version
        rows.append((row["run_id"], what, figure, "; ".join(terms[:WORST_TERMS])))
    if rows:
        out.print(table("Worst rows", ("row", "what", "measured to predicted", "terms most off, GiB"), rows, text=4))


def _render_log(out: Console, document: Mapping[str, Any]) -> None:
    from planner.evidence.log_report import lines

    engine = " ".join(filter(None, (document["engine"], document["engine_version"])))
    out.print(f"{engine}, {document['model'] or 'model not named'}")
    if document["refusal"]:
        out.print(f"The engine did not start: {document['refusal']}", markup=False, soft_wrap=True)
        told = {None: "makes no prediction", True: "expected it to fit", False: "expects the refusal"}
        out.print(f"The budget {told[document['predicted_fits']]}.")
    for note in document["notes"]:
        out.print(f"  {note}", markup=False, soft_wrap=True)
    if document["terms"]:
        out.print(table("Memory of the tightest rank", ("term", "log", "budget", "difference"), lines(document)))


def _render_published(out: Console, document: Mapping[str, Any]) -> None:
    columns = ("figure", "values", "median ratio", "median factor off", "P90 factor off")
    rows = [
        (name, str(m["points"]), *(f"{m[k]:.2f}" for k in ("median_ratio", "median_factor", "p90_factor")))
        for name, m in document["metrics"].items()
    ]
    out.print(table("Published points: predicted over published", columns, rows))
    points = [
        (p["id"], p["subject"], p["figure"], f"{p['published']:,.4g}", f"{p['predicted']:,.4g}", f"{p['ratio']:.2f}")
        for p in document["points"]
    ]
    out.print(table(None, ("point", "what", "figure", "published", "predicted", "ratio"), points, text=3))


_COLUMNS = ("group", "metric", "rows", "median APE", "mean APE", "P90 APE", "bias", "80 % interval covers")


def _metric_rows(group: str, metrics: Mapping[str, Mapping[str, float]]) -> Iterable[Sequence[str]]:
    for metric, m in metrics.items():
        shares = (m.get(k) for k in ("median_ape", "mean_ape", "p90_ape", "bias", "interval80_coverage"))
        yield (group, metric, str(m.get("points", "")), *("–" if v is None else f"{100 * v:.1f} %" for v in shares))

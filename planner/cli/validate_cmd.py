"""``planner validate``: predicted against measured, for a table recognised by its columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption
from planner.cli.output import console, log, print_json, table, write_text
from planner.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

MEMORY_COLUMNS = ("weights_gib", "available_kv_gib", "kv_cache_tokens")
MAX_PROFILE_BYTES = 512 << 20


def validate_command(
    file: Annotated[Path, typer.Argument(help="CSV of end-to-end runs or of memory runs.")],
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="CSV to write, one row a run: measured, predicted, interval.")
    ] = None,
    models: Annotated[Path | None, typer.Option("--models", help="Folder of further model YAML.")] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Predict every run of a table and print the errors, overall and by group."""
    kind = profile_kind(file)
    if models is not None and not models.is_dir():
        raise InputError("--models", str(models), "a folder that exists")
    document, rows = _validated(kind, file, models, catalog)
    if predictions is not None:
        write_text(predictions, csv_text(rows))
        log(f"{len(rows)} predictions written to {predictions}")
    if as_json:
        print_json(document)
    else:
        _render(console(), document)
    return 0


def profile_kind(file: Path) -> str:
    """``memory`` or ``e2e`` by the columns of a CSV file; raises InputError where they are neither."""
    from planner.evidence.runs import REQUIRED, is_end_to_end
    from planner.scenario.load import read_text

    text = read_text(file, MAX_PROFILE_BYTES)
    header = next(csv.reader(io.StringIO(text[: text.find("\n") + 1] or text)), [])
    if set(header) >= set(MEMORY_COLUMNS):
        return "memory"
    if is_end_to_end(header):
        return "e2e"
    wanted = f"columns {', '.join(REQUIRED)} and ttft_ms or tpot_ms; or {', '.join(MEMORY_COLUMNS)}"
    raise InputError(file.name, ", ".join(header[:12]) or "no header", f"needs {wanted}")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV of mappings with the same keys; missing numbers are empty cells."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else ["run_id"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _render(out: Console, document: Mapping[str, Any]) -> None:
    out.print(f"{document['kind']}: {document['predicted']} of {document['rows']} rows predicted", style="bold")
    for reason, count in document["failed"].items():
        out.print(f"  {count} × {reason}", markup=False)
    out.print(table("Errors", _COLUMNS, _metric_rows("", document["metrics"]), text=2))
    groups = [
        row for g in document["groups"] for row in _metric_rows(f"{g.get('by', '')} {g.get('name', '')}", g["metrics"])
    ]
    if groups:
        out.print(table("By group", _COLUMNS, groups, text=2))


_COLUMNS = ("group", "metric", "rows", "median APE", "mean APE", "P90 APE", "bias", "80 % interval covers")


def _metric_rows(group: str, metrics: Mapping[str, Mapping[str, float]]) -> Iterable[Sequence[str]]:
    for metric, m in metrics.items():
        shares = (m.get(k) for k in ("median_ape", "mean_ape", "p90_ape", "bias", "interval80_coverage"))
        yield (group, metric, str(m.get("rows", "")), *("–" if v is None else f"{100 * v:.1f} %" for v in shares))

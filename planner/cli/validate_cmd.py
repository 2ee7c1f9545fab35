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

from planner.cli.options import CatalogOption, JsonOption
from planner.cli.output import console, log, print_json, table, write_text
from planner.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from planner.catalog import Catalog

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
    with catalog_with_models(models, catalog) as known:
        document = _validated(kind, file, known)
    rows = [_flat(row) for row in document.pop("predictions")]
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
    from planner.evidence.memory_table import COLUMNS, is_memory_table
    from planner.evidence.runs import REQUIRED, is_end_to_end
    from planner.scenario.load import read_text

    text = read_text(file, MAX_PROFILE_BYTES)
    header = next(csv.reader(io.StringIO(text[: text.find("\n") + 1] or text)), [])
    if is_memory_table(header):
        return "memory"
    if is_end_to_end(header):
        return "e2e"
    wanted = f"columns {', '.join(REQUIRED)} and ttft_ms or tpot_ms; or {', '.join(COLUMNS)}"
    raise InputError(file.name, ", ".join(header[:12]) or "no header", f"needs {wanted}")


def _validated(kind: str, file: Path, known: Catalog) -> dict[str, Any]:
    """The report of a table, its rows under ``predictions``."""
    if kind == "memory":
        from planner.evidence.memory_table import read_rows
        from planner.evidence.memory_validate import validate_memory

        return validate_memory(read_rows(file), known)
    from planner.evidence.e2e_validate import validate_e2e
    from planner.evidence.runs import read_runs

    return validate_e2e(read_runs(file), known)


@contextmanager
def catalog_with_models(models: Path | None, overlay: Path | None) -> Iterator[Catalog]:
    """The catalogue with the YAML files of a plain folder as further models, over a user's overlay if there is one."""
    from planner.catalog import catalog as open_catalog
    from planner.catalog.loader import Catalog

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
            folders = [below / "model_specs", below / "models", models]
            for entry in below.iterdir():
                if entry.name not in ("models", "model_specs"):
                    (joined / entry.name).symlink_to(entry.resolve())
        for path in (p for folder in folders for p in sorted(folder.glob("*.y*ml"))):
            (own / path.name).unlink(missing_ok=True)
            (own / path.name).symlink_to(path.resolve())
        yield Catalog(joined)


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


def _render(out: Console, document: Mapping[str, Any]) -> None:
    out.print(f"{document['kind']}: {document['predicted']} of {document['rows']} rows predicted", style="bold")
    for reason, count in document["failed"].items():
        out.print(f"  {count} × {reason}", markup=False, soft_wrap=True)
    out.print(table("Errors", _COLUMNS, _metric_rows("", document["metrics"]), text=2))
    groups = [row for g in document["groups"] for row in _metric_rows(f"{g['group']} = {g['value']}", g["metrics"])]
    if groups:
        out.print(table("By group", _COLUMNS, groups, text=2))


_COLUMNS = ("group", "metric", "rows", "median APE", "mean APE", "P90 APE", "bias", "80 % interval covers")


def _metric_rows(group: str, metrics: Mapping[str, Mapping[str, float]]) -> Iterable[Sequence[str]]:
    for metric, m in metrics.items():
        shares = (m.get(k) for k in ("median_ape", "mean_ape", "p90_ape", "bias", "interval80_coverage"))
        yield (group, metric, str(m.get("points", "")), *("–" if v is None else f"{100 * v:.1f} %" for v in shares))

"""``planner calibrate --profile FILE``: a user's own runs become an overlay of the catalogue."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.given import EngineOption, GpuOption, ModelOption, PrecisionOption, RanksOption
from planner.cli.options import CatalogOption, JsonOption
from planner.cli.output import console, log, print_json, table, write_text
from planner.errors import InputError
from planner.evidence.intervals import NORMAL_SCORE_80
from planner.writing import check_target

PARTS = "ops, memory, e2e or evidence"
YAML = (".yaml", ".yml")


def profile_command(
    context: typer.Context,
    profile: Annotated[
        list[Path] | None,
        typer.Option("--profile", help="CSV of your own runs, or a benchmark tool's result file; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Overlay to write: a .yaml file, or a catalogue folder (made if it is not there)."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the profile.")] = "own runs",
    model: ModelOption = None,
    gpu: GpuOption = None,
    engine: EngineOption = None,
    precision: PrecisionOption = None,
    tp: RanksOption = None,
    pp: RanksOption = None,
    attention_dp: RanksOption = None,
    moe_tp: RanksOption = None,
    ep: RanksOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Learn from your own runs, or fit the shipped coefficients anew (with a part below).

    With --profile: an overlay that shifts the prediction of the deployment it was measured on, gives it the interval
    that your runs show (narrower where they agree, wider where they scatter) and leaves everything else alone. Use it
    with --catalog FOLDER, or put the file into profiles/ of your catalogue.
    """
    from planner.evidence.importers.to_runs import Given

    given = Given(
        model=model,
        gpu=gpu,
        engine=engine,
        precision=precision,
        tp=tp,
        pp=pp,
        attention_dp=attention_dp,
        moe_tp=moe_tp,
        ep=ep,
    )
    if context.invoked_subcommand is not None:
        if profile or out or given != Given() or catalog or as_json:
            part = context.invoked_subcommand
            raise InputError(f"planner calibrate {part}", "options before it", f"its options behind {part}")
        return 0
    if not profile:
        allowed = f"--profile FILE (your own runs), or a part to fit anew from measured profiles: {PARTS}"
        raise InputError("planner calibrate", "nothing to learn from", allowed)
    return _learn(profile, out, name, given, catalog, as_json)


def _learn(files: list[Path], out: Path | None, name: str, given: Any, catalog: Path | None, as_json: bool) -> int:
    from datetime import date

    from planner.catalog import catalog as open_catalog
    from planner.evidence.importers import read_results
    from planner.evidence.importers.to_runs import to_runs
    from planner.evidence.profile_check import check_shifts
    from planner.evidence.profile_overlay import fit_overlay, overlay_document
    from planner.scenario.safe_yaml import dump_yaml

    known = open_catalog(catalog)
    target = None if out is None else _target(out, name)
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
    for note in check_shifts(overlay):
        log(note)
    document = overlay_document(overlay)
    for reason in filter(None, converted.reasons):
        left_out[reason] = left_out.get(reason, 0) + 1
    if target is not None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("--out", str(out), f"a folder that can be made ({error.strerror})") from None
        write_text(target, dump_yaml(document))
        used = f"; use it with --catalog {out}" if target != out else "; put it into profiles/ of a catalogue folder"
        log(f"overlay written to {target}{used}")
    if as_json:
        print_json({"kind": "profile", "left_out": left_out, **document})
        return 0
    columns = ("deployment", "metric", "runs", "measured / predicted", "factor taken", "80 % interval", "without")
    console().print(table("Profile", columns, _rows(document), text=2))
    for reason, count in left_out.items():
        console().print(f"  {count} × {reason}", markup=False, soft_wrap=True)
    return 0


def _target(out: Path, name: str) -> Path:
    """The file to write: ``out`` itself, or one named after the profile in the folder of profiles of a catalogue."""
    from planner.evidence.profile_overlay import FOLDER

    if out.suffix.lower() in YAML:
        check_target(out)
        return out
    if out.exists() and not out.is_dir():
        raise InputError("--out", str(out), "a .yaml file or a catalogue folder")
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    return out / FOLDER / f"{slug or 'own-runs'}.yaml"


def _rows(document: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    """Observed ratio, factor taken, half-width of the 80 % interval with and without the runs, a line a metric."""
    for d in document["deployments"]:
        for metric, s in d["metrics"].items():
            widths = (math.expm1(NORMAL_SCORE_80 * s[k]) for k in ("log_spread", "prior_log_spread"))
            yield (
                f"{d['model']} on {d['gpu']}, {d['engine']}",
                metric,
                str(s["runs"]),
                f"{s['median_ratio']:.2f}",
                f"{math.exp(s['log_shift']):.2f}",
                *(f"± {100 * w:.0f} %" for w in widths),
            )

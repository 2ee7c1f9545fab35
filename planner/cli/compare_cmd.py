"""``planner compare``: what two plans are results of, before their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import JsonOption
from planner.cli.output import console, print_json, table
from planner.cli.questions import read_plan
from planner.search.headline import headline, sig3

if TYPE_CHECKING:
    from planner.search.plan_schema import Plan

NUMBERS = (
    *("gpus", "replicas", "ttft_ms.mean", "tpot_ms.mean", "goodput_rps", "output_tokens_per_s_per_gpu"),
    *("concurrency", "usd_per_hour", "usd_per_mtok.output", "joules_per_token", "memory_gib.kv"),
)


def compare_command(
    a: Annotated[Path, typer.Argument(help="Plan YAML.")],
    b: Annotated[Path, typer.Argument(help="Another plan YAML.")],
    as_json: JsonOption = False,
) -> int:
    """Show how two plans differ: identity tuple, versions and scenario first, then the numbers."""
    document = comparison(read_plan(a), read_plan(b))
    if as_json:
        print_json(document)
        return 0
    out = console()
    for side, path in (("a", a), ("b", b)):
        out.print(f"{side} = {path.name}: {document['answer'][side]}", markup=False, soft_wrap=True)
    for title, key in (
        ("Identity tuple", "identity_difference"),
        ("Versions", "version_difference"),
        ("Scenario", "scenario_difference"),
    ):
        rows = [(name, _text(d["a"]), _text(d["b"])) for name, d in document[key].items()]
        if rows:
            out.print(table(f"{title}: differs", ("field", "a", "b"), rows, text=3))
        else:
            out.print(f"{title}: the same", style="bold")
    numbers = [
        (name, sig3(d["a"]), sig3(d["b"]), "–" if d["b_over_a"] is None else f"{d['b_over_a']:.3f}")
        for name, d in document["numbers"].items()
    ]
    out.print(table("Numbers of the first candidate", ("", "a", "b", "b / a"), numbers))
    return 0


def comparison(a: Plan, b: Plan) -> dict[str, Any]:
    """Differences of identity, versions and scenario, and the first candidates' numbers side by side."""
    from planner.scenario.differences import differences, flat
    from planner.scenario.identity import identity_difference

    sides = [flat(p.best.model_dump(mode="json")) if p.best is not None else {} for p in (a, b)]
    numbers = {}
    for name in NUMBERS:
        left, right = sides[0].get(name), sides[1].get(name)
        ratio = right / left if left and right is not None else None
        numbers[name] = {"a": left, "b": right, "b_over_a": ratio}
    return {
        "answer": {"a": headline(a), "b": headline(b)},
        "identity_difference": _sides(identity_difference(a.identity, b.identity)),
        "version_difference": _sides(differences(a.versions.model_dump(), b.versions.model_dump())),
        "scenario_difference": _sides(differences(flat(a.scenario.to_dict()), flat(b.scenario.to_dict()))),
        "numbers": numbers,
    }


def _sides(found: dict[str, tuple[Any, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {"a": left, "b": right} for name, (left, right) in found.items()}


def _text(value: Any) -> str:
    return "–" if value is None else str(value)

"""What a command is asked: the scenario of a scenario or plan file, with the catalogue that its names stand in.

Hardware of one's own that the file carries under ``catalogue:`` is laid over the catalogue for as long as the command
runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.catalog import Catalog
from planner.catalog import catalog as open_catalog
from planner.catalog.validation import validate
from planner.cli.output import log
from planner.errors import InputError
from planner.scenario.own_hardware import ID, SCHEMAS, Entries, laid_over, plain

if TYPE_CHECKING:
    from planner.scenario.schema import Scenario
    from planner.search.plan_schema import Plan


@dataclass(frozen=True)
class Question:
    """A scenario whose names ``catalog`` knows."""

    scenario: Scenario
    catalog: Catalog
    carried: Entries
    """Hardware that came with the file."""
    plan: Plan | None
    """The plan whose scenario it is; None for a scenario file."""


def read_question(path: Path, folder: Path | None) -> Question:
    """The question in a scenario file, or that of a plan file, told apart by their ``schema`` key.

    ``folder`` is that of --catalog. Raises InputError for a file that is neither, and for names nobody knows.
    """
    from planner.scenario.load import check_names, load_carrying
    from planner.search.plan_schema import Plan

    text = _text(path)
    plan = Plan.from_yaml(f"{text}\n", str(path)) if _schema_of(text).startswith("planner.plan/") else None
    scenario, carried = load_carrying(path, text) if plan is None else (plan.scenario, _entries(plan))
    known = catalog_of(carried, folder)
    check_names(scenario, known)
    return Question(scenario, known, carried, plan)


def is_question(path: Path) -> bool:
    """Whether ``path`` is a scenario or plan file, told by its ``schema`` key."""
    return path.is_file() and _schema_of(_text(path)).startswith(("planner.scenario/", "planner.plan/"))


def read_plan(path: Path) -> Plan:
    """The plan in a YAML file; a scenario in its place gets a sentence of its own."""
    from planner.search.plan_schema import Plan

    text = _text(path)
    if _schema_of(text).startswith("planner.scenario/"):
        raise InputError(str(path), "a scenario", "a plan file, as written by planner plan SCENARIO.yaml --out")
    return Plan.from_yaml(f"{text}\n", str(path))


def catalog_of_plan(plan: Plan, folder: Path | None) -> Catalog:
    """:func:`catalog_of` what ``plan`` carries."""
    return catalog_of(_entries(plan), folder)


def catalog_of(carried: Entries, folder: Path | None) -> Catalog:
    """The catalogue (``folder`` as in --catalog) with what a file carries, and says so on standard error.

    Raises InputError for an entry that is none, or that the catalogue has otherwise under the same name.
    """
    known = open_catalog(folder)
    new = _new(carried, known)
    if not any(new.values()):
        return known
    names = ", ".join(f"{kind} {id}" for kind, members in new.items() for id in members)
    log(f"hardware that the file carries: {names}")
    return laid_over(new, known.user_dir)


def _entries(plan: Plan) -> Entries:
    return {str(kind): dict(members) for kind, members in (plan.catalogue or {}).items()}


def _new(carried: Entries, known: Catalog) -> dict[str, dict[str, Any]]:
    """The entries that ``known`` lacks."""
    out: dict[str, dict[str, Any]] = {kind: {} for kind in SCHEMAS}
    for kind, members in carried.items():
        there = {"accelerator": known.accelerator_ids, "node": known.node_ids}[kind]()
        for id, data in members.items():
            where = f"catalogue.{kind}.{id}"
            if not ID.fullmatch(id):
                raise InputError(where, id, "small letters, digits, dots and dashes, at most 64")
            entry = validate(SCHEMAS[kind], {**data, "id": id}, where)
            if id not in there:
                out[kind][id] = plain(entry)
            elif entry != (known.accelerator(id) if kind == "accelerator" else known.node(id)):
                raise InputError(where, id, "another name: the catalogue has one of this name that is not the same")
    return out


def _text(path: Path) -> str:
    """What a file holds, read once: a pipe gives it no second time."""
    from planner.scenario.load import read_text
    from planner.scenario.safe_yaml import MAX_PLAN_BYTES

    return read_text(path, MAX_PLAN_BYTES)


def _schema_of(text: str) -> str:
    """Value of the top-level ``schema`` key among the first lines of a file; empty where there is none."""
    for line in text.splitlines()[:200]:
        key, _, value = line.partition(":")
        if key.strip("\"'") == "schema":
            return value.split("#")[0].strip().strip("\"'")
    return ""

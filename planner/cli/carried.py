"""Hardware that a plan file carries along: laid over the catalogue for as long as the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.catalog import Catalog
from planner.catalog import catalog as open_catalog
from planner.catalog.validation import validate
from planner.cli.output import log
from planner.errors import InputError
from planner.scenario.own_hardware import ID, SCHEMAS, laid_over, plain

if TYPE_CHECKING:
    from planner.search.plan_schema import Plan


def names(plan: Plan) -> str:
    """The entries that ``plan`` carries, in words; empty where there are none."""
    return ", ".join(f"{kind} {id}" for kind, members in (plan.catalogue or {}).items() for id in members)


def catalog_of(plan: Plan, folder: Path | None) -> Catalog:
    """The catalogue (``folder`` as in --catalog) with what ``plan`` carries, and says so on standard error.

    Raises InputError for an entry that is none, or that the catalogue has otherwise under the same name.
    """
    known = open_catalog(folder)
    new = _new(plan, known)
    if not any(new.values()):
        return known
    log(f"hardware of the plan file's own: {names(plan)}")
    return laid_over(new, known.user_dir)


def _new(plan: Plan, known: Catalog) -> dict[str, dict[str, Any]]:
    """The entries that ``known`` lacks."""
    out: dict[str, dict[str, Any]] = {kind: {} for kind in SCHEMAS}
    for kind, members in (plan.catalogue or {}).items():
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

"""Hardware that a plan file carries along: laid over the catalogue for as long as the command runs."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.catalog import Catalog
from planner.catalog import catalog as open_catalog
from planner.catalog.hardware_spec import Accelerator, Node
from planner.catalog.validation import validate
from planner.cli.output import log
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.search.plan_schema import Plan

SCHEMAS: Mapping[str, type[Accelerator] | type[Node]] = {"accelerator": Accelerator, "node": Node}
FOLDERS = {"accelerator": "accelerators", "node": "nodes"}
ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


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
    from planner.scenario.safe_yaml import dump_yaml

    root = tempfile.TemporaryDirectory(prefix="planner-plan-")
    if known.user_dir is not None:
        shutil.copytree(known.user_dir, root.name, dirs_exist_ok=True)
    for kind, members in new.items():
        (Path(root.name) / FOLDERS[kind]).mkdir(exist_ok=True)
        for id, entry in members.items():
            text = dump_yaml(entry.model_dump(mode="json", exclude_none=True, exclude_defaults=True))
            (Path(root.name) / FOLDERS[kind] / f"{id}.yaml").write_text(text, encoding="utf-8")
    log(f"hardware of the plan file's own: {names(plan)}")
    laid = Catalog(Path(root.name))
    weakref.finalize(laid, root.cleanup)  # entries are read when they are asked for
    return laid


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
                out[kind][id] = entry
            elif entry != (known.accelerator(id) if kind == "accelerator" else known.node(id)):
                raise InputError(where, id, "another name: the catalogue has one of this name that is not the same")
    return out

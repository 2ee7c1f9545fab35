"""Accelerators and nodes that a session or a plan file brings along, beside those of the catalogue."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.catalog import Catalog
from planner.catalog.hardware_spec import Accelerator, Node
from planner.catalog.validation import check_mapping
from planner.errors import UnknownNameError
from planner.scenario.safe_yaml import dump_yaml

SCHEMAS: Mapping[str, type[Accelerator] | type[Node]] = {"accelerator": Accelerator, "node": Node}
Entries = dict[str, dict[str, dict[str, Any]]]
"""Kind (accelerator, node) -> id -> plain data."""
ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FOLDERS = {"accelerator": "accelerators", "node": "nodes"}


def grouped(data: object, where: str) -> Entries:
    """What stands under ``catalogue:`` of a file, not yet checked as entries.

    Raises InputError for a kind there is not, and for what is no mapping of ids to entries.
    """
    given = check_mapping(data, where)
    for kind in given:
        if kind not in SCHEMAS:
            raise UnknownNameError(where, kind, SCHEMAS)
    return {
        kind: {
            id: check_mapping(entry, f"{where}: {kind}.{id}")
            for id, entry in check_mapping(given[kind], f"{where}: {kind}").items()
        }
        for kind in SCHEMAS
        if kind in given
    }


def plain(entry: Accelerator | Node) -> dict[str, Any]:
    """An entry as JSON has it, whatever YAML made of dates and the like; what is not given is left out."""
    return entry.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def laid_over(entries: Mapping[str, Mapping[str, Mapping[str, Any]]], base: Path | None) -> Catalog:
    """The catalogue with ``entries`` (kind -> id -> plain data) laid over the folder ``base``.

    A catalogue reads files when they are asked for: the entries lie in a temporary folder, which goes with it.
    """
    folder = tempfile.TemporaryDirectory(prefix="planner-catalogue-")
    root = Path(folder.name)
    if base is not None:
        shutil.copytree(base, root, dirs_exist_ok=True)
    for kind, members in entries.items():
        (root / _FOLDERS[kind]).mkdir(exist_ok=True)
        for id, data in members.items():
            (root / _FOLDERS[kind] / f"{id}.yaml").write_text(dump_yaml(dict(data)), encoding="utf-8")
    laid = Catalog(root)
    weakref.finalize(laid, folder.cleanup)
    return laid

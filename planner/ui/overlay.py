"""Accelerators and nodes that a session brings along: checked as the shipped ones are, laid over the catalogue.

Entries live in the session's memory, and in the files of a catalogue that goes when the session does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.catalog import Catalog
from planner.catalog import catalog as open_catalog
from planner.catalog.hardware_spec import Accelerator, Node
from planner.catalog.validation import validate
from planner.errors import InputError, UnknownNameError
from planner.scenario.own_hardware import ID, SCHEMAS, Entries, grouped, laid_over, plain
from planner.scenario.schema import Scenario
from planner.ui.i18n import _

MAX_ENTRIES = 50


def checked(data: object, where: str) -> Entries:
    """``data`` as entries; raises InputError naming the entry and the field."""
    out: Entries = {}
    for kind, members in grouped(data, where).items():
        for id, entry in members.items():
            out = added(out, kind, {**entry, "id": id})
    return out


def added(entries: Entries, kind: str, data: Mapping[str, Any]) -> Entries:
    """``entries`` with one more, which replaces one of the same id; raises InputError naming the field."""
    id = str(data.get("id") or "")
    if not ID.fullmatch(id):
        raise InputError(f"{kind}: id", id, _("small letters, digits, dots and dashes, at most 64"))
    shipped = open_catalog()
    if id in (shipped.accelerator_ids() if kind == "accelerator" else shipped.node_ids()):
        raise InputError(f"{kind}: id", id, _("the catalogue has one of that name; choose another"))
    entry = validate(SCHEMAS[kind], dict(data), f"{kind} {id}")
    if isinstance(entry, Accelerator):
        generations = {shipped.accelerator(known).arch for known in shipped.accelerator_ids()}
        if entry.arch not in generations:
            raise UnknownNameError(f"accelerator {id}: arch", entry.arch, generations)
    if isinstance(entry, Node):
        accelerators = {*shipped.accelerator_ids(), *entries.get("accelerator", {})}
        if entry.accelerator not in accelerators:
            raise UnknownNameError(f"node {id}: accelerator", entry.accelerator, accelerators)
    out = {k: dict(v) for k, v in entries.items()}
    out.setdefault(kind, {})[id] = plain(entry)
    if sum(map(len, out.values())) > MAX_ENTRIES:
        raise InputError(_("catalogue"), sum(map(len, out.values())), _("at most {n} entries").format(n=MAX_ENTRIES))
    return out


def joined(entries: Entries, more: Entries) -> Entries:
    """Both; those of ``more`` replace ones of the same id."""
    return {kind: entries.get(kind, {}) | more.get(kind, {}) for kind in SCHEMAS if kind in entries or kind in more}


def used(entries: Entries, scenario: Scenario) -> Entries:
    """The entries that ``scenario`` needs."""
    choices = scenario.hardware.choices
    nodes = {c.node: entries["node"][c.node] for c in choices if c.node in entries.get("node", {})}
    shipped = open_catalog()
    wanted = {n["accelerator"] for n in nodes.values()}
    wanted |= {shipped.node(c.node).accelerator for c in choices if c.node in set(shipped.node_ids()) - set(nodes)}
    accelerators = {k: v for k, v in entries.get("accelerator", {}).items() if k in wanted}
    return {k: v for k, v in (("accelerator", accelerators), ("node", nodes)) if v}


class Overlay:
    """A session's entries and the catalogue with them in it."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.catalog: Catalog = laid_over(entries, open_catalog().user_dir)

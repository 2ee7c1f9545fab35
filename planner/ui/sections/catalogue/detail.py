"""One entry in full: every value with its unit, its status and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st
from pydantic import BaseModel

from planner.catalog import Catalog, ModelSpec
from planner.catalog.hardware_spec import Accelerator, Node, Sourced
from planner.catalog.spec_yaml import spec_to_yaml
from planner.model.kv import kv_bytes_per_token
from planner.model.parameters import count
from planner.ui.i18n import _
from planner.ui.numbers import NONE, sig
from planner.ui.numbers import count as whole
from planner.ui.sections.catalogue.tables import attention_text, weights_text
from planner.ui.text import plain

_PROVENANCE = ("status", "source", "date", "note", "usable_status", "usable_source")


@dataclass(frozen=True)
class Fact:
    """A value of an entry; ``value`` None is not sourced."""

    key: str
    value: str | None
    status: str
    source: str


def facts(entry: Accelerator | Node) -> list[Fact]:
    """Every value of an entry in the file's order."""
    out: list[Fact] = []
    for name, value in entry:
        if isinstance(value, Sourced):
            out += _group(name, value)
        elif isinstance(value, str | int | float) and name not in ("id", "name"):
            out.append(Fact(name, _text(value), "", ""))
    return out


def _group(name: str, group: Sourced) -> Iterator[Fact]:
    source = f"{group.source or ''}{f' ({group.date})' if group.date else ''}"
    for key, value in group:
        if key in _PROVENANCE:
            continue
        if key == "gib_usable":
            usable: Any = group
            yield Fact(f"{name}.{key}", _text(value), status(usable.usable_status), usable.usable_source or "")
        else:
            yield Fact(f"{name}.{key}", _text(value), status(group.status) if value is not None else "", source)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return sig(value, 4) if isinstance(value, float) else whole(value) if isinstance(value, int) else str(value)


def status(given: str | None) -> str:
    """Status of a value in words."""
    known = {
        "datasheet": _("datasheet"),
        "measured": _("measured"),
        "derived": _("derived"),
        "assumed": _("assumed"),
    }
    return known.get(given or "", given or "")


def hardware(kind: str, id: str, catalog: Catalog) -> None:
    """An accelerator or a node."""
    entry = catalog.accelerator(id) if kind == "accelerator" else catalog.node(id)
    listed = facts(entry)
    st.dataframe(
        {
            _("Value"): [f.key for f in listed],
            _("Number"): [f.value if f.value is not None else _("not sourced") for f in listed],
            _("Status"): [f.status for f in listed],
            _("Source"): [f.source for f in listed],
        },
        hide_index=True,
        placeholder=NONE,
        height=min(38 + 35 * len(listed), 430),
    )
    _remarks(_("Other sources disagree"), entry.disagreements)
    _remarks(_("Not sourced"), entry.not_sourced)
    _remarks(_("Notes"), entry.notes)
    _sources(catalog.describe("accelerator" if kind == "accelerator" else "node", id)["cited_sources"])


def _remarks(title: str, texts: tuple[str, ...]) -> None:
    if texts:
        st.markdown(f"**{title}**\n" + "\n".join(f"- {plain(t)}" for t in texts))


def _sources(cited: Mapping[str, str]) -> None:
    if cited:
        with st.expander(_("What the source keys stand for")):
            st.markdown("\n".join(f"- **{plain(key)}**: {plain(meaning)}" for key, meaning in cited.items()))


def model(spec: ModelSpec) -> None:
    """A model: its size, its cache, its formats, and the specification to take home."""
    size = count(spec)
    kib = float(kv_bytes_per_token(spec, "bf16")) / 1024
    shown = (
        (_("Parameters"), _("{n} billion").format(n=sig(size.total / 1e9))),
        (_("Active for a token"), _("{n} billion").format(n=sig(size.active / 1e9))),
        (_("KV cache per token"), f"{sig(kib)} KiB"),
        (_("Longest context"), whole(spec.max_context_tokens)),
    )
    for column, (name, value) in zip(st.columns(len(shown), gap="small"), shown, strict=True):
        with column:
            st.metric(name, value)
    st.caption(
        _(
            "{layers} layers, hidden size {hidden}, attention {attention}; weights in {formats}; KV cache in bf16."
        ).format(
            layers=spec.num_layers,
            hidden=whole(spec.hidden_size),
            attention=attention_text(spec),
            formats=plain(weights_text(spec)),
        )
    )
    said = spec.published
    if said is not None and said.total_parameters:
        st.caption(
            _("Published: {total} in all, {active} active ({source}).").format(
                total=plain(said.total_parameters),
                active=plain(said.active_parameters or said.total_parameters),
                source=plain(said.source or "–"),
            )
        )
    _remarks(_("Notes"), spec.notes)
    _remarks(_("Sources"), spec.sources)
    with st.expander(_("Specification (YAML)")):
        st.code(spec_to_yaml(spec), language="yaml", height=300)


def raw(entry: BaseModel) -> dict[str, Any]:
    """An entry as the plain data of its file."""
    return entry.model_dump(mode="json", exclude_none=True, exclude_defaults=True)

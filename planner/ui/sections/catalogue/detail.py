"""One entry in full: every value with its unit, its status and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import streamlit as st
from pydantic import BaseModel

from planner.catalog import Catalog, ModelSpec
from planner.catalog.hardware_spec import Node
from planner.catalog.spec_yaml import spec_to_yaml
from planner.model.kv import kv_bytes_per_token
from planner.model.parameters import ParameterCount, count
from planner.scenario.safe_yaml import dump_yaml
from planner.ui.i18n import _
from planner.ui.numbers import count as whole
from planner.ui.numbers import sig
from planner.ui.sections.cards import Card, cards
from planner.ui.sections.catalogue.facts import facts, price
from planner.ui.sections.catalogue.tables import attention_text, weights_text
from planner.ui.sections.tables import table
from planner.ui.text import listed, plain, sentence
from planner.units import KIB


def hardware(kind: str, id: str, catalog: Catalog) -> None:
    """An accelerator or a node."""
    entry = catalog.accelerator(id) if kind == "accelerator" else catalog.node(id)
    found = facts(entry)
    if kind == "accelerator":
        found.append(price(catalog.prices().rental(id)))
    table(
        {
            _("What"): [f.name for f in found],
            _("Value"): [f.value if f.value is not None else _("not sourced") for f in found],
            _("Source"): [f.source for f in found],
        },
        alt=_("Facts of {id} with their sources").format(id=id),
    )
    _remarks(_("Other sources disagree"), entry.disagreements)
    _remarks(_("Not sourced"), entry.not_sourced)
    _remarks(_("Notes"), entry.notes)
    if isinstance(entry, Node):
        _remarks(_("Sources"), entry.sources)
    _sources(catalog.describe("accelerator" if kind == "accelerator" else "node", id)["cited_sources"])
    with st.expander(_("As YAML, to start your own from"), key=f"catalogue.yaml.{kind}.{id}"):
        st.code(dump_yaml(raw(entry)), language="yaml", height=300)


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
    kib, long = (float(kv_bytes_per_token(spec, "bf16", 1, held)) / KIB for held in (0.0, math.inf))
    beyond = _("{size} KiB once windows are full").format(size=sig(long)) if long < kib else ""
    cards(
        (
            Card(
                _("Parameters"),
                _("{n} billion").format(n=sig(size.main / 1e9)),
                _beside(size),
                _("All of the model: what memory holds. Draft layers (MTP) and vision towers apart."),
            ),
            Card(
                _("Active for a token"),
                _("{n} billion").format(n=sig(size.active_without_embedding / 1e9)),
                "",
                _(
                    "Those a token passes through: what arithmetic follows. A looked-up input embedding is not "
                    "among them."
                ),
            ),
            Card(_("KV cache per token"), f"{sig(kib)} KiB", beyond, _("In bf16, without replication.")),
            Card(_("Longest context"), whole(spec.max_context_tokens), _("tokens")),
        )
    )
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
    _remarks(_("Notes"), tuple(map(sentence, spec.notes)))
    _remarks(_("Sources"), spec.sources)
    with st.expander(_("Specification (YAML)")):
        st.code(spec_to_yaml(spec), language="yaml", height=300)


def _beside(size: ParameterCount) -> str:
    """Parameters that a checkpoint holds beside the model."""
    parts = ((size.mtp, _("draft layers (MTP)")), (size.vision, _("vision tower")))
    return listed(_("{n} billion in {part}").format(n=sig(n / 1e9), part=part) for n, part in parts if n)


def raw(entry: BaseModel) -> dict[str, Any]:
    """An entry as the plain data of its file."""
    return entry.model_dump(mode="json", exclude_none=True, exclude_defaults=True)

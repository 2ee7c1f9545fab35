"""What does the planner know? Hardware and models with their sources, and entries of one's own."""

from __future__ import annotations

import streamlit as st

from planner.scenario.load import resolve_model
from planner.ui import state
from planner.ui.i18n import _
from planner.ui.numbers import NONE
from planner.ui.sections.catalogue import detail, entry, tables

_KIND = "catalogue.kind"


def show() -> None:
    """The page."""
    kinds = {"accelerator": _("Accelerators"), "node": _("Nodes"), "model": _("Models")}
    if st.session_state.get(_KIND) not in kinds:
        st.session_state[_KIND] = "accelerator"
    kind = st.segmented_control(
        _("Kind"), list(kinds), key=_KIND, format_func=kinds.__getitem__, label_visibility="collapsed", required=True
    )
    _browse(kind or "accelerator")
    st.subheader(_("Add your own"), anchor=False)
    names = (
        _("Model from config.json"),
        _("Model by numbers"),
        _("Hardware by numbers"),
        _("YAML"),
        _("Yours"),
    )
    parts = (entry.config, entry.model, entry.hardware, entry.from_text, entry.kept)
    for tab, part in zip(st.tabs(list(names)), parts, strict=True):
        with tab:
            part()


def _browse(kind: str) -> None:
    catalog = state.catalog()
    own = frozenset(state.entries().get(kind, {}))
    table = tables.frame(kind, catalog, own)
    shown = [c for c in table.columns if c != "own" or own]
    picked = st.dataframe(
        table,
        hide_index=True,
        placeholder=NONE,
        column_order=["id", *[c for c in shown if c != "id"]],
        column_config=tables.columns(kind),
        key=f"catalogue.rows.{kind}.{catalog.version}",
        on_select="rerun",
        selection_mode="single-row",
        height=38 + 35 * min(len(table), 9),
    )
    rows = picked.selection.rows
    id = table["id"].iloc[rows[0]] if rows and rows[0] < len(table) else _in_use(kind)
    if id is None:
        return
    st.markdown(
        f"**{id}**" if rows else _("**{id}**, which the scenario uses; choose a row to see another").format(id=id)
    )
    if kind == "model":
        scenario = state.scenario()
        detail.model(resolve_model(scenario, catalog) if not rows else catalog.model(id))
    else:
        detail.hardware(kind, id, catalog)


def _in_use(kind: str) -> str | None:
    """The entry of the scenario; None where the catalogue does not have it."""
    catalog, scenario = state.catalog(), state.scenario()
    pools = scenario.hardware.pools
    choices = [*scenario.hardware.candidates, *(pools.decode if pools else ())]
    known = [c.node for c in choices if c.node in catalog.node_ids()]
    if kind == "model":
        known_model = scenario.model_spec is not None or scenario.model in catalog.model_ids()
        return scenario.model if known_model else None
    if not known:
        return None
    return known[0] if kind == "node" else catalog.node(known[0]).accelerator

"""What does the planner know? Hardware and models with their sources, and entries of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from planner.scenario.load import resolve_model
from planner.ui import state
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import NONE
from planner.ui.sections.catalogue import detail, entry, tables
from planner.ui.text import paragraph, plain

if TYPE_CHECKING:
    import pandas as pd

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
    everything = tables.frame(kind, catalog, own)
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        sought = st.text_input(
            _("Search"),
            key=f"catalogue.search.{kind}",
            max_chars=80,
            placeholder=_("name, generation, id …"),
            icon=":material/search:",
        )
        groups = st.multiselect(
            _("Family") if kind == "model" else _("Vendor"),
            list(dict.fromkeys(everything["group"])),
            key=f"catalogue.groups.{kind}",
            placeholder=_("all"),
        )
    found = tables.matching(everything, sought, groups)
    shown = ngettext("{n} of {all} entries.", "{n} of {all} entries.", len(found)).format(
        n=len(found), all=len(everything)
    )
    st.caption(paragraph((shown, _("Choose a row to see its facts and their sources."))))
    if found.empty:
        st.info(_("Nothing is called so: try another word, or add it below."), icon=":material/search_off:")
        return
    picked = st.dataframe(
        found,
        hide_index=True,
        placeholder=NONE,
        column_order=tables.order(kind, bool(own)),
        column_config=tables.columns(kind),
        key=f"catalogue.rows.{kind}.{catalog.version}.{sought}.{groups}",
        on_select="rerun",
        selection_mode="single-row",
        height=38 + 35 * min(len(found), 9),
        alt=_("Entries of the catalogue"),
    )
    rows = picked.selection.rows
    id = found["id"].iloc[rows[0]] if rows and rows[0] < len(found) else _shown_first(kind, found)
    if id is None:
        return
    name = everything.loc[everything["id"] == id, "name"]
    title = plain(name.iloc[0]) if len(name) else plain(id)
    text = "**{name}** · {id}" if rows else _("**{name}** · {id}, which the scenario uses")
    st.markdown(text.format(name=title, id=plain(id)))
    if kind == "model":
        scenario = state.scenario()
        detail.model(resolve_model(scenario, catalog) if id not in catalog.model_ids() else catalog.model(id))
    else:
        detail.hardware(kind, id, catalog)


def _shown_first(kind: str, found: pd.DataFrame) -> str | None:
    """The entry that the scenario uses, unless a search has left it out."""
    used = _in_use(kind)
    in_catalogue = used in state.catalog().model_ids() if kind == "model" else True
    return used if used is None or not in_catalogue or used in set(found["id"]) else None


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

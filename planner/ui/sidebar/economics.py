"""Your own prices."""

from __future__ import annotations

import streamlit as st

from planner.ui import state
from planner.ui.i18n import _
from planner.ui.sidebar.form import Form
from planner.ui.text import plain
from planner.ui.words import node_label


def show(form: Form) -> None:
    """A price per GPU-hour for every kind of node chosen."""
    with st.expander(_("Prices")):
        st.caption(_("US dollars for one GPU for one hour. Empty: the catalogue's price, where it has one."))
        for key, label in _priced(form).items():
            form.real(
                f"price.{key}",
                plain(label),
                step=0.1,
                optional=_("catalogue price"),
            )


def _priced(form: Form) -> dict[str, str]:
    """Price key -> label: the keys that the scenario uses, and the nodes chosen that have none yet."""
    given = {
        k.removeprefix("price."): node_label(k.removeprefix("price.")) for k in form.defaults if k.startswith("price.")
    }
    names = [
        *form.values.get("nodes", []),
        *form.values.get("prefill_nodes", []),
        *form.values.get("decode_nodes", []),
    ]
    catalog = state.catalog()
    known = set(catalog.node_ids())
    for node in dict.fromkeys(names):
        accelerator = catalog.node(node).accelerator if node in known else None
        if node not in given and accelerator not in given:
            given[node] = node_label(node)
    return given

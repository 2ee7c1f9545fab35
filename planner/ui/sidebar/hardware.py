"""Which nodes, and how many."""

from __future__ import annotations

import streamlit as st

from planner.catalog import Catalog
from planner.ui import state
from planner.ui.i18n import _
from planner.ui.sidebar.form import Form
from planner.ui.text import plain
from planner.ui.words import node_label, serving_help, servings


def show(form: Form) -> None:
    """Node types to try, serving modes, counts."""
    nodes = node_options()
    chosen = form.pills(
        "nodes",
        _("Hardware to try"),
        nodes,
        help=_("Node types of the catalogue; each one chosen is searched on its own."),
    )
    modes = form.pills(
        "serving",
        _("Serving"),
        {k: v[:1].upper() + v[1:] for k, v in servings().items()},
        help=serving_help(),
    )
    with st.expander(_("Node counts and pools")):
        st.caption(_("Empty means as many as the load needs."))
        for node in chosen:
            form.whole(
                f"max_nodes.{node}",
                _("Most nodes of {node}").format(node=plain(nodes.get(node, node))),
                optional=_("no limit"),
            )
            form.whole(
                f"gpus.{node}",
                _("GPUs used in each {node}").format(node=plain(nodes.get(node, node))),
                optional=_("all of them"),
            )
        form.whole(
            "max_gpus_per_worker",
            _("Most GPUs in one worker"),
            _("A worker is one copy of the model. Larger ones are not tried."),
            optional=_("no limit"),
        )
        form.whole(
            "spare_nodes",
            _("Spare nodes"),
            _("Nodes beyond what the load needs, so that a failure costs no capacity (N + k)."),
        )
        if "disagg" in modes:
            _pools(form, nodes)


def _pools(form: Form, nodes: dict[str, str]) -> None:
    separate = form.switch(
        "pools",
        _("Different hardware for prefill and decode"),
        _("Only for disaggregated serving: prompts are read on one kind of node, answers written on another."),
    )
    if separate:
        form.pills("prefill_nodes", _("Prefill nodes"), nodes)
        form.pills("decode_nodes", _("Decode nodes"), nodes)


_VENDORS = ("nvidia", "amd")
"""Those most people look for stand first, the others by name."""


@st.cache_data(show_spinner=False)
def _nodes(version: str, _known: Catalog) -> dict[str, str]:

    def order(id: str) -> tuple[int, str, str]:
        vendor = _known.accelerator(_known.node(id).accelerator).vendor
        return (_VENDORS.index(vendor) if vendor in _VENDORS else len(_VENDORS), vendor, id)

    return {id: node_label(id) for id in sorted(_known.node_ids(), key=order)}


def node_options() -> dict[str, str]:
    """Node id -> label."""
    known = state.catalog()
    return _nodes(known.version, known)

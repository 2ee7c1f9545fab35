"""Ranks on nodes, GPUs and NICs, and what they send to each other."""

from __future__ import annotations

import streamlit as st

from planner.errors import InputError
from planner.layout.placement import Placement
from planner.roofline.step import StepWork
from planner.search.plan_schema import Phase
from planner.search.table import Workers
from planner.ui.figures.common import CONFIG
from planner.ui.figures.topology import legend_note, topology
from planner.ui.figures.traffic import kinds, traffic_bars, traffic_heatmap
from planner.ui.formula import Formula
from planner.ui.i18n import _, ngettext
from planner.ui.latex import num
from planner.ui.numbers import count, duration, sig
from planner.ui.sections.errors import message
from planner.ui.sections.how import how
from planner.ui.sections.layout_data import (
    Sent,
    group_kinds,
    group_of,
    moe_of,
    placement,
    sent_bytes,
    traffic_matrix,
)
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.words import node_label, phases
from planner.units import MIB, MILLISECOND

MATRIX_RANKS = 512
"""Largest worker whose matrix is drawn."""


def group_names() -> dict[str, tuple[str, str]]:
    """Kind of group -> (short name, what its members do together)."""
    return {
        "tp": ("TP", _("each holds a slice of every attention matrix; they add up their slices in every layer")),
        "ep": ("EP", _("each holds some of the experts; tokens travel between them in every layer")),
        "attention_dp": ("DP", _("each keeps the attention of its own requests")),
        "moe_tp": ("ETP", _("each holds a slice of the same experts")),
        "pp": ("PP", _("each holds some of the layers; tokens pass from one to the next")),
    }


def show(subject: Subject, w: Workers) -> None:
    """The map of one worker."""
    st.subheader(
        _("Where the ranks lie"),
        help=_("One worker: one copy of the model. Rank numbers in the squares; hover for node, NIC and groups."),
        anchor=False,
    )
    try:
        placed = placement(w)
    except InputError as error:
        st.warning(message(error))
        return
    offered = group_kinds(placed)
    st.markdown(_answer(w, placed, subject.feasible))
    if not offered:
        st.caption(_("One GPU holds the whole model: there is nothing to draw between ranks."))
        return
    names = group_names()
    kind = st.segmented_control(
        _("Colour by group"),
        offered,
        default=offered[0],
        key=f"layout.kind.{subject.key}",
        format_func=lambda k: names[k][0],
        required=True,
    )
    kind = kind or offered[0]
    groups = int(group_of(placed, kind).max()) + 1
    st.caption(
        _("{name}: {n}; {meaning}.").format(
            name=names[kind][0],
            n=ngettext("{n} group of {size} ranks", "{n} groups of {size} ranks", groups).format(
                n=count(groups), size=count(placed.layout[kind])
            ),
            meaning=names[kind][1],
        )
    )
    st.plotly_chart(
        topology(placed, kind, names[kind][0], _experts(subject, placed)),
        config=CONFIG,
        key="layout.topology",
        alt=_("Ranks of one worker on nodes and GPUs, by group"),
    )
    if subject.candidate.shared_nodes:
        st.caption(
            _(
                "Workers of both pools stand on the same nodes. Each is drawn alone here, from the first GPU of a "
                "node; the launch script says on which GPUs it starts."
            )
        )
    note = legend_note(groups)
    if note:
        st.caption(note)


def _answer(w: Workers, placed: Placement, counted: bool) -> str:
    nodes = int(placed.node.max()) + 1
    size = int(w.layouts.gpus[0])
    domains = len(set(placed.domain.tolist()))
    copies = ngettext("{n} such worker", "{n} such workers", int(w.count[0])).format(n=count(int(w.count[0])))
    inside = (
        _("all inside one fast domain")
        if domains == 1
        else _("{n} fast domains, joined by the network").format(n=count(domains))
    )
    text = (
        _("**{layout}**: {gpus} on {nodes}, {inside}; {copies}.")
        if counted
        else _("**{layout}**: {gpus} on {nodes}, {inside}.")
    )
    return text.format(
        layout=w.layouts.describe(0),
        gpus=ngettext("{n} GPU", "{n} GPUs", size).format(n=count(size)),
        nodes=ngettext("{n} {node} node", "{n} {node} nodes", nodes).format(
            n=count(nodes), node=node_label(w.hardware.id)
        ),
        inside=inside,
        copies=copies,
    )


def _experts(subject: Subject, placed: Placement) -> dict[int, str] | None:
    moe = moe_of(subject.setup)
    ep = placed.layout["ep"]
    if moe is None or ep == 1:
        return None
    held = (moe.experts + placed.layout["redundant_experts"]) / ep
    text = _("{n} experts").format(n=sig(held))
    return dict.fromkeys(range(ep), text)


def show_traffic(subject: Subject, steps: dict[Phase, tuple[Workers, StepWork]]) -> None:
    """Bytes by kind and tier, and the matrix."""
    st.subheader(
        _("What one step sends"),
        help=_(
            "Each byte counted once on the tier that it crosses: inside the fast domain (such as NVLink) or over the "
            "network between nodes."
        ),
        anchor=False,
    )
    order = list(steps)
    phase = st.segmented_control(
        _("Kind of step"),
        order,
        default=order[0],
        key=f"layout.traffic.{subject.key}",
        format_func=lambda p: phases()[p],
        required=True,
    )
    w, work = steps[phase or order[0]]
    sent = sent_bytes(subject.setup, w, work)
    if not sent:
        st.caption(_("One GPU works alone: nothing is sent."))
        return
    up, far = sum(s.scale_up for s in sent), sum(s.network for s in sent)
    st.markdown(
        _("A GPU sends **{up} MiB** inside its fast domain and **{far} MiB** over the network in a {phase}.").format(
            up=sig(up / MIB), far=sig(far / MIB), phase=phases()[phase or order[0]].lower()
        )
    )
    st.plotly_chart(traffic_bars(sent), config=CONFIG, key="layout.bytes", alt=_("Bytes by kind and tier"))
    _table(w, sent)
    placed = placement(w)
    if 1 < placed.node.size <= MATRIX_RANKS:
        matrix = traffic_matrix(placed, sent)
        st.markdown(f"**{_('Who sends to whom')}**")
        st.plotly_chart(
            traffic_heatmap(matrix, placed.node_type.tp_domain),
            config=CONFIG,
            key="layout.matrix",
            alt=_("Bytes from every rank to every other"),
        )
    how("layout.traffic", {_("Traffic"): _formula(w, sent, up + far)})


def _table(w: Workers, sent: tuple[Sent, ...]) -> None:
    here = w.hardware.device
    link = here.link_bw or here.pcie_bw
    table(
        {
            _("Communication"): [kinds()[s.kind] for s in sent],
            _("fast, MiB"): [s.scale_up / MIB for s in sent],
            _("network, MiB"): [s.network / MIB for s in sent],
            _("At the least"): [_least(s, link, here.nic_bw) for s in sent],
        },
        alt=_("Traffic of a step by kind"),
    )
    st.caption(
        _("At the least: the time at the nominal bandwidth of both tiers, one after the other; latencies come on top.")
    )


def _least(s: Sent, link: float | None, nic: float | None) -> str:
    if (s.scale_up and link is None) or (s.network and nic is None):
        return _("bandwidth not sourced")
    seconds = s.scale_up / (link or 1.0) + s.network / (nic or 1.0)
    return duration(seconds / MILLISECOND)


def _formula(w: Workers, sent: tuple[Sent, ...], total: float) -> Formula:
    parts = " + ".join(num((s.scale_up + s.network) / MIB) for s in sent)
    return Formula(
        r"\sum_{\text{kinds}} \text{layers} \cdot \text{tokens} \cdot \text{copies} \cdot \text{hidden} \cdot "
        r"\text{bytes per value}",
        rf"{parts} = {num(total / MIB)}\ \text{{MiB}}",
        _(
            "All-reduce over n ranks: 2 (n − 1) / n of the payload. Dispatch and combine: one copy of a token for each "
            "expert that works on it. In the matrix a kind's bytes are spread evenly over the members of its group."
        ),
    )

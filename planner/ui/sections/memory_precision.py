"""The precision plan: format, memory and sensitivity of every tensor class, and the checks that low bits owe."""

from __future__ import annotations

import streamlit as st

from planner.ui.figures.common import CONFIG
from planner.ui.figures.memory_page import precision_bars
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.latex import num
from planner.ui.numbers import gib
from planner.ui.sections.how import how
from planner.ui.sections.memory_data import precision_rows
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import listed, pair, paragraph
from planner.ui.words import precision_classes
from planner.units import GIB


def levels() -> dict[str, str]:
    """Sensitivity in words."""
    return {"low": _("low"), "medium": _("medium"), "high": _("high")}


def checks() -> dict[str, str]:
    """Checks in words."""
    return {
        "exact_match": _("exact match"),
        "long_chain": _("long chains of thought"),
        "tool_call_format": _("tool-call format"),
        "token_divergence": _("where tokens diverge"),
        "routing_agreement": _("routing agreement"),
    }


def reasons() -> dict[str, str]:
    """Why a class is as sensitive as it is."""
    return {
        "attention": _("errors add up over the context"),
        "indexer": _("a wrong selection drops tokens for good"),
        "router": _("a changed score sends the token to other experts"),
        "dense_mlp": _("every token passes it"),
        "shared_experts": _("every token passes them"),
        "routed_experts": _("a token averages over several"),
        "embedding": _("read without averaging, few bytes to save"),
        "head": _("errors go straight into the logits"),
        "norm": _("scales whole channels, nothing to save"),
        "vision": _("image tokens only"),
        "kv": _("read again at every later token"),
        "activations": _("outliers"),
        "dispatch": _("the experts' own input format"),
        "combine": _("summed over experts"),
    }


def show(subject: Subject) -> None:
    """Figure, table, and what is owed."""
    rows = precision_rows(subject.setup)
    held, saved = sum(r.bytes for r in rows), sum(r.saved_bytes for r in rows)
    st.subheader(
        _("Precision plan"),
        help=_("Number format of every tensor class. Change them on the left, under Precision and engine."),
        anchor=False,
    )
    st.markdown(
        paragraph(
            (
                _("One copy of the model takes **{held}**, **{saved}** less than in 16 bits.").format(
                    held=gib(held / GIB), saved=gib(saved / GIB)
                )
                if saved > 0
                else _("One copy of the model takes **{held}**, in 16 bits or more throughout.").format(
                    held=gib(held / GIB)
                ),
                _(
                    "The fullest GPU of a worker holds **{own}** of weights, copies for data parallelism included."
                ).format(own=gib(subject.candidate.memory_gib.weights)),
            )
        )
    )
    st.plotly_chart(
        precision_bars(rows), config=CONFIG, key="memory.precision", alt=_("Memory by tensor class, and what is saved")
    )
    table(
        {
            _("Tensor class"): [precision_classes()[r.tensor_class] for r in rows],
            _("Format"): [r.format for r in rows],
            _("Published in"): [r.published for r in rows],
            _("GiB"): [r.bytes / GIB if r.bytes else None for r in rows],
            _("Saved, GiB"): [r.saved_bytes / GIB if r.bytes else None for r in rows],
        },
        alt=_("Precision by tensor class"),
    )
    st.caption(
        _(
            "Saved: against the same tensors in 16 bits. The cache, activations and messages between experts have a "
            "format but are no part of the weights."
        )
    )
    st.markdown(f"**{_('What low bits risk, and what to check before going live')}**")
    owed, why = checks(), reasons()
    table(
        {
            _("Tensor class"): [precision_classes()[r.tensor_class] for r in rows],
            _("Sensitivity"): [pair(levels()[r.level], why[r.tensor_class]) for r in rows],
            _("Checks owed"): [listed(owed[c] for c in r.checks) or _("none") for r in rows],
        },
        alt=_("Sensitivity of every tensor class, and checks owed"),
    )
    st.caption(
        _(
            "Sensitivity is a judgement from published practice, not a measurement. Checks are owed for formats below "
            "16 bits that the checkpoint does not come in."
        )
    )
    if not any(r.checks for r in rows):
        st.caption(_("Nothing is owed: every format is the one that the checkpoint was published in, or 16 bits."))
    largest = rows[0]
    how(
        "memory.precision",
        {
            precision_classes()[largest.tensor_class]: Formula(
                r"\text{parameters} \cdot \frac{\text{bits}}{8} + \text{scales}",
                rf"{num((largest.bytes + largest.saved_bytes) / 2e9)} \cdot 10^9 \cdot "
                rf"\frac{{{subject.setup.precision.format_of(largest.tensor_class).bits}}}{{8}} + \text{{scales}} = "
                rf"{num(largest.bytes / GIB)}\ \text{{GiB}}",
                _("Scales by format: one per 128 × 128 block, per row or per group of values."),
            )
        },
    )

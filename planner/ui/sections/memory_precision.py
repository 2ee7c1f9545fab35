"""The precision plan: format, memory and sensitivity of every tensor class, and the checks that low bits owe."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.model.sensitivity import SENSITIVITY
from planner.ui.figures.common import CONFIG
from planner.ui.figures.memory_page import precision_bars
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.latex import num
from planner.ui.numbers import NONE, gib
from planner.ui.sections.how import how
from planner.ui.sections.memory_data import ClassRow, precision_rows
from planner.ui.subject import Subject
from planner.ui.text import listed, pair
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
        " ".join(
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
    config = {
        _("Tensor class"): st.column_config.TextColumn(pinned=True),
        _("GiB"): st.column_config.NumberColumn(format="%.3g"),
        _("Saved, GiB"): st.column_config.NumberColumn(format="%.3g", help=_("Against the same tensors in 16 bits.")),
        _("Sensitivity"): st.column_config.TextColumn(
            help=_("How much a low-bit format risks: a judgement from published practice, not a measurement.")
        ),
        _("Checks owed"): st.column_config.TextColumn(
            help=_("To run before going live, for formats below 16 bits that the checkpoint does not come in."),
            width="large",
        ),
    }
    weights = tuple(r for r in rows if r.bytes)
    st.dataframe(
        _frame(weights),
        hide_index=True,
        placeholder=NONE,
        column_config=config,
        alt=_("Precision of weights by tensor class"),
    )
    others = tuple(r for r in rows if not r.bytes)
    st.dataframe(
        _frame(others).drop(columns=[_("GiB"), _("Saved, GiB")]),
        hide_index=True,
        placeholder=NONE,
        column_config=config,
        alt=_("Precision of the cache, activations and messages between experts"),
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


def _frame(rows: tuple[ClassRow, ...]) -> pd.DataFrame:
    owed, why = checks(), reasons()
    assert set(why) == set(SENSITIVITY)
    return pd.DataFrame(
        {
            _("Tensor class"): [precision_classes()[r.tensor_class] for r in rows],
            _("Format"): [r.format for r in rows],
            _("Published in"): [r.published for r in rows],
            _("GiB"): [r.bytes / GIB for r in rows],
            _("Saved, GiB"): [r.saved_bytes / GIB for r in rows],
            _("Sensitivity"): [pair(levels()[r.level], why[r.tensor_class]) for r in rows],
            _("Checks owed"): [listed(owed[c] for c in r.checks) for r in rows],
        }
    )

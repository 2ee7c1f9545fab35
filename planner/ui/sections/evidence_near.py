"""How near the evidence of the shown plan is: counts, and the nearest runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from planner.evidence.evidence_table import EvidenceTable
from planner.evidence.nearness import Nearness, Place
from planner.ui.figures.evidence import signed
from planner.ui.i18n import _
from planner.ui.numbers import NONE, count
from planner.ui.sections.cards import Card, cards
from planner.ui.subject import Subject
from planner.ui.text import plain, sentence
from planner.ui.words import engines, layout_label, run_layout

LISTED = 12


def show(subject: Subject, table: EvidenceTable, near: Nearness, place: Place) -> None:
    """Sentence, counts, table of the nearest runs."""
    st.subheader(
        _("How near is this plan's evidence?"),
        help=_("Runs are near when engine, GPU, model, serving mode and layout agree; then lengths and load count."),
        anchor=False,
    )
    st.markdown(f"**{nearest(near)}**")
    distance = subject.candidate.evidence.distance
    if distance:
        st.caption(_("The intervals of this plan are those of: {kind}").format(kind=plain(sentence(distance))))
    gpu = subject.setup.catalog.accelerator(place.gpu).name
    engine = engines().get(place.engine, place.engine)
    cards(
        (
            Card(_("Runs with this engine"), count(near.agreeing("engine")), engine),
            Card(_("… and on this GPU"), count(near.agreeing("engine", "gpu")), gpu),
            Card(_("… and of this model"), count(near.agreeing("engine", "gpu", "model")), subject.setup.spec.name),
            Card(
                _("… and in this layout"),
                count(near.agreeing("engine", "gpu", "model", "serving", "layout")),
                layout_label(subject.candidate.layout),
            ),
        )
    )
    rows = near.order()[:LISTED]
    st.markdown(f"**{_('The runs nearest to it')}**")
    st.dataframe(
        _frame(table, near, rows),
        hide_index=True,
        placeholder=NONE,
        column_config={
            _("Layout"): st.column_config.TextColumn(help=_("TP . PP . DP . ETP . EP; of split runs both pools.")),
            _("apart"): st.column_config.NumberColumn(
                format="%.1f", help=_("0: the same deployment. Differences in kind and doublings in length and load.")
            ),
        },
        alt=_("Measured runs nearest to this plan"),
    )


def nearest(near: Nearness) -> str:
    """The nearest kind of evidence in one sentence."""
    here = near.agreeing("engine", "gpu")
    if near.agreeing("engine", "gpu", "model", "serving", "layout"):
        return _("Measured: this model on this GPU with this engine in this very layout.")
    if near.agreeing("engine", "gpu", "model"):
        return _("Near: this model on this GPU with this engine, in other layouts.")
    if here and near.agreeing("model"):
        return _("Further: other models on this GPU with this engine, and this model elsewhere.")
    if here:
        return _("Further: other models on this GPU with this engine.")
    if near.agreeing("engine"):
        return _("Far: this engine was measured on other GPUs only.")
    return _("Farthest: this engine was not measured.")


def _frame(table: EvidenceTable, near: Nearness, rows: np.ndarray) -> pd.DataFrame:
    text, runs = table.runs.text, table.runs

    def error(metric: str) -> list[str]:
        values = table.report.error(metric)[rows]
        return [signed(float(v)) if np.isfinite(v) else "" for v in values]

    def whole(name: str) -> list[int | None]:
        return [int(v) if np.isfinite(v) else None for v in runs[name][rows]]

    return pd.DataFrame(
        {
            _("Model"): [text["model"][r] for r in rows],
            _("GPU"): [text["gpu"][r] for r in rows],
            _("Engine"): [f"{text['engine'][r]} {text['engine_version'][r]}".strip() for r in rows],
            _("Layout"): [run_layout(table.layouts[r]) for r in rows],
            _("in"): whole("input_tokens"),
            _("out"): whole("output_tokens"),
            _("in flight"): whole("concurrency"),
            _("TPOT, ms"): [float(f"{v:.3g}") if np.isfinite(v) else None for v in runs["tpot_ms"][rows]],
            _("TPOT error"): error("tpot_ms"),
            _("TTFT, ms"): [float(f"{v:.3g}") if np.isfinite(v) else None for v in runs["ttft_ms"][rows]],
            _("TTFT error"): error("ttft_ms"),
            _("apart"): near.score[rows],
        }
    )

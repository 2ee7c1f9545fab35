"""How wrong may this be?"""

from __future__ import annotations

import streamlit as st

from planner.errors import InputError
from planner.evidence.nearness import nearness
from planner.ui import state
from planner.ui.i18n import _
from planner.ui.sections import evidence_near, evidence_plan, evidence_runs, evidence_terms, measured, shown
from planner.ui.sections.errors import message
from planner.ui.sections.evidence_data import place_of


def show() -> None:
    """The page."""
    subject = shown.shown()
    try:
        with st.spinner(_("Predicting the measured runs …"), show_time=True):
            table = measured.runs(state.catalog().version, state.catalog())
            memory = measured.starts(state.catalog().version, state.catalog())
    except InputError as error:
        st.error(message(error), icon=":material/folder_off:")
        return
    near = None
    if subject is not None:
        place, here = place_of(subject), state.catalog()
        near = nearness(table, place, here, subject.setup.spec)
        evidence_plan.show(subject)
        evidence_near.show(subject, table, near, place)
    evidence_runs.show_accuracy(table)
    metric, rows = evidence_runs.show_scatter(table, near, subject.key if subject else "")
    left, right = st.columns(2, gap="large")
    with left:
        evidence_runs.show_groups(table, metric, rows)
    with right:
        evidence_runs.show_coverage(table, rows)
    if subject is not None:
        evidence_terms.show_operators(subject)
    evidence_terms.show_memory(memory)

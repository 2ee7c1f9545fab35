"""The scenario on the left: every field of the question, and files in and out."""

from __future__ import annotations

import streamlit as st

from planner.errors import PlannerError
from planner.ui import state
from planner.ui.i18n import _
from planner.ui.sidebar import economics, engine, files, hardware, model, reliability, session, slo, traffic
from planner.ui.sidebar.form import Form


def show() -> PlannerError | None:
    """Draws the sidebar and puts its values into the session's scenario; the error where they make none."""
    with st.sidebar:
        session.language()
        st.header(_("Capacity planner"), anchor=False)
        st.caption(_("Which GPUs, how many, in which layout, at what cost, and why."))
        files.gallery_picker()
        way_back = st.container()
        keep = st.container(horizontal=True, gap="small")
        form = Form(state.scenario())
        model.show(form)
        hardware.show(form)
        traffic.show(form)
        slo.show(form)
        economics.show(form)
        reliability.show(form)
        engine.show(form)
        error = state.rebuild(form.values)
        with way_back:
            files.undo(refused=error is not None)
        with keep:
            session.saved()
            session.link()
        files.load_and_save()
    return error

"""Where do the ranks lie, and what do they send?"""

from __future__ import annotations

import streamlit as st

from planner.search.plan_schema import Phase
from planner.ui.i18n import _
from planner.ui.sections import layout_map, layout_steps, shown
from planner.ui.sections.layout_data import carries


def show() -> None:
    """The page."""
    subject = shown.shown()
    if subject is None:
        return
    steps = {phase: (w, work) for phase, w, work in subject.steps() if carries(work)}
    decode: Phase = "decode"
    workers = shown.pool(subject, "layout")
    layout_map.show(subject, workers)
    left, right = st.columns(2, gap="large")
    with left:
        layout_map.show_traffic(subject, steps)
    with right:
        if decode in steps:
            layout_steps.show_experts(subject, *steps[decode])
    if decode not in steps:
        st.info(_("No request fits, so no decode step runs: only steps that read prompts are shown."))
    layout_steps.show_roofline(subject, steps)

"""What fills a GPU, and what fits into the rest?"""

from __future__ import annotations

import streamlit as st

from planner.ui.sections import memory_budget, memory_kv, memory_precision, shown


def show() -> None:
    """The page."""
    subject = shown.shown()
    if subject is None:
        return
    workers = shown.pool(subject, "memory")
    memory_budget.show(subject, workers)
    memory_budget.show_certainty(subject)
    left, right = st.columns(2, gap="large")
    with left:
        memory_kv.show(subject, workers)
    with right:
        memory_kv.show_admission(subject, workers)
    memory_budget.show_parameters(subject)
    memory_precision.show(subject)

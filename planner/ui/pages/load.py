"""What happens when many ask at once?"""

from __future__ import annotations

import streamlit as st

from planner.ui.sections import load_ladder, load_latency, load_sizing, load_split, shown


def show() -> None:
    """The page."""
    subject = shown.shown()
    if subject is None:
        return
    if not subject.feasible and subject.candidate.memory_gib.kv <= 0:
        shown.nothing_to_price()
        return
    load_latency.show_percentiles(subject)
    left, right = st.columns(2, gap="large")
    with left:
        load_latency.show_load(subject)
    if subject.feasible:
        load_sizing.show(subject)
        load_sizing.show_admission(subject)
    with right:  # takes longest: what stands below it does not wait
        load_latency.show_budget(subject)
    load_split.show(subject)
    if subject.feasible:
        load_ladder.show(subject)

"""What does a token cost, and in which way is it cheapest?"""

from __future__ import annotations

import streamlit as st

from planner.ui.i18n import _
from planner.ui.sections import cost_tokens, cost_ways, shown
from planner.ui.sections.cost_data import day_of, deployed, power


def show() -> None:
    """The page."""
    subject = shown.shown()
    if subject is None:
        return
    if not subject.feasible:
        shown.nothing_to_price()
        return
    d = deployed(subject)
    watts = power(subject, d)
    with st.spinner(_("Sizing the fleet …"), show_time=True):
        day = day_of(subject)
    cost_tokens.show_prices(subject, d, day)
    cost_ways.show(subject, d, watts, day)
    cost_tokens.show_energy(subject, d, watts, day)

"""What if? One variable at a time, and two plans side by side."""

from __future__ import annotations

import streamlit as st

from planner.ui.current import current
from planner.ui.i18n import _
from planner.ui.sections import side_by_side, whatif


def show() -> None:
    """The page."""
    found = current()
    if found is None:
        return
    st.subheader(
        _("One thing at a time"),
        help=_("Everything else stays as it is on the left; every value gets a plan of its own."),
        anchor=False,
    )
    whatif.show(found.scenario)
    st.subheader(
        _("Two plans side by side"),
        help=_("Two results compare only as far as what they are results of is the same: that comes first."),
        anchor=False,
    )
    side_by_side.show(found.plan)

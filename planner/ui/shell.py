"""The frame around the pages: title, sidebar, errors, navigation."""

from __future__ import annotations

import streamlit as st

from planner.ui import registry, sidebar, state
from planner.ui.i18n import _
from planner.ui.sections import errors

SIDEBAR_PX = 360
"""Wide enough for a number with its unit and a choice beside it; folds away on a phone."""


def main() -> None:
    """Draws the session; ``app.py`` calls it at every run."""
    st.set_page_config(
        page_title=_("Capacity planner for LLM inference"),
        page_icon="⏱️",  # drawn by the browser itself: a Material icon here is fetched from outside
        layout="wide",
        initial_sidebar_state=SIDEBAR_PX,
    )
    state.start()
    pages = registry.pages()
    page = st.navigation(pages)
    registry.arrive(page, pages)
    error = sidebar.show()
    told = state.reported()
    if told is not None:
        errors.notice(told)
    if error is not None:
        errors.show(error)
    else:
        page.run()

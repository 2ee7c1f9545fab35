"""The "how is this computed" box that every figure of a page carries."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from planner.ui.formula import Formula
from planner.ui.i18n import _


def how(key: str, formulas: Mapping[str, Formula | None], title: str | None = None) -> None:
    """Formula, the same with its numbers, and its source, by name; None is left out, and so is a single one's name."""
    shown = {name: one for name, one in formulas.items() if one is not None}
    if not shown:
        return
    with st.expander(title or _("How is this computed?"), key=f"how.{key}"):
        for name, one in shown.items():
            if len(shown) > 1:
                st.markdown(f"**{name}**")
            _show(one)


def _show(one: Formula) -> None:
    """The formula, the same with its numbers where it has any, and its source."""
    for latex in filter(None, (one.symbols, one.numbers)):
        # Inside a line of text: unlike a displayed formula it breaks behind + and = where the page is narrow.
        st.markdown(rf"$$\displaystyle {latex}$$", text_alignment="center")
    st.caption(one.source)

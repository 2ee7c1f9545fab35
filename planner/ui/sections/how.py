"""The "how is this computed" box that every figure of a page carries."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from planner.ui.formula import Formula
from planner.ui.i18n import _


def how(key: str, formulas: Mapping[str, Formula | None]) -> None:
    """Formula, the same with its numbers, and its source, by name; None is left out."""
    shown = {name: one for name, one in formulas.items() if one is not None}
    if not shown:
        return
    with st.expander(_("How is this computed?"), key=f"how.{key}"):
        for name, one in shown.items():
            if len(shown) > 1:
                st.markdown(f"**{name}**")
            st.latex(one.symbols)
            if one.numbers:
                st.latex(one.numbers)
            st.caption(one.source)

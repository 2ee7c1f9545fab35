"""Inputs of a page that keep their value when another page is opened in between."""

from __future__ import annotations

import streamlit as st

PREFIX = "kept."


def number(
    name: str, label: str, start: float, *, step: float, low: float = 0.0, high: float = 1e9, help: str | None = None
) -> float:
    """A number input that starts at ``start``; ``name`` tells inputs apart and says when a new start counts."""
    store = f"{PREFIX}{name}"
    first = float(st.session_state.get(store, start))
    value = st.number_input(
        label, min_value=low, max_value=high, value=first, step=step, format="%.6g", help=help, key=f"input.{name}"
    )
    st.session_state[store] = value
    return float(value)


def optional(
    name: str, label: str, start: float | None, *, step: float, high: float = 1e9, help: str, placeholder: str
) -> float | None:
    """The same where there may be no number: None is an empty field, never a 0 that nobody has said."""
    store = f"{PREFIX}{name}"
    first: float | None = st.session_state.get(store, start)
    value = st.number_input(
        label,
        min_value=0.0,
        max_value=high,
        value=first,
        step=step,
        format="%.6g",
        help=help,
        placeholder=placeholder,
        key=f"input.{name}",
    )
    st.session_state[store] = value
    return value

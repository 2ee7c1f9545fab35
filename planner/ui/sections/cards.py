"""A number with its name above and a note below, in a frame: names wrap instead of being cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from planner.ui.text import plain


@dataclass(frozen=True)
class Card:
    """``note`` stands below the value, ``help`` says what it means when the pointer rests on its name."""

    label: str
    value: str
    note: str = ""
    help: str | None = None


def cards(shown: Sequence[Card], *, even: bool = True) -> None:
    """Cards side by side, as many in a row as there is room for; ``even`` ones are of one height, which inside a
    column makes rows run into what follows.
    """
    row = st.container(horizontal=True, gap="small")
    for card in shown:
        with row, st.container(border=True, gap=None, height="stretch" if even else "content"):
            st.caption(card.label, help=card.help)
            st.metric(card.label, card.value, label_visibility="collapsed")
            if card.note:
                st.caption(plain(card.note))

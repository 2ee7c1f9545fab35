"""Widgets bound to the fields of :mod:`planner.ui.draft`: each starts at the scenario's value and reports its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import streamlit as st

from planner.scenario.schema import Scenario
from planner.ui import draft
from planner.ui.i18n import _
from planner.ui.state import PREFIX

EMPTIED = "emptied choices"
"""Key of the session's choices that the user has cleared by hand."""


def _note_choice(key: str) -> None:
    emptied = st.session_state.setdefault(EMPTIED, set())
    (emptied.discard if st.session_state.get(key) else emptied.add)(key)


class Form:
    """Draws widgets and collects their values by field name."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.defaults = draft.fields(scenario)
        self.values: dict[str, Any] = {}

    def _key(self, field: str, default: Any = None) -> str:
        key = f"{PREFIX}{field}"
        if key not in st.session_state:
            st.session_state[key] = self.defaults.get(field, default)
        return key

    def _keep(self, field: str, value: Any) -> Any:
        self.values[field] = value
        return value

    def select(
        self,
        field: str,
        label: str,
        options: dict[Any, str],
        help: str | None = None,
        *,
        optional: str | None = None,
    ) -> Any:
        """One of ``options`` (value -> label); with ``optional`` it may be empty, which the text explains. A value
        that is not among the options is offered as itself.
        """
        key = self._key(field)
        current = st.session_state[key]
        offered = options if current is None or current in options else {current: str(current), **options}
        value = st.selectbox(
            label,
            list(offered),
            index=0 if optional is None else None,
            key=key,
            format_func=lambda v: offered.get(v, str(v)),
            help=help,
            placeholder=optional,
        )
        return self._keep(field, value)

    def pills(self, field: str, label: str, options: dict[str, str], help: str | None = None) -> list[str]:
        """Any of ``options`` (value -> label), in the order of the options."""
        key = self._key(field)
        # A page change in the middle of a run can bring the choice back empty without anybody having emptied it.
        if not st.session_state[key] and key not in st.session_state.setdefault(EMPTIED, set()):
            st.session_state[key] = self.defaults.get(field)
        current = list(st.session_state[key] or [])
        offered = {**{v: v for v in current if v not in options}, **options}
        st.pills(
            label,
            list(offered),
            key=key,
            selection_mode="multi",
            format_func=lambda v: offered.get(v, str(v)),
            help=help,
            on_change=_note_choice,
            args=(key,),
        )
        chosen = set(st.session_state[key])
        # Earlier choices keep their order, so that choosing and unchoosing changes nothing.
        before = [v for v in self.defaults.get(field, []) if v in chosen]
        return list(self._keep(field, before + [v for v in offered if v in chosen and v not in before]))

    def whole(
        self,
        field: str,
        label: str,
        help: str | None = None,
        *,
        optional: str | None = None,
    ) -> int | None:
        """A whole number; with ``optional`` it may be empty, which the text explains."""
        return self._number(field, label, help, optional, step=1)

    def real(
        self,
        field: str,
        label: str,
        help: str | None = None,
        *,
        step: float = 1.0,
        optional: str | None = None,
    ) -> float | None:
        """A number; with ``optional`` it may be empty, which the text explains."""
        return self._number(field, label, help, optional, step=float(step))

    def _number(self, field: str, label: str, help: str | None, optional: str | None, step: Any) -> Any:
        """No bounds: a browser that refuses a number says nothing and leaves the one before in force, while the
        scenario's own schema refuses it with the reason.
        """
        key = self._key(field)
        value = st.session_state[key]
        emptied = value is None and optional is None
        if emptied:
            # What is asked for cannot be nothing: the last value stands, never the lowest that the field would take.
            st.session_state[key] = type(step)(self.defaults[field])
        elif value is not None and type(value) is not type(step):
            st.session_state[key] = type(step)(value)
        number = st.number_input(
            label,
            value=None,
            step=step,
            format="%d" if isinstance(step, int) else "%.6g",
            key=key,
            help=help,
            placeholder=optional,
        )
        if emptied:
            st.caption(_("A number is needed here: the last one stays."))
        return self._keep(field, number)

    def switch(self, field: str, label: str, help: str | None = None) -> bool:
        """On or off."""
        value = st.toggle(label, key=self._key(field, False), help=help)
        return bool(self._keep(field, value))

    def three_way(self, field: str, label: str, help: str | None = None) -> bool | None:
        """On, off, or what the engine does by itself."""
        words = {True: _("on"), False: _("off")}
        value: bool | None = self.select(field, label, words, help, optional=_("engine's own"))
        return value

    def text(self, field: str, label: str, help: str | None = None, placeholder: str | None = None) -> str:
        """A short text."""
        value = st.text_input(label, key=self._key(field, ""), help=help, placeholder=placeholder, max_chars=200)
        return str(self._keep(field, value or ""))


def columns(widths: Sequence[float], align: Literal["top", "bottom"] = "bottom") -> list[Any]:
    """Fields side by side; on a phone one below the other."""
    return list(st.columns(widths, gap="small", vertical_alignment=align))

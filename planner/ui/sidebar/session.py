"""The session itself: its language, scenarios put aside under a name, the link that opens it again."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from planner.errors import PlannerError
from planner.ui import links, state
from planner.ui.i18n import DEFAULT, LANGUAGES, _
from planner.ui.sections import errors
from planner.ui.text import plain

_SPOKEN, _NAME = "pick.language", "save.name"


def language() -> None:
    """The switch between languages."""
    st.session_state[_SPOKEN] = state.language()
    st.segmented_control(
        "Language · 语言",
        list(LANGUAGES),
        key=_SPOKEN,
        format_func=LANGUAGES.__getitem__,
        on_change=_speak,
        label_visibility="collapsed",
        required=True,
    )


def _speak() -> None:
    state.speak(st.session_state.get(_SPOKEN) or DEFAULT)


def link() -> None:
    """The address that opens this scenario again, to copy."""
    with st.popover(_("Link"), icon=":material/link:", width="stretch", help=_("Opens this plan again, anywhere.")):
        try:
            address = address_of(st.context.url or "", state.link(), state.language())
        except PlannerError as error:
            st.markdown(errors.message(error))
            return
        st.caption(_("Whoever opens this address sees this scenario, on this page and in this language."))
        st.code(address, language=None, wrap_lines=True, height=160)


def address_of(page: str, packed: str, language: str) -> str:
    """The address of ``page`` (any query dropped) with the scenario and the language."""
    spoken = language if language != DEFAULT else None
    return urlunsplit(urlsplit(page)._replace(query=urlencode(links.parameters(packed, spoken)), fragment=""))


def saved() -> None:
    """Scenarios by name: save, go back to one, delete."""
    names = list(state.saved())
    title = _("Saved ({n})").format(n=len(names)) if names else _("Save as")
    with st.popover(title, icon=":material/bookmarks:", width="stretch"):
        st.caption(_("Kept while this page is open, to switch between and to compare. Files and links last."))
        st.text_input(_("Name"), key=_NAME, max_chars=80, placeholder=state.scenario().name)
        st.button(_("Save under this name"), icon=":material/bookmark_add:", on_click=_save, width="stretch")
        for i, name in enumerate(names):
            left, right = st.columns([5, 1], vertical_alignment="center")
            with left:
                current = name == state.scenario().name and not state.edited()
                st.button(
                    plain(name),
                    key=f"switch.{i}",
                    on_click=state.switch,
                    args=(name,),
                    type="tertiary",
                    disabled=current,
                    icon=":material/check:" if current else None,
                )
            with right:
                st.button(
                    "",
                    key=f"delete.{i}",
                    icon=":material/delete:",
                    on_click=state.delete,
                    args=(name,),
                    type="tertiary",
                    help=_("Delete"),
                )


def _save() -> None:
    try:
        state.save_as(st.session_state.get(_NAME) or state.scenario().name)
        st.session_state[_NAME] = ""
    except PlannerError as error:
        state.report(error)

"""Scenarios in and out: the gallery of examples, YAML up and down."""

from __future__ import annotations

import re

import streamlit as st

from planner.errors import PlannerError
from planner.ui import draft, gallery, links, state, upload
from planner.ui.i18n import _
from planner.ui.links import Linked
from planner.ui.text import plain

_PICK, _FILE, _LOADS = "pick.example", "load.file", "load.count"
LONGEST_NAME = 60
_MEGABYTES = upload.MAX_UPLOAD_BYTES >> 20


def gallery_picker() -> None:
    """The examples; picking one replaces the scenario."""
    names = gallery.titles()
    current = state.example_id()
    st.session_state[_PICK] = current
    st.selectbox(
        _("Start from an example"),
        list(names),
        key=_PICK,
        format_func=lambda i: names[i],
        index=None,
        placeholder=_("your own scenario"),
        on_change=_picked,
        help=_("Each one is a complete scenario. Change anything below and the plan follows."),
    )


def undo(*, refused: bool = False) -> None:
    """A way back to what was loaded, where the form has left it, be it for values that are ``refused``."""
    if refused or state.edited():
        st.button(
            _("Undo all changes"),
            icon=":material/undo:",
            on_click=state.undo,
            width="stretch",
        )


def _picked() -> None:
    id = st.session_state.get(_PICK)
    if id is not None:
        state.load_example(id)


def load_and_save() -> None:
    """Scenario YAML from the visitor's disk and to it."""
    st.subheader(_("Files"), divider="gray")
    st.download_button(
        _("Save scenario (YAML)"),
        data=links.text(Linked(state.scenario(), state.entries())),
        file_name=f"{file_stem(state.scenario().name)}.scenario.yaml",
        mime="application/yaml",
        icon=":material/download:",
        on_click="ignore",
        width="stretch",
    )
    # A new widget after every file: the list below it is then of the last one, its refusal by the browser included.
    key = f"{_FILE}.{st.session_state.get(_LOADS, 0)}"
    st.file_uploader(
        _("Load a scenario or a plan (YAML)"),
        type=["yaml", "yml"],
        key=key,
        max_upload_size=_MEGABYTES,
        on_change=_uploaded,
        args=(key,),
        help=_("A plan brings the scenario that it answers. At most {n} MB.").format(n=_MEGABYTES),
    )


def _uploaded(key: str) -> None:
    file = st.session_state.get(key)
    if file is None:
        return
    st.session_state[_LOADS] = st.session_state.get(_LOADS, 0) + 1
    name = shown_name(file.name)
    try:
        linked = links.from_text(upload.decode(file.getvalue(), name), name)
        state.accept(linked)
    except PlannerError as error:
        state.report(error)
    else:
        st.toast(_("{file} is loaded.").format(file=plain(name)))


def shown_name(name: str) -> str:
    """A file's name to speak of it: an error stays on the page and says which file it is of."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def file_stem(name: str) -> str:
    """A file name made of the scenario's name: letters, digits and dashes; that it was changed is not cut off."""
    end = _dashed(draft.CHANGED) if name.endswith(draft.CHANGED) else ""
    start = _dashed(name.removesuffix(draft.CHANGED))[: LONGEST_NAME - len(end) - 1].strip("-") or "scenario"
    return f"{start}-{end}" if end else start


def _dashed(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

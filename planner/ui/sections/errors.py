"""What went wrong, in one sentence, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import streamlit as st

from planner.errors import InputError, PlannerError
from planner.ui import state
from planner.ui.field_names import field_label, with_labels
from planner.ui.i18n import _
from planner.ui.phrases import known, translated
from planner.ui.text import pair, plain, sentence


def message(error: PlannerError, nodes: Sequence[str] | None = None) -> str:
    """The error as a sentence, safe for Markdown, its field in bold: the key of the file, or with ``nodes`` (the types
    chosen in the form) the name of the form's field.
    """
    text = str(error)
    if isinstance(error, InputError) and text.startswith(error.field):
        given = text[len(error.field) :].removeprefix(": got ").removesuffix(f"; {error.allowed}")
        if isinstance(error.given, str) and known(error.given):  # a phrase of the library's own, no quoted input
            given = translated(error.given)
        allowed, field = translated(error.allowed), error.field.removeprefix("scenario: ")
        untold = error.given is None  # what is missing was not given as anything
        if nodes is not None:
            allowed, field = with_labels(allowed, nodes), field_label(field, nodes) or field
            untold = untold or isinstance(error.given, Mapping)  # several fields, which the form shows
        rest = allowed if untold else _("got {given}; {allowed}").format(given=given, allowed=allowed)
        field = reduce(pair, field.split(": "))
        return pair(f"**{plain(field)}**", plain(sentence(rest)))
    return plain(sentence(text))


def show(error: PlannerError) -> None:
    """An error in place of the answer, of what stands in the form."""
    st.header(_("This cannot be planned yet"), anchor=False)
    st.error(message(error, state.nodes()), icon=":material/edit:")
    st.caption(_("Mend it on the left, or start from an example."))


def notice(error: PlannerError) -> None:
    """An error above an answer that still stands."""
    st.error(message(error), icon=":material/upload_file:")
    st.caption(_("Nothing was changed by it; what stands below is of the scenario on the left."))

"""What went wrong, in one sentence, and what to do."""

from __future__ import annotations

from functools import reduce

import streamlit as st

from planner.errors import InputError, PlannerError
from planner.ui.i18n import _
from planner.ui.phrases import known, translated
from planner.ui.text import pair, plain, sentence


def message(error: PlannerError) -> str:
    """The error as a sentence, safe for Markdown, its field in bold."""
    text = str(error)
    if isinstance(error, InputError) and text.startswith(error.field):
        given = text[len(error.field) :].removeprefix(": got ").removesuffix(f"; {error.allowed}")
        if isinstance(error.given, str) and known(error.given):  # a phrase of the library's own, no quoted input
            given = translated(error.given)
        allowed = translated(error.allowed)
        # What is missing was not given as anything.
        rest = allowed if error.given is None else _("got {given}; {allowed}").format(given=given, allowed=allowed)
        field = reduce(pair, error.field.removeprefix("scenario: ").split(": "))
        return pair(f"**{plain(field)}**", plain(sentence(rest)))
    return plain(sentence(text))


def show(error: PlannerError) -> None:
    """An error in place of the answer."""
    st.header(_("This cannot be planned yet"), anchor=False)
    st.error(message(error), icon=":material/edit:")
    st.caption(_("Mend it on the left, or start from an example."))


def notice(error: PlannerError) -> None:
    """An error above an answer that still stands."""
    st.error(message(error), icon=":material/upload_file:")
    st.caption(_("Nothing was changed by it; what stands below is of the scenario on the left."))

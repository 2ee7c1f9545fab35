"""Which model."""

from __future__ import annotations

import streamlit as st

from planner.catalog import catalog
from planner.errors import PlannerError
from planner.ui import state, upload
from planner.ui.i18n import _
from planner.ui.sidebar.form import Form
from planner.ui.text import plain

_TEXT, _NAME = "paste.config", "paste.name"


def show(form: Form) -> None:
    """The catalogue's models and those pasted in this session."""
    options = {**{i: _("{id} (yours)").format(id=i) for i in state.specs()}, **_catalogue_models()}
    form.select(
        "model",
        _("Model"),
        options,
        help=_("Type to search. All experts of a mixture-of-experts model count towards memory."),
    )
    with st.expander(_("Another model: paste its config.json")):
        st.caption(_("The text of config.json from the model's Hugging Face page. Nothing is fetched from anywhere."))
        st.text_area(
            "config.json",
            key=_TEXT,
            height=120,
            max_chars=upload.MAX_CONFIG_BYTES,
            label_visibility="collapsed",
            placeholder='{"architectures": ["…"], "hidden_size": …}',
        )
        st.text_input(_("Name for it"), key=_NAME, max_chars=80, placeholder=_("taken from the configuration"))
        st.button(_("Use this model"), on_click=_use_pasted, width="stretch")


@st.cache_data(show_spinner=False)
def _models(version: str) -> list[str]:
    return list(catalog().model_ids())


def _catalogue_models() -> dict[str, str]:
    return {i: i for i in _models(catalog().version)}


def _use_pasted() -> None:
    try:
        spec = upload.spec_from_config(st.session_state.get(_TEXT) or "", st.session_state.get(_NAME) or "")
        if spec.id in _catalogue_models():
            spec = spec.model_copy(update={"id": f"{spec.id}-pasted"})
        state.add_spec(spec)
        st.toast(_("Model {id} is ready.").format(id=plain(spec.id)))
    except PlannerError as error:
        state.report(error)

"""What a browser session remembers: the scenario as loaded, the scenario as edited, the chosen candidate, scenarios put
aside under a name, the session's own hardware and models, the language.

Widget keys start with ``f.`` and carry the field names of :mod:`planner.ui.draft`. The form edits ``loaded``;
loading another scenario forgets every widget value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from planner.catalog import Catalog
from planner.catalog import catalog as shipped_catalog
from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError, PlannerError
from planner.scenario.load import check_names
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, Plan
from planner.ui import draft, gallery, i18n, links, overlay
from planner.ui.i18n import _
from planner.ui.links import Linked
from planner.ui.overlay import Entries, Overlay

PREFIX = "f."
MAX_SAVED = 20
_LOADED, _EDITED, _EXAMPLE, _CHOSEN, _SPECS, _ERROR, _SAVED, _OVERLAY, _LANGUAGE, _OPENED, _LATER = (
    f"planner.{k}"
    for k in (
        *("loaded", "edited", "example", "chosen", "specs", "error"),
        *("saved", "overlay", "language", "opened", "later"),
    )
)


def start() -> None:
    """Gives a new session its language and its first scenario: that of the link it was opened with, else the gallery's
    first; and keeps both in the address, which a change of page empties.
    """
    if _LANGUAGE not in st.session_state:
        st.session_state[_LANGUAGE] = _first_language()
    i18n.use(language())
    if _LOADED not in st.session_state:
        load_example(gallery.FIRST)
        _open_link(st.query_params.get("s"))
    wanted = links.parameters(st.session_state.get(_OPENED), language() if language() != i18n.DEFAULT else None)
    _put_what_waits()
    if dict(st.query_params) != dict(wanted):
        st.query_params.from_dict(dict(wanted))


def _first_language() -> str:
    """The address's, else the browser's."""
    given = st.query_params.get("lang")
    if given in i18n.LANGUAGES:
        return given
    spoken = (st.context.locale or "").split("-")[0].lower()
    return spoken if spoken in i18n.LANGUAGES else i18n.DEFAULT


def _open_link(packed: str | None) -> None:
    if packed is None:
        return
    try:
        linked = links.unpack(packed)
        accept(linked)
        st.session_state[_CHOSEN] = linked.rank
        st.session_state[_OPENED] = packed
    except PlannerError as error:
        report(error)


def language() -> str:
    """The session's language."""
    spoken: str = st.session_state.get(_LANGUAGE, i18n.DEFAULT)
    return spoken


def speak(language: str) -> None:
    """Changes the session's language. The form is drawn anew from the scenario: its labels name other widgets."""
    st.session_state[_LANGUAGE] = language
    _forget_widgets()
    i18n.use(language)


i18n.follow(lambda: language() if get_script_run_ctx(suppress_warning=True) is not None else None)


def link() -> str:
    """The address's parameter for the scenario and the candidate chosen; raises InputError where it is too long."""
    return links.pack(Linked(scenario(), entries(), st.session_state.get(_CHOSEN)))


def load(scenario: Scenario, example: str | None = None) -> None:
    """Makes ``scenario`` the one of this session; call it in a callback, before widgets are drawn."""
    _forget_widgets()
    st.session_state[_LOADED] = scenario
    st.session_state[_EDITED] = scenario
    st.session_state[_EXAMPLE] = example
    st.session_state[_CHOSEN] = None
    st.session_state[_ERROR] = None
    st.session_state[_OPENED] = None


def accept(linked: Linked) -> None:
    """Makes what a file or a link carries the session's, its hardware beside what is there already; raises
    PlannerError, and changes nothing, where it names a model or hardware that is not known.
    """
    both = Overlay(overlay.joined(entries(), linked.entries)) if linked.entries else None
    check_names(linked.scenario, catalog() if both is None else both.catalog)
    if both is not None:
        st.session_state[_OVERLAY] = both
    load(linked.scenario)


def _forget_widgets() -> None:
    for key in [k for k in st.session_state if isinstance(k, str) and k.startswith(PREFIX)]:
        del st.session_state[key]


def load_example(id: str) -> None:
    """Makes a shipped example the scenario of this session."""
    load(gallery.example(id).scenario, id)


def undo() -> None:
    """Takes every change of the form back."""
    load(loaded(), example_id())


def put(values: Mapping[str, Any]) -> None:
    """Puts values into the form (fields as :mod:`planner.ui.draft` names them); call it in a callback."""
    for field, value in values.items():
        st.session_state[f"{PREFIX}{field}"] = value


def put_later(values: Mapping[str, Any], told: str) -> None:
    """Puts values into the form at the next run, and says so there: for changes that are asked for once the form has
    been drawn.
    """
    st.session_state[_LATER] = (dict(values), told)


def _put_what_waits() -> None:
    values, told = st.session_state.pop(_LATER, ({}, ""))
    put(values)
    if told:
        st.toast(told, icon=":material/check:")


def nodes() -> list[str]:
    """Node types chosen in the form, in order."""
    chosen: list[str] | None = st.session_state.get(f"{PREFIX}nodes")
    return list(chosen or [])


def example_id() -> str | None:
    """The example that the scenario started from; None for an upload."""
    id: str | None = st.session_state.get(_EXAMPLE)
    return id


def edited() -> bool:
    """Whether the form differs from what was loaded."""
    return bool(scenario() != st.session_state[_LOADED])


def scenario() -> Scenario:
    """The scenario as edited (the last valid one while the form is invalid)."""
    current: Scenario = st.session_state[_EDITED]
    return current


def loaded() -> Scenario:
    """The scenario as loaded."""
    current: Scenario = st.session_state[_LOADED]
    return current


def rebuild(values: dict[str, Any]) -> PlannerError | None:
    """Puts the form's values into the scenario; the error where they do not make one."""
    before = scenario()
    try:
        after = draft.build(loaded(), values, specs())
    except PlannerError as error:
        return error
    if after != before:
        st.session_state[_EDITED] = after
        st.session_state[_CHOSEN] = None
    return None


def saved() -> dict[str, Scenario]:
    """Scenarios put aside in this session, by name."""
    kept: dict[str, Scenario] = st.session_state.setdefault(_SAVED, {})
    return kept


def save_as(name: str) -> None:
    """Puts the scenario aside under ``name`` and goes on with it; raises InputError for a name that cannot be used."""
    clean = " ".join(name.split())[:80]
    if not clean:
        raise InputError(_("name"), name, _("give the scenario a name"))
    if clean not in saved() and len(saved()) >= MAX_SAVED:
        raise InputError(_("name"), clean, _("{n} scenarios are kept at most; delete one first").format(n=MAX_SAVED))
    kept = Scenario.from_dict(scenario().to_dict() | {"name": clean})
    rank = st.session_state.get(_CHOSEN)
    saved()[clean] = kept
    load(kept)
    st.session_state[_CHOSEN] = rank


def switch(name: str) -> None:
    """Goes on with a scenario that was put aside."""
    load(saved()[name])


def delete(name: str) -> None:
    """Forgets a scenario that was put aside."""
    saved().pop(name, None)


def specs() -> dict[str, ModelSpec]:
    """Models that this session brought along, by id."""
    known: dict[str, ModelSpec] = st.session_state.setdefault(_SPECS, {})
    spec = loaded().model_spec
    return {**known, spec.id: spec, loaded().model: spec} if spec is not None else dict(known)


def add_spec(spec: ModelSpec) -> None:
    """Remembers a model of the session's own and chooses it."""
    st.session_state.setdefault(_SPECS, {})[spec.id] = spec
    put({"model": spec.id})


def catalog() -> Catalog:
    """The catalogue of this session, its own hardware included."""
    overlay: Overlay | None = st.session_state.get(_OVERLAY)
    return shipped_catalog() if overlay is None else overlay.catalog


def entries() -> Entries:
    """The session's own hardware."""
    overlay: Overlay | None = st.session_state.get(_OVERLAY)
    return {} if overlay is None else overlay.entries


def bring(entries: Entries) -> None:
    """Makes ``entries`` the session's own hardware."""
    st.session_state[_OVERLAY] = Overlay(entries) if any(entries.values()) else None


def report(error: PlannerError | None) -> None:
    """Keeps the error of a callback until it has been shown."""
    st.session_state[_ERROR] = error


def reported() -> PlannerError | None:
    """The error of the last callback, once."""
    error: PlannerError | None = st.session_state.get(_ERROR)
    st.session_state[_ERROR] = None
    return error


def choose(rank: int | None) -> None:
    """Chooses a candidate by rank; None is the best."""
    st.session_state[_CHOSEN] = rank


def chosen(plan: Plan) -> Candidate | None:
    """The chosen candidate of ``plan``, else its best; None where nothing is feasible."""
    rank = st.session_state.get(_CHOSEN)
    return next((c for c in plan.candidates if c.rank == rank), plan.best)

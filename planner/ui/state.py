"""What a browser session remembers: the scenario as loaded, the scenario as edited, the chosen candidate.

Widget keys start with ``f.`` and carry the field names of :mod:`planner.ui.draft`. The form edits ``loaded``;
loading another scenario forgets every widget value.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.catalog import Catalog
from planner.catalog import catalog as shipped_catalog
from planner.catalog.model_spec import ModelSpec
from planner.errors import PlannerError
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, Plan
from planner.ui import draft, gallery

PREFIX = "f."
_LOADED, _EDITED, _EXAMPLE, _CHOSEN, _SPECS, _ERROR = (
    f"planner.{k}" for k in ("loaded", "edited", "example", "chosen", "specs", "error")
)


def start() -> None:
    """Gives a new session its first scenario."""
    if _LOADED not in st.session_state:
        load_example(gallery.FIRST)


def load(scenario: Scenario, example: str | None = None) -> None:
    """Makes ``scenario`` the one of this session; call it in a callback, before widgets are drawn."""
    for key in [k for k in st.session_state if isinstance(k, str) and k.startswith(PREFIX)]:
        del st.session_state[key]
    st.session_state[_LOADED] = scenario
    st.session_state[_EDITED] = scenario
    st.session_state[_EXAMPLE] = example
    st.session_state[_CHOSEN] = None
    st.session_state[_ERROR] = None


def load_example(id: str) -> None:
    """Makes a shipped example the scenario of this session."""
    load(gallery.example(id).scenario, id)


def catalog() -> Catalog:
    """The catalogue of this session."""
    return shipped_catalog()


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


def specs() -> dict[str, ModelSpec]:
    """Models that this session brought along, by id."""
    known: dict[str, ModelSpec] = st.session_state.setdefault(_SPECS, {})
    spec = loaded().model_spec
    return {**known, spec.id: spec, loaded().model: spec} if spec is not None else dict(known)


def add_spec(spec: ModelSpec) -> None:
    """Remembers a pasted model and chooses it."""
    st.session_state.setdefault(_SPECS, {})[spec.id] = spec
    st.session_state[f"{PREFIX}model"] = spec.id


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

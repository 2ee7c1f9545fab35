"""What all pages talk about: the session's scenario, its plan and the candidate chosen on any of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import streamlit as st

from planner.catalog import Catalog
from planner.errors import PlannerError
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, Plan
from planner.ui import state
from planner.ui.answers import answer
from planner.ui.i18n import _
from planner.ui.sections import errors


@dataclass(frozen=True)
class Current:
    """A scenario and its plan; ``catalog`` is the one it was planned with, entries of the session included, ``key``
    names the plan in widget keys, so that a new plan starts without the selections of another.
    """

    scenario: Scenario
    plan: Plan
    catalog: Catalog
    key: str


@dataclass(frozen=True)
class Answered(Current):
    """One with a feasible candidate: the chosen one, else the best."""

    candidate: Candidate


def current() -> Current | None:
    """The session's scenario, planned; None once an error has been shown in its place."""
    scenario = state.scenario()
    try:
        plan = answer(scenario)
    except PlannerError as error:
        errors.show(error)
        return None
    key = hashlib.sha256(scenario.to_yaml().encode()).hexdigest()[:12]
    candidate = state.chosen(plan)
    if candidate is None:
        return Current(scenario, plan, state.catalog(), key)
    return Answered(scenario, plan, state.catalog(), key, candidate)


def answered() -> Answered | None:
    """The same for pages that speak about a candidate; None once what stands in its place has been shown."""
    found = current()
    if found is None or isinstance(found, Answered):
        return found
    st.info(
        _(
            "Nothing serves this scenario as asked, so there is no deployment to look into. "
            "The plan says what is missing."
        ),
        icon=":material/block:",
    )
    return None

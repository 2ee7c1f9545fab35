"""What would it take? The recommended deployment, why it is the one, and what else there is."""

from __future__ import annotations

import hashlib

import streamlit as st

from planner.errors import PlannerError
from planner.search.plan_schema import Candidate, Plan
from planner.ui import state
from planner.ui.answers import answer
from planner.ui.i18n import _
from planner.ui.sections import candidates, charts, errors, headline, reasons
from planner.ui.sidebar.files import file_stem


def show() -> None:
    """The page."""
    try:
        plan = answer(state.scenario())
    except PlannerError as error:
        errors.show(error)
        return
    candidate = state.chosen(plan)
    if candidate is None:
        _infeasible(plan)
    else:
        _feasible(plan, candidate)


def _feasible(plan: Plan, candidate: Candidate) -> None:
    key = _key(plan)
    headline.show(plan, candidate)
    if candidate != plan.best:
        st.button(_("Back to the best"), icon=":material/undo:", on_click=state.choose, args=(None,))
    charts.show(plan, candidate, key)
    candidates.show(plan, key)
    left, right = st.columns(2, gap="medium")
    with left:
        reasons.show_rejections(plan)
    with right:
        reasons.show_evidence(candidate)
        reasons.show_assumptions(plan)
    _downloads(plan)


def _infeasible(plan: Plan) -> None:
    headline.nothing_feasible(plan)
    reasons.show_misses(plan)
    reasons.show_rejections(plan)
    reasons.show_assumptions(plan)
    _downloads(plan)


def _downloads(plan: Plan) -> None:
    st.subheader(_("Take it home"), anchor=False)
    st.download_button(
        _("Plan (YAML)"),
        data=plan.to_yaml,
        file_name=f"{file_stem(plan.scenario.name)}.plan.yaml",
        mime="application/yaml",
        icon=":material/download:",
        on_click="ignore",
        help=_("Everything on this page and the scenario; loads back here and on the command line."),
    )


def _key(plan: Plan) -> str:
    """Names the selections of one plan, so that a new plan starts without them."""
    return hashlib.sha256(plan.scenario.to_yaml().encode()).hexdigest()[:12]

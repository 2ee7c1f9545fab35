"""What would it take? The recommended deployment, why it is the one, and what else there is."""

from __future__ import annotations

import streamlit as st

from planner.search.plan_schema import Candidate, Plan
from planner.ui import state
from planner.ui.current import Answered, Current, current
from planner.ui.i18n import _
from planner.ui.sections import candidates, charts, headline, reasons, take_home


def show() -> None:
    """The page."""
    found = current()
    if isinstance(found, Answered):
        _feasible(found, found.plan, found.candidate)
    elif found is not None:
        _infeasible(found, found.plan)


def _feasible(found: Answered, plan: Plan, candidate: Candidate) -> None:
    headline.show(plan, candidate)
    if candidate != plan.best:
        st.button(_("Back to the best"), icon=":material/undo:", on_click=state.choose, args=(None,))
    charts.show(plan, candidate, found.key)
    candidates.show(plan, found.key)
    left, right = st.columns(2, gap="medium")
    offers = reasons.Offers(plan)
    with left:
        offers.show_better()
        reasons.show_rejections(plan, offers)
    with right:
        reasons.show_evidence(candidate)
        reasons.show_assumptions(plan)
    take_home.show(found)
    offers.prove()


def _infeasible(found: Current, plan: Plan) -> None:
    headline.nothing_feasible(plan)
    offers = reasons.Offers(plan)
    reasons.show_misses(plan, offers)
    reasons.show_rejections(plan, offers)
    reasons.show_assumptions(plan)
    take_home.show(found)
    offers.prove()

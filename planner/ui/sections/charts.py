"""Frontier, step time and memory, side by side where there is room."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from planner.catalog import Catalog
from planner.model.parameters import ParameterCount
from planner.scenario.load import resolve_model
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, Phase, Plan
from planner.ui import state
from planner.ui.figures.common import CONFIG
from planner.ui.figures.frontier import available, frontier
from planner.ui.figures.memory import memory_bar
from planner.ui.figures.step_time import step_time
from planner.ui.i18n import _
from planner.ui.numbers import duration, sig
from planner.ui.sections import formulas
from planner.ui.words import memory_terms, phases


def show(plan: Plan, candidate: Candidate, key: str) -> None:
    """All three figures; ``key`` tells one plan's selections from another's."""
    left, right = st.columns(2, gap="medium")
    with left:
        show_frontier(plan, candidate, key)
    with right:
        show_step(candidate)
    show_memory(plan, candidate)


def show_frontier(plan: Plan, candidate: Candidate, key: str) -> None:
    """The frontier with its axes to choose; a click on a point chooses that candidate."""
    st.subheader(
        _("What else there is"),
        help=_(
            "Every feasible deployment. Down and left is better for costs and times. "
            "The dotted line joins those that no other beats in both. Click a point to see that deployment."
        ),
        anchor=False,
    )
    offered = {k: a.name for k, a in available(plan).items()}
    with st.container(horizontal=True, gap="small"):
        up = _axis(_("Upwards"), "axis.up", offered, "cost", "rate")
        across = _axis(_("Across"), "axis.across", offered, "tpot", "ttft")
    chart = f"frontier.{key}.{across}.{up}"
    st.plotly_chart(
        frontier(plan, across, up, candidate.rank),
        key=chart,
        on_select=lambda: _picked(chart),
        selection_mode="points",
        config=CONFIG,
        alt=_("Deployments by {up} and {across}").format(up=offered[up], across=offered[across]),
    )


def _axis(label: str, key: str, offered: dict[str, str], first: str, second: str) -> str:
    now = st.session_state.get(key)
    # Put anew in every run, or the browser keeps the label of the language that it was chosen in.
    st.session_state[key] = now if now in offered else first if first in offered else second
    chosen: str = st.selectbox(label, list(offered), key=key, format_func=lambda k: offered[k])
    return chosen


def picked_rank(selection: Any) -> int | None:
    """The rank behind a selection on the frontier; None where nothing that is listed was selected."""
    points = (selection or {}).get("points") or []
    for point in points:
        data = point.get("customdata")
        rank = data[0] if isinstance(data, list | tuple) and data else data
        if isinstance(rank, int | float) and rank > 0:
            return int(rank)
    return None


def _picked(chart: str) -> None:
    rank = picked_rank((st.session_state.get(chart) or {}).get("selection"))
    if rank is not None:
        state.choose(rank)


def show_step(candidate: Candidate) -> None:
    """Where a step's time goes, by kind of step."""
    st.subheader(
        _("Where a step's time goes"),
        help=_(
            "One engine step of the busiest worker. Solid bars add up to the step; hatched parts run "
            "at the same time as other work and cost nothing."
        ),
        anchor=False,
    )
    known = {t.phase for t in candidate.breakdown.terms}
    order: list[Phase] = [p for p in ("decode", "prefill", "mixed") if p in known and p in get_args(Phase)]
    if not order:
        st.caption(_("The plan has no breakdown for this candidate."))
        return
    names = {p: f"{phases()[p]} · {duration(candidate.breakdown.step_ms.get(p))}" for p in order}
    key = "phase"
    if st.session_state.get(key) not in order:
        st.session_state[key] = order[0]
    phase = st.segmented_control(
        _("Kind of step"), order, key=key, format_func=lambda p: names[p], required=True, wrap=True
    )
    phase = phase or order[0]
    st.plotly_chart(
        step_time(candidate, phase),
        config=CONFIG,
        key=f"step.{phase}",
        alt=_("Time of a {phase} by operator, exposed and hidden").format(phase=phases()[phase].lower()),
    )
    formulas.step(candidate, phase)


def show_memory(plan: Plan, candidate: Candidate) -> None:
    """The memory budget of the fullest GPU, and why it counts more parameters than a token uses."""
    st.subheader(
        _("Memory of the fullest GPU"),
        help="\n".join(f"- **{name}**: {text}" for name, text in memory_terms().values()),
        anchor=False,
    )
    st.plotly_chart(memory_bar(candidate), config=CONFIG, key="memory", alt=_("Memory by term against the capacity"))
    size = parameters(plan.scenario.to_yaml(), state.catalog().version, plan.scenario, state.catalog())
    if size.active_without_embedding < 0.9 * size.main:
        st.caption(
            _(
                "A token passes through {active} of {total} parameters (the input embedding, where it is only looked "
                "up, not among them), but memory holds them all: the next token may be routed to any expert."
            ).format(active=billions(size.active_without_embedding), total=billions(size.main))
        )
    formulas.memory(candidate)


@st.cache_data(max_entries=256, show_spinner=False)
def parameters(yaml: str, catalogue: str, _scenario: Scenario, _catalog: Catalog) -> ParameterCount:
    """Parameters of the scenario's model."""
    from planner.model.parameters import count

    return count(resolve_model(_scenario, _catalog))


def billions(parameters: int) -> str:
    """A number of parameters in billions."""
    return _("{n} billion").format(n=sig(parameters / 1e9))

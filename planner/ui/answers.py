"""Plans, kept while the server runs: the same scenario is answered once. Errors are never kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import current_thread

import streamlit as st
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from planner.blas import one_blas_thread
from planner.catalog import Catalog
from planner.catalog import catalog as open_catalog
from planner.scenario.load import check_names
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Plan
from planner.search.planned import Planned
from planner.search.planning import planned
from planner.ui import state
from planner.ui.i18n import _
from planner.ui.processes import processes, worked_out, worked_out_here

KEPT_PLANS = 64


def answer(scenario: Scenario) -> Plan:
    """The plan of ``scenario``, with a sign of life while it is worked out; raises PlannerError."""
    with st.spinner(_("Searching layouts and operating points …"), show_time=True):
        return quiet_answer(scenario, state.catalog())


def quiet_answer(scenario: Scenario, catalog: Catalog) -> Plan:
    """The same without a sign of life, for callers that show their own; raises PlannerError."""
    return answered_with(scenario, catalog).plan


def answered_with(scenario: Scenario, catalog: Catalog) -> Planned:
    """The same with the deployments behind the plan's candidates; raises PlannerError."""
    check_names(scenario, catalog)
    return _planned(scenario.to_yaml(), catalog.version, scenario, catalog)


# A plan is frozen: sessions share one object instead of unpickling a copy of it at every click. Fleets are sized where
# they are shown: that takes up to a third of a plan again.
@st.cache_resource(max_entries=KEPT_PLANS, show_spinner=False)
def _planned(yaml: str, catalogue: str, _scenario: Scenario, _catalog: Catalog) -> Planned:
    # A session's own hardware lies in files that go with the session.
    where = worked_out if _catalog is open_catalog() else worked_out_here
    made = where(_made, _scenario, _catalog)
    _keep_modules()
    return made


def _made(scenario: Scenario, catalog: Catalog) -> Planned:
    with one_blas_thread():
        return planned(scenario, catalog)


@cache
def _keep_modules() -> None:
    """Once everything is loaded: modules and catalogue stay, so that no collection looks through their 200,000 objects
    again, a tenth of a second in which every session waits.
    """
    gc.freeze()


@contextmanager
def side_by_side() -> Iterator[Executor]:
    """Threads of this session that may ask for several plans at once: as many as are worked out at a time.

    Who leaves early, since the page is drawn anew, does not wait for plans that have not begun.
    """
    session = get_script_run_ctx()
    pool = ThreadPoolExecutor(processes(), initializer=lambda: add_script_run_ctx(current_thread(), session))
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def sized_answer(scenario: Scenario, catalog: Catalog, rank: int) -> Plan:
    """The same with the sizing of the candidate of that rank; as it is where nothing serves the scenario."""
    return _sized(scenario.to_yaml(), catalog.version, rank, scenario, catalog)


@st.cache_resource(max_entries=KEPT_PLANS, show_spinner=False)
def _sized(yaml: str, catalogue: str, rank: int, _scenario: Scenario, _catalog: Catalog) -> Plan:
    return answered_with(_scenario, _catalog).sized(rank)

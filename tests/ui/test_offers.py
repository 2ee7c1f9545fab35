"""Buttons that apply a change: where nothing serves the scenario, a limit is offered only with a plan behind it."""

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import planner
from planner.search.plan_schema import Rejection
from planner.ui import state
from tests.ui.conftest import APP, SECONDS
from tests.ui.sample_plan import sample_plan

REACHED, HELD = 40.0, 41.5
"""What the nearest miss seems to reach, and the limit that can be held once it is refined, in ms."""


@pytest.fixture
def refined(monkeypatch):
    """Plans of which nothing holds a TPOT limit under HELD; the list holds the limits that were planned."""
    asked = []

    def plan(scenario, catalog=None):
        limit = scenario.slo.tpot_ms.mean
        asked.append(limit)
        found = sample_plan(scenario)
        if limit >= HELD:
            return found
        nothing = sample_plan(type(scenario).from_dict(scenario.to_dict() | {"slo": {"tpot_ms": {"mean": 10.0}}}))
        reached = REACHED if limit < REACHED else HELD - 0.2
        values = {"reason": "slo_tpot", "needed": reached, "available": limit, "unit": "ms"}
        miss = nothing.nearest_misses[0].model_copy(update=values)
        other = Rejection(**values, count=3, example="e")
        return nothing.model_copy(update={"scenario": scenario, "nearest_misses": (miss, miss), "rejected": (other,)})

    monkeypatch.setitem(vars(planner), "plan", plan)
    st.cache_resource.clear()
    yield asked
    st.cache_resource.clear()


def test_the_button_leads_to_a_plan(refined):
    app = AppTest.from_file(str(APP), default_timeout=SECONDS).run()
    app.number_input(key=f"{state.PREFIX}slo.tpot_ms.limit").set_value(30.0).run()
    assert not app.exception
    offers = [b for b in app.main.button if b.label.startswith("Try")]
    assert [b.label for b in offers] == ["Try: TPOT limit \\(mean\\) of 42.2 ms instead of 30.0 ms"]
    planned = len(refined)
    offers[0].click().run()
    assert app.metric
    assert len(refined) == planned
    assert refined[-1] == 42.2

"""Buttons that apply a change: where nothing serves the scenario, a limit is offered only with a plan
behind it, and beside a plan only with a better one."""

import pytest
import streamlit as st
from plan_data import many
from streamlit.testing.v1 import AppTest

from planner.catalog import catalog
from planner.search.plan_schema import Rejection, UsdPerMtok
from planner.ui import answers, gallery, state
from tests.ui.conftest import APP, SECONDS, answer_with

REACHED, HELD = 40.0, 41.5
"""What the nearest miss seems to reach, and the limit that can be held once it is refined, in ms."""


@pytest.fixture
def refined(monkeypatch):
    """Plans of which nothing holds a TPOT limit under HELD; the list holds the limits that were planned."""
    asked = []

    def plan(scenario):
        limit = scenario.slo.tpot_ms.mean
        asked.append(limit)
        found = many(scenario)
        if limit >= HELD:
            return found
        nothing = many(type(scenario).from_dict(scenario.to_dict() | {"slo": {"tpot_ms": {"mean": 10.0}}}))
        reached = REACHED if limit < REACHED else HELD - 0.2
        values = {"reason": "slo_tpot", "needed": reached, "available": limit, "unit": "ms"}
        miss = nothing.nearest_misses[0].model_copy(update=values)
        other = Rejection(**values, count=3, example="e")
        return nothing.model_copy(update={"scenario": scenario, "nearest_misses": (miss, miss), "rejected": (other,)})

    answer_with(monkeypatch, plan)
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


@pytest.fixture
def too_few(monkeypatch):
    """Plans that need fp8 or two nodes, as the miss says; what is asked for is enough only with ``enough`` nodes."""
    enough = {"nodes": 3}

    def plan(scenario):
        nodes = scenario.hardware.candidates[0].max_nodes or 0
        found = many(scenario)
        if nodes >= enough["nodes"]:
            return found
        nothing = many(type(scenario).from_dict(scenario.to_dict() | {"slo": {"tpot_ms": {"mean": 10.0}}}))
        values = {"reason": "nodes", "needed": 2.0, "available": 1.0, "unit": "nodes"}
        miss = nothing.nearest_misses[0].model_copy(update=values | {"node": scenario.hardware.candidates[0].node})
        kv = Rejection(reason="memory", count=3, example="e", fix="KV cache in fp8")
        return nothing.model_copy(update={"scenario": scenario, "nearest_misses": (miss,), "rejected": (kv,)})

    answer_with(monkeypatch, plan)
    st.cache_resource.clear()
    yield enough
    st.cache_resource.clear()


def _one_node():
    app = AppTest.from_file(str(APP), default_timeout=SECONDS).run()
    return app.number_input(key=f"{state.PREFIX}max_nodes.hgx-h800").set_value(1).run()


def test_what_is_not_enough_is_said_and_not_offered(too_few):
    app = _one_node()
    assert not app.exception
    assert not [b for b in app.main.button if b.label.startswith("Try")]
    said = [c.value for c in app.main.caption if "is not enough; no plan was found with it" in c.value]
    assert len(said) == 2
    assert "up to 2 nodes of HGX H800" in said[0].replace("\\", "")
    assert "KV cache in fp8" in said[1]


def test_what_is_enough_is_offered(too_few):
    too_few["nodes"] = 2
    app = _one_node()
    first = next(b for b in app.main.button if b.label.startswith("Try"))
    assert first.label == "Try: up to 2 nodes of HGX H800"
    first.click().run()
    assert app.metric


def _missed(plan, limit):
    miss = many(type(plan.scenario).from_dict(plan.scenario.to_dict() | {"slo": {"tpot_ms": {"mean": 10.0}}}))
    values = {"reason": "slo_tpot", "needed": limit, "available": plan.scenario.slo.tpot_ms.mean, "unit": "ms"}
    return plan.model_copy(update={"better": (miss.nearest_misses[0].model_copy(update=values),)})


@pytest.fixture(params=[0.9, 0.99])
def loosened(request, monkeypatch):
    """Plans that cost less by a factor under looser limits than the example's; something is refused under any."""
    first = gallery.example(gallery.FIRST).scenario
    usual = first.slo.tpot_ms.mean
    kv = Rejection(reason="memory", count=3, example="e", fix="KV cache in fp8")
    near = Rejection(reason="slo_tpot", needed=usual * 1.002, available=usual, unit="ms", count=3, example="e")

    def plan(scenario):
        found = many(first)  # the same deployments under any limit
        factor = request.param if scenario.slo.tpot_ms.mean > usual else 1.0
        cheaper = [
            c.model_copy(update={"usd_per_mtok": UsdPerMtok(output=c.usd_per_mtok.output * factor)})
            for c in found.candidates
        ]
        found = found.model_copy(update={"scenario": scenario, "candidates": tuple(cheaper), "rejected": (kv, near)})
        return _missed(found, scenario.slo.tpot_ms.mean * 1.1)

    answer_with(monkeypatch, plan)
    st.cache_resource.clear()
    yield request.param
    st.cache_resource.clear()


def test_beside_a_plan_only_what_leads_to_a_better_one_is_offered(loosened):
    app = AppTest.from_file(str(APP), default_timeout=SECONDS).run()
    assert not app.exception
    assert app.metric
    offers = [b for b in app.main.button if b.label.startswith("Try")]
    if loosened == 0.99:
        assert not offers
        return
    (one,) = offers
    assert "TPOT limit" in one.label
    assert "lowest cost per token" in one.label
    before, limit = app.metric[0].value, app.number_input(key=f"{state.PREFIX}slo.tpot_ms.limit").value
    one.click().run()
    assert app.metric[0].value != before
    assert app.number_input(key=f"{state.PREFIX}slo.tpot_ms.limit").value > limit
    assert not [b for b in app.main.button if b.label.startswith("Try")], "nothing more is gained: no ratchet"


def test_a_limit_and_something_else_is_no_offer_where_the_limit_is_enough(refined, monkeypatch):
    plain = answers.planned

    def plan(scenario):
        found = plain(scenario, catalog()).plan
        kv = Rejection(reason="memory", count=3, example="e", fix="KV cache in fp8")
        return found if found.best is not None else found.model_copy(update={"rejected": (kv,)})

    answer_with(monkeypatch, plan)
    app = AppTest.from_file(str(APP), default_timeout=SECONDS).run()
    app.number_input(key=f"{state.PREFIX}slo.tpot_ms.limit").set_value(30.0).run()
    assert [b.label for b in app.main.button if b.label.startswith("Try")] == [
        "Try: TPOT limit \\(mean\\) of 42.2 ms instead of 30.0 ms"
    ]

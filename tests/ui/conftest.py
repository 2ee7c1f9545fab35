"""The app with hand-made plans: what the page does with a plan is tested without a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("plotly")

import streamlit as st
from plan_data import many
from streamlit.testing.v1 import AppTest

from planner.catalog import Catalog
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Plan
from planner.search.planned import Planned
from planner.search.setup import setup
from planner.ui import answers, gallery

APP = Path(__file__).resolve().parents[2] / "app.py"
SECONDS = 60


@pytest.fixture
def scenario() -> Scenario:
    """The example that a first-time visitor sees."""
    return gallery.example(gallery.FIRST).scenario


@pytest.fixture
def plan(scenario: Scenario) -> Plan:
    """A hand-made plan of it."""
    return many(scenario)


def answer_with(monkeypatch: pytest.MonkeyPatch, make: Callable[[Scenario], Plan]) -> None:
    """Lets the app answer with the plans that ``make`` gives."""

    def quick(scenario: Scenario, catalog: Catalog) -> Planned:
        return Planned(setup(scenario, catalog), make(scenario), (), ())

    monkeypatch.setattr(answers, "planned", quick)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Scenario]]:
    """Plans are hand-made; the list holds every scenario that was planned."""
    asked: list[Scenario] = []

    def quick(scenario: Scenario) -> Plan:
        asked.append(scenario)
        return many(scenario)

    answer_with(monkeypatch, quick)
    st.cache_resource.clear()
    yield asked
    st.cache_resource.clear()


@pytest.fixture
def app(planned: list[Scenario]) -> AppTest:
    """The app after its first run."""
    return AppTest.from_file(str(APP), default_timeout=SECONDS).run()

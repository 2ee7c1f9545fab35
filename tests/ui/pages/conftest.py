"""One page at a time, with real plans of small examples."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("plotly")

from streamlit.testing.v1 import AppTest

from planner.catalog import catalog
from planner.search.planning import plan
from planner.ui import gallery
from planner.ui.current import Answered
from planner.ui.subject import Subject, subject_of

SECONDS = 60
SMALL, SPLIT, INFEASIBLE = "gpt-oss-120b-h100", "kimi-k2-gb200", "infeasible-405b-one-h100"


def _script(page: str, example: str) -> None:
    from importlib import import_module

    import streamlit as st

    from planner.ui import state

    if "test.loaded" not in st.session_state:
        state.load_example(example)
        st.session_state["test.loaded"] = True
    state.start()
    import_module(f"planner.ui.pages.{page}").show()


@pytest.fixture(scope="session")
def open_page() -> Callable[[str, str], AppTest]:
    """A page after its first run, started from an example; without the sidebar."""

    def go(page: str, example: str) -> AppTest:
        return AppTest.from_function(_script, args=(page, example), default_timeout=SECONDS).run()

    return go


def subject_of_example(example: str) -> Subject:
    """The best deployment of a shipped example."""
    scenario = gallery.example(example).scenario
    found = plan(scenario)
    assert found.best is not None
    subject = subject_of(Answered(scenario, found, catalog(), "test", found.best))
    assert subject is not None
    return subject


@pytest.fixture(scope="session")
def small() -> Subject:
    """An aggregated deployment of a mixture of experts on two GPUs."""
    return subject_of_example(SMALL)


@pytest.fixture(scope="session")
def split() -> Subject:
    """A disaggregated deployment with expert parallelism."""
    return subject_of_example(SPLIT)

"""Pieces of long work that meet: where each is worked out, and what comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("loky")

from planner.catalog import catalog
from planner.errors import InputError, UnknownNameError
from planner.search.planning import planned
from planner.ui import gallery, processes
from planner.ui.processes import VARIABLE, worked_out, worked_out_here

SECONDS = 60
HERE = os.getpid()


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Places of this test alone."""
    processes._places.cache_clear()
    yield monkeypatch
    processes._places.cache_clear()


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    """The process beside ends with the tests of this file."""
    yield
    processes._beside().shutdown(wait=True, kill_workers=True)


@pytest.fixture
def beside(allow, workers) -> Iterator[None]:
    """Something else is being worked out here, and the one process beside is up."""
    allow.setenv(VARIABLE, "2")
    begun, end = Event(), Event()

    def busy() -> None:
        begun.set()
        end.wait(SECONDS)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(worked_out, busy)
        begun.wait(SECONDS)
        assert worked_out(os.getpid) != HERE
        yield
        end.set()


def test_one_alone_is_worked_out_here(allow):
    allow.setenv(VARIABLE, "3")
    assert [worked_out(os.getpid) for _ in range(2)] == [HERE, HERE]
    assert processes._places()._to_start == 2  # nothing was started


def test_what_meets_another_is_worked_out_beside(beside):
    scenario = gallery.example("deepseek-r1-h200").scenario
    there = worked_out(planned, scenario, catalog())
    assert there.plan.to_yaml() == planned(scenario, catalog()).plan.to_yaml()
    assert there.sized(1).best.sizing is not None
    assert there.setup.catalog is catalog()


def test_an_error_comes_back_as_it_was(beside):
    def fails() -> None:
        raise UnknownNameError("node", "dgx-h100x", ["dgx-h100", "dgx-h200"])

    with pytest.raises(UnknownNameError, match="did you mean dgx-h100") as caught:
        worked_out(fails)
    assert (caught.value.field, caught.value.given) == ("node", "dgx-h100x")


def test_what_cannot_leave_waits_for_its_place(allow):
    allow.setenv(VARIABLE, "1")
    begun, end, order = Event(), Event(), []

    def first() -> None:
        begun.set()
        end.wait(SECONDS)
        order.append("first")

    with ThreadPoolExecutor(3) as pool:
        pool.submit(worked_out, first)
        begun.wait(SECONDS)
        others: list[Future[None]] = [pool.submit(w, order.append, "then") for w in (worked_out, worked_out_here)]
        time.sleep(0.05)
        assert order == []
        end.set()
        for other in others:
            other.result(SECONDS)
    assert order == ["first", "then", "then"]


def test_a_lost_process_costs_no_answer(allow, workers, caplog):
    allow.setenv(VARIABLE, "2")
    begun, there = Event(), Event()

    def busy() -> None:
        begun.set()
        there.wait(SECONDS)

    def dies_beside(home: int) -> int:
        if os.getpid() != home:
            os._exit(9)
        return os.getpid()

    with ThreadPoolExecutor(2) as pool:
        pool.submit(worked_out, busy)
        begun.wait(SECONDS)
        answer = pool.submit(worked_out, dies_beside, HERE)
        while "was lost" not in caplog.text and not answer.done():
            time.sleep(0.02)
        there.set()
        assert answer.result(SECONDS) == HERE
        assert "was lost" in caplog.text


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", ""])
def test_a_number_of_processes_that_is_none_is_named(allow, given):
    allow.setenv(VARIABLE, given)
    with pytest.raises(InputError, match=f"{VARIABLE}: got '{given}'; a whole number from 1"):
        worked_out(os.getpid)


def test_cores_decide_where_nothing_is_said(allow):
    allow.delenv(VARIABLE, raising=False)
    assert 1 <= processes.processes() <= min(os.cpu_count() or 1, processes.MOST)

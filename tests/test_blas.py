"""One thread of BLAS while rows are planned, also where callers overlap; the caller's own number afterwards."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_info, threadpool_limits

from planner.blas import one_blas_thread


def threads() -> set[int]:
    return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two() -> object:
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2, user_api="blas"):
        yield


def test_one_inside_and_the_callers_number_outside() -> None:
    with one_blas_thread():
        assert threads() == {1}
    assert threads() == {2}


def test_every_thread_has_one_until_the_last_leaves() -> None:
    inside, leave = threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def other() -> None:
        with one_blas_thread():
            inside.set()
            assert leave.wait(10)
            seen.append(threads())

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with one_blas_thread():
        assert threads() == {1}
        leave.set()
        thread.join()
        assert threads() == {1}
    assert seen == [{1}]
    assert threads() == {2}


def test_an_error_lifts_it_too() -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert threads() == {2}

"""Sweeps: identical over every executor, resumed after an interruption, lost workers retried."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import InputError, PlannerError
from planner.search.record import Record
from planner.sweeps import run as module
from planner.sweeps.grid import expand
from planner.sweeps.store import Store

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BASE = planner.load_scenario(EXAMPLES / "qwen3-32b-l40s.yaml").to_dict()
REAL = module.answer
GRID = {"workload.arrival.rate_rps": [1, 3, "x"], "workload.prefix_hit_rate": [0.0, 0.5]}


@pytest.fixture(scope="module")
def scenarios() -> list[Any]:
    return expand(BASE, GRID)


@pytest.fixture(scope="module")
def serial(scenarios: list[Any]) -> list[Record]:
    return planner.sweep(scenarios)


def test_rows_in_order_and_bad_ones_kept(serial: list[Record]) -> None:
    assert [r["index"] for r in serial] == list(range(6))
    assert [r["status"] for r in serial] == ["ok"] * 4 + ["error"] * 2
    assert "rate_rps" in str(serial[4]["message"])


def test_any_form_of_scenario(serial: list[Record], tmp_path: Path) -> None:
    path = EXAMPLES / "qwen3-32b-l40s.yaml"
    rows = planner.sweep([path, str(path), planner.load_scenario(path), BASE, tmp_path / "none.yaml"])
    assert len({r["key"] for r in rows[:4]}) == 1
    assert rows[4]["status"] == "error"


def test_process_pool(scenarios: list[Any], serial: list[Record]) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert planner.sweep(scenarios, pool) == serial


def test_threads(scenarios: list[Any], serial: list[Record]) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert planner.sweep(scenarios, pool) == serial


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_resumes_where_it_stopped(
    name: str, scenarios: list[Any], serial: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / name
    asked: list[int] = []
    real = module.answer

    def stops(task: Mapping[str, Any]) -> Record:
        asked.append(task["index"])
        if len(asked) == 3:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(module, "answer", stops)
    with pytest.raises(KeyboardInterrupt):
        planner.sweep(scenarios, out=out)
    assert asked == [0, 1, 2]
    assert planner.sweep(scenarios, out=out) == serial
    assert asked == [0, 1, 2, 2, 3]
    first = out.read_bytes()
    seen: list[Any] = []
    rows = planner.sweep(scenarios, out=out, progress=lambda *done: seen.append(done), kept=lambda *n: seen.append(n))
    assert rows == serial
    assert asked == [0, 1, 2, 2, 3]
    assert seen == [(6, 0)]
    assert out.read_bytes() == first


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_kept_rows_are_not_told_as_new(name: str, scenarios: list[Any], serial: list[Record], tmp_path: Path) -> None:
    """How many rows the file had, how many are left; then the new ones alone, counted on from there."""
    out = tmp_path / name
    planner.sweep([scenarios[0], scenarios[1], scenarios[4]], out=out)
    seen: list[Any] = []
    rows = planner.sweep(scenarios, out=out, progress=lambda *done: seen.append(done), kept=lambda *n: seen.append(n))
    assert rows == serial
    assert seen[0] == (3, 3)
    assert sorted(row["index"] for _, _, row in seen[1:]) == [2, 3, 5]
    assert [(done, total) for done, total, _ in seen[1:]] == [(4, 6), (5, 6), (6, 6)]


def test_the_file_is_the_same_from_every_executor(scenarios: list[Any], tmp_path: Path) -> None:
    planner.sweep(scenarios, out=tmp_path / "a.csv")
    with ThreadPoolExecutor(3) as pool:
        planner.sweep(list(scenarios), pool, tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_rows_of_other_scenarios_are_not_dropped(
    name: str, scenarios: list[Any], serial: list[Record], tmp_path: Path
) -> None:
    out = tmp_path / name
    planner.sweep(scenarios[:2], out=out)
    first = out.read_bytes()
    with pytest.raises(InputError, match=r"a new file, .*: this one has 1 row of other scenarios, such as ") as refused:
        planner.sweep(scenarios[1:3], out=out)
    assert str(refused.value).endswith(f"{serial[0]['name']!r}"), "the example is not cut"
    assert out.read_bytes() == first
    assert planner.sweep(scenarios, out=out) == serial, "a sweep that has them too goes on"


def deadly(folder: str, lives: int, task: Mapping[str, Any]) -> Record:
    """Answers, except that scenario 1 costs the first ``lives`` workers that try it their lives."""
    if task["index"] == 1:
        tries = Path(folder) / f"{os.getpid()}"
        tries.touch()
        if len(list(Path(folder).iterdir())) <= lives:
            os._exit(1)
    return REAL(task)


@pytest.mark.parametrize(("lives", "status"), [(1, "ok"), (9, "lost")])
def test_a_lost_worker_is_replaced(
    lives: int,
    status: str,
    scenarios: list[Any],
    serial: list[Record],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "answer", partial(deadly, str(tmp_path), lives))
    made = partial(ProcessPoolExecutor, 2, mp_context=get_context("fork"))
    rows = planner.sweep(scenarios, made)
    assert rows[1]["status"] == status
    assert [r for r in rows if r["index"] != 1] == [r for r in serial if r["index"] != 1]
    if status == "lost":
        assert "no answer after 3 tries" in str(rows[1]["message"])


def test_a_pool_that_cannot_be_replaced_says_how(
    scenarios: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "answer", partial(deadly, str(tmp_path), 9))
    with (
        ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool,
        pytest.raises(PlannerError, match="a function that makes the executor"),
    ):
        planner.sweep(scenarios, pool)


class Flaky(Executor):
    """An executor whose workers are lost one by one, as a cluster reports it: as an exception of the future."""

    def __init__(self, losses: int) -> None:
        self.losses = losses

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.losses:
            self.losses -= 1
            future.set_exception(ConnectionError("worker gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_tasks_lost_by_a_cluster_are_sent_again(scenarios: list[Any], serial: list[Record]) -> None:
    assert planner.sweep(scenarios, Flaky(3)) == serial
    rows = planner.sweep(scenarios[:1], Flaky(3))
    assert rows[0]["status"] == "lost"
    assert "ConnectionError" in str(rows[0]["message"])


class Plain(ThreadPoolExecutor):
    """An executor whose shutdown takes ``wait`` alone, as Dask's does, and may fail."""

    error: Exception | None = None

    def shutdown(self, wait: bool = True) -> None:  # type: ignore[override]
        super().shutdown(wait)
        if self.error is not None:
            raise self.error


class Stuck(Plain):
    error = ConnectionError("cluster gone")


def test_an_executor_that_takes_wait_alone_when_it_is_shut_down(scenarios: list[Any], serial: list[Record]) -> None:
    made: list[Plain] = []
    rows = planner.sweep(scenarios, lambda: made.append(Plain(2)) or made[-1])  # type: ignore[func-returns-value]
    assert rows == serial
    with pytest.raises(RuntimeError, match="after shutdown"):
        made[0].submit(int)


def test_no_row_goes_with_an_executor_that_cannot_be_shut_down(scenarios: list[Any], serial: list[Record]) -> None:
    with pytest.warns(RuntimeWarning, match=r"ConnectionError: cluster gone"):
        assert planner.sweep(scenarios, lambda: Stuck(2)) == serial


def test_a_programming_error_is_a_row(scenarios: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scenario: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(module, "plan", broken)
    assert planner.sweep(scenarios[:1])[0]["message"] == "ZeroDivisionError: oops"


def test_dask_on_loopback(scenarios: list[Any], serial: list[Record]) -> None:
    # Last in the file: the tests above fork, which does not go with the threads that a client leaves behind.
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None, host="127.0.0.1", protocol="tcp"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert planner.sweep(scenarios, client.get_executor()) == serial
        assert planner.sweep(scenarios, client.get_executor) == serial, "made by a function, and shut down by the sweep"


def test_a_dask_worker_that_dies_is_replaced(
    scenarios: list[Any], serial: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are processes with BLAS settings of their own (Dask's nanny sets one thread); one is killed under way."""
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    seen: list[int] = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))

        def told(done: int, total: int, row: Record) -> None:
            seen.append(done)
            if done == 3:
                os.kill(victim, signal.SIGKILL)

        out = tmp_path / "out.parquet"
        assert planner.sweep(scenarios, client.get_executor(), out, progress=told) == serial
        client.wait_for_workers(2, timeout=60)
        assert victim not in client.run(os.getpid).values()
    assert seen == [1, 2, 3, 4, 5, 6]
    assert list(Store(out).held().values()) == serial

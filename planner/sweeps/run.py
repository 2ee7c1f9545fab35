"""Sweeps: many scenarios over any executor, with the answers of a serial run."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path
from typing import Any, cast

from planner.blas import one_blas_thread
from planner.catalog import catalog
from planner.errors import InputError, PlannerError
from planner.scenario.load import check_names, load_scenario, scenario_from_data
from planner.scenario.schema import Scenario
from planner.search.planning import plan, versions
from planner.search.record import Record, blank, record
from planner.sweeps.store import COLUMNS, Store

Question = Scenario | Mapping[str, Any] | str | Path
Progress = Callable[[int, int, Record], None]
Kept = Callable[[int, int], None]
IN_FLIGHT = 64
"""Scenarios handed to an executor at a time, so that a sweep of any size needs little memory."""
RETRIES = 2


def sweep(
    scenarios: Iterable[Question],
    executor: Executor | Callable[[], Executor] | None = None,
    out: str | Path | None = None,
    *,
    progress: Progress | None = None,
    kept: Kept | None = None,
    retries: int = RETRIES,
) -> list[Record]:
    """Plans every scenario; returns one row each, in their order, whatever the executor.

    ``scenarios`` are Scenario objects, plain data or paths. ``executor`` is any of concurrent.futures' kind (a process
    pool, Dask's ``client.get_executor()``); None works one after the other. A function that makes one may be given
    instead: a pool that breaks because a worker died is then replaced. Rows (:data:`planner.sweeps.store.COLUMNS`)
    stream to ``out`` (.csv or .parquet); rows that the file already holds for the same scenario and the same versions
    are taken from there; a file with rows of other scenarios is refused (InputError). ``kept`` is called
    once, as ``kept(rows taken from there, rows to plan)``; ``progress`` as ``progress(done, total, row)`` for each row
    that is made, ``done`` with those from there counted in.

    A scenario that cannot be read, or that nothing serves, keeps its row with ``status`` and ``message``. One whose
    worker is lost is tried again up to ``retries`` times, alone where a pool broke, and then marked ``lost``.
    """
    tasks, rows = _prepare(list(scenarios))
    store = None if out is None else Store(Path(out))
    total, done = len(rows), 0

    def finished(index: int, row: Record) -> None:
        nonlocal done
        rows[index] = row
        done += 1
        if store is not None:
            store.append(row)
        if progress is not None:
            progress(done, total, row)

    held = {} if store is None else store.held()
    if store is not None:
        _same_sweep(store, held, {str(t["key"]) for t in tasks.values()} | {str(r["key"]) for r in rows if r})
    unread = [index for index, row in enumerate(rows) if row is not None and row["key"] not in held]
    waiting = [index for index, task in tasks.items() if task["key"] not in held]
    for index, task in tasks.items():
        if task["key"] in held:
            rows[index] = {**held[task["key"]], "index": index}
    done = total - len(unread) - len(waiting)
    if kept is not None:
        kept(done, total - done)
    try:
        for index in unread:
            finished(index, cast(Record, rows[index]))
        for index, row in _run(waiting, tasks, executor, retries):
            finished(index, row)
        answers = [row for row in rows if row is not None]
        if store is not None:
            store.finish(answers)
        return answers
    finally:
        if store is not None:
            store.close()


def answer(task: Mapping[str, Any]) -> Record:
    """One row, in whichever process; never raises, so that an exception always means a lost worker."""
    try:
        scenario = scenario_from_data(task["scenario"])
        check_names(scenario, catalog())
        with one_blas_thread():
            found = record(plan(scenario))
    except PlannerError as error:
        found = blank("error", str(error))
    except Exception as error:
        found = blank("error", f"{type(error).__name__}: {error}")
    return _row(task, found)


def _prepare(scenarios: list[Question]) -> tuple[dict[int, dict[str, Any]], list[Record | None]]:
    """What to send to workers by index, and the rows that are known at once: scenarios that cannot be read."""
    made = versions(catalog()).model_dump()
    tasks: dict[int, dict[str, Any]] = {}
    rows: list[Record | None] = [None] * len(scenarios)
    for index, given in enumerate(scenarios):
        label = str(given.get("name", "")) if isinstance(given, Mapping) else str(getattr(given, "name", given))
        task: dict[str, Any] = {"index": index, "name": label, "model": None, "versions": made}
        try:
            scenario = _scenario(given)
        except PlannerError as error:
            rows[index] = _row({**task, "key": _key([str(given), made])}, blank("error", str(error)))
            continue
        data = scenario.to_dict()
        tasks[index] = {**task, "name": scenario.name, "model": scenario.model, "scenario": data}
        tasks[index]["key"] = _key([data, made])
    return tasks, rows


def _same_sweep(store: Store, held: Mapping[str, Record], keys: set[str]) -> None:
    """Refuses a file with rows that this sweep would drop: of these versions, but of scenarios that it has not."""
    made = versions(catalog()).model_dump()
    others = [r for key, r in held.items() if key not in keys and all(r[k] == v for k, v in made.items())]
    if others:
        found = f"{len(others):,} row{'s' if len(others) > 1 else ''} of other scenarios, such as {others[0]['name']!r}"
        allowed = f"a new file, or the file of this very sweep: this one has {found}"
        raise InputError("out", store.path.name, allowed)


def _scenario(given: Question) -> Scenario:
    if isinstance(given, Scenario):
        return given
    return scenario_from_data(dict(given)) if isinstance(given, Mapping) else load_scenario(given)


def _key(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:20]


def _row(task: Mapping[str, Any], found: Record) -> Record:
    known = {**found, **task["versions"], **{k: task[k] for k in ("index", "key", "name", "model")}}
    return {c: known[c] for c in COLUMNS}


def _run(
    waiting: list[int],
    tasks: Mapping[int, Mapping[str, Any]],
    executor: Executor | Callable[[], Executor] | None,
    retries: int,
) -> Iterator[tuple[int, Record]]:
    """(index, row) as they come."""
    if executor is None:
        yield from ((index, answer(tasks[index])) for index in waiting)
        return
    yield from _Runner(tasks, executor, retries).run(waiting)


def _let_go(pool: Executor, wait: bool) -> None:
    """Shuts an executor down whose futures are done or cancelled. An error there is said and not raised: the rows that
    were planned must not go with it.

    ``wait`` alone is given: not every executor takes ``cancel_futures`` (Dask's does not).
    """
    try:
        pool.shutdown(wait=wait)
    except Exception as error:
        told = f"the executor was not shut down ({type(error).__name__}: {error}); no row is missing because of it"
        warnings.warn(told, RuntimeWarning, stacklevel=2)


class _Runner:
    """Keeps an executor busy, and finds out which scenario costs workers their lives."""

    def __init__(
        self, tasks: Mapping[int, Mapping[str, Any]], executor: Executor | Callable[[], Executor], retries: int
    ) -> None:
        self.tasks, self.retries = tasks, retries
        self.make: Callable[[], Executor] | None = None if isinstance(executor, Executor) else executor
        self.pool = executor if isinstance(executor, Executor) else executor()
        self.lost: dict[int, int] = {}

    def run(self, waiting: list[int]) -> Iterator[tuple[int, Record]]:
        """Rows of ``waiting``, in the order in which they are done."""
        queue = list(reversed(waiting))
        suspects: list[int] = []
        futures: dict[Future[Record], int] = {}
        try:
            while queue or suspects or futures:
                # After a pool broke, what was running is tried one at a time: only the culprit breaks it again.
                if suspects and not futures:
                    self._submit(suspects.pop(0), futures)
                while not suspects and queue and len(futures) < IN_FLIGHT:
                    if not self._submit(queue[-1], futures):
                        break
                    queue.pop()
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    index = futures.pop(future, None)
                    if index is None:
                        continue
                    try:
                        row = future.result()
                    except BrokenExecutor as error:
                        together = [index, *futures.values()]
                        futures.clear()
                        guilty = len(together) == 1
                        self._replace(error)
                        if guilty and self._again(index) is False:
                            yield index, self._gone(index, error)
                            continue
                        suspects = sorted({*suspects, *together})
                    except Exception as error:
                        if self._again(index):
                            suspects.append(index)
                        else:
                            yield index, self._gone(index, error)
                    else:
                        yield index, row
        finally:
            for future in futures:
                future.cancel()
            if self.make is not None:
                _let_go(self.pool, wait=not futures)

    def _submit(self, index: int, futures: dict[Future[Record], int]) -> bool:
        """Hands a scenario over; on a pool found broken in the meantime, after replacing it."""
        try:
            future = self.pool.submit(answer, self.tasks[index])
        except BrokenExecutor as error:
            if futures:
                return False  # what is running fails in a moment, and is taken care of there
            self._replace(error)
            future = self.pool.submit(answer, self.tasks[index])
        futures[future] = index
        return True

    def _again(self, index: int) -> bool:
        self.lost[index] = self.lost.get(index, 0) + 1
        return self.lost[index] <= self.retries

    def _replace(self, error: BaseException) -> None:
        if self.make is None:
            raise PlannerError(
                f"a worker died and its pool with it ({error}); give sweep a function that makes the executor, and "
                "a broken pool is replaced"
            ) from error
        _let_go(self.pool, wait=False)
        self.pool = self.make()

    def _gone(self, index: int, error: BaseException) -> Record:
        tries = self.lost[index]
        why = " ".join(str(error).split())[:200]
        text = f"no answer after {tries} tries ({type(error).__name__}: {why}); workers that die usually lack memory"
        return _row(self.tasks[index], blank("lost", text))

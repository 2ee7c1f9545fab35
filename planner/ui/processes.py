"""Long work, as many pieces at a time as there are cores: one in the app's process, the others in processes beside it.

Threads of one process share one core, so that several sessions would wait for each other whatever the server has. The
processes start when two pieces meet for the first time and end when nothing has met for a while; one session alone
never needs them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from threading import Condition, Thread
from typing import ParamSpec, TypeVar, cast

from planner.errors import InputError
from planner.ui.gallery import FIRST, example

P = ParamSpec("P")
R = TypeVar("R")

VARIABLE = "PLANNER_PROCESSES"
MOST = 8
"""Processes where the variable does not say: each beside the app takes about 150 MB."""
IDLE_S = 900
_log = logging.getLogger(__name__)


def processes() -> int:
    """Processes that work at a time, the app's own among them: what the variable says, else one a core, at most eight.

    Raises InputError for a variable that is no whole number from 1.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        from loky import cpu_count

        return min(int(cpu_count()), MOST)
    if not given.isdecimal() or int(given) < 1:
        raise InputError(VARIABLE, given, "a whole number from 1")
    return int(given)


def worked_out(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """``work`` of these arguments, here where nothing else is worked out, else in a process beside, else when one of
    both is free. What goes in and comes out is pickled; so is an error, which is raised here.
    """
    places = _places()
    if places.take():
        try:
            return work(*args, **kwargs)
        finally:
            places.give(here=True)
    try:
        return _beside().submit(work, *args, **kwargs).result()
    except (BrokenProcessPool, OSError) as lost:  # killed for memory, or none could start
        _log.warning("a process beside the app was lost, its work is done in the app: %r", lost)
        _beside.cache_clear()  # others follow
    finally:
        places.give(here=False)
    return worked_out_here(work, *args, **kwargs)


def worked_out_here(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same in this process, for what cannot leave it."""
    places = _places()
    places.take(only_here=True)
    try:
        return work(*args, **kwargs)
    finally:
        places.give(here=True)


class _Places:
    """The places that are free: one here, and one in each process beside that is up."""

    def __init__(self, beside: int) -> None:
        self._changed = Condition()
        self._here, self._beside = True, 0
        self._to_start = beside

    def take(self, *, only_here: bool = False) -> bool:
        """Waits for a place; whether it is the one here."""
        with self._changed:
            if not self._here and self._to_start:
                Thread(target=_start, args=(self, self._to_start), daemon=True).start()
                self._to_start = 0
            self._changed.wait_for(lambda: self._here or (self._beside > 0 and not only_here))
            if self._here:
                self._here = False
                return True
            self._beside -= 1
            return False

    def give(self, *, here: bool) -> None:
        """The place is free again."""
        with self._changed:
            self._here, self._beside = self._here or here, self._beside + (not here)
            self._changed.notify_all()


@cache
def _places() -> _Places:
    return _Places(processes() - 1)


def _start(places: _Places, count: int) -> None:
    """Starts the processes; each is a place as soon as it has loaded what plans need."""

    def up(ready: Future[None]) -> None:
        if ready.exception() is None:
            places.give(here=False)
        else:
            _log.warning("no process beside the app: %r", ready.exception())

    try:
        for ready in [_beside().submit(_ready) for _ in range(count)]:
            ready.add_done_callback(up)
    except OSError as error:
        _log.warning("no process beside the app: %r", error)


@cache
def _beside() -> Executor:
    """The processes: they start when they are asked, again where they ended."""
    from loky import ProcessPoolExecutor

    return cast(Executor, ProcessPoolExecutor(max(processes() - 1, 1), timeout=IDLE_S, initializer=_load))


def _load() -> None:
    """Reads what every plan needs: the first one that is asked for takes no longer than the next."""
    import gc

    from planner.search.planning import planned

    planned(example(FIRST).scenario)
    gc.freeze()


def _ready() -> None:
    """Returns once a process has loaded everything."""

"""One thread of BLAS: the last digit of a sum depends on their number, and answers must not; and on matrices of a few
hundred rows several threads only wait for each other, a hundred times as long as they work where cores are busy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_LOCK = threading.Lock()
_FIRST: list[Any] = []
"""The limit that the first caller inside set: it knows the number from before."""
_INSIDE: list[object] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limits BLAS to one thread inside; callers in several threads may overlap.

    Some builds of OpenBLAS keep the number by thread and some by process: every caller sets it, the last to leave lifts
    it.
    """
    me = object()
    with _LOCK:
        limit = _controller().limit(limits=1, user_api="blas")
        if not _INSIDE:
            _FIRST[:] = [limit]
        _INSIDE.append(me)
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.remove(me)
            if not _INSIDE:
                _FIRST.pop().restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries that are loaded; those of NumPy and SciPy are, by then."""
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()

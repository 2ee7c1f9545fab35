"""Many planning sessions at once: ``python benchmarks/ui_sessions.py`` starts the app on loopback, opens twenty
sessions over the websocket that a browser uses, and prints seconds, one figure to a line.

* ``first_page_s``: from the connection until the whole first page has arrived, the first session of a fresh server.
* ``changed_input_s``: one session alone changes a limit; p50 of its changes. Every change is a question of its own, so
  that no answer comes from the cache.
* ``spread_p50_s``, ``spread_p95_s``: twenty sessions, each changing a limit every ``--think`` seconds on average.
* ``burst_p50_s``, ``burst_p95_s``: all of them change a limit in the same moment.

``--sessions``, ``--changes``, ``--think`` and ``--example`` change the load; ``--address`` drives a server that runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
STARTED_WITHIN_S = 60
ANSWERED_WITHIN_S = 120
CHANGED = "TPOT, ms"
"""Label of the number that the sessions change."""


class Session:
    """A browser without a screen: takes part in the protocol, remembers the widgets it needs."""

    def __init__(self, address: str, query: str) -> None:
        parts = urlsplit(address)
        self._url = f"ws://{parts.netloc}{parts.path.rstrip('/')}/_stcore/stream"
        self._query = query
        self._widget: str | None = None
        self.failed: str | None = None

    async def __aenter__(self) -> Session:
        import websockets

        self._socket = await websockets.connect(self._url, subprotocols=["streamlit"], max_size=None)  # type: ignore[list-item]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()

    async def ask(self, value: float | None = None) -> float:
        """Runs the page, with the limit set to ``value``; seconds until it has arrived in full."""
        from streamlit.proto.BackMsg_pb2 import BackMsg

        message = BackMsg()
        message.rerun_script.query_string = self._query
        if value is not None:
            assert self._widget is not None, "the page has no such number"
            state = message.rerun_script.widget_states.widgets.add()
            state.id, state.double_value = self._widget, value
        started = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        await asyncio.wait_for(self._finished(), ANSWERED_WITHIN_S)
        return time.perf_counter() - started

    async def _finished(self) -> None:
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        while True:
            message = ForwardMsg.FromString(await self._socket.recv())
            kind = message.WhichOneof("type")
            if kind == "delta" and message.delta.WhichOneof("type") == "new_element":
                element = message.delta.new_element
                if element.WhichOneof("type") == "number_input" and element.number_input.label == CHANGED:
                    self._widget = element.number_input.id
                elif element.WhichOneof("type") == "exception":
                    self.failed = element.exception.message
            elif kind == "script_finished" and message.script_finished in (
                ForwardMsg.FINISHED_SUCCESSFULLY,
                ForwardMsg.FINISHED_WITH_COMPILE_ERROR,
            ):
                return


def _values() -> Iterator[float]:
    """Limits that no session has asked about yet, all of them served."""
    return (50.0 + 0.01 * i for i in itertools.count(1))


async def measure(address: str, sessions: int, changes: int, think_s: float, query: str) -> dict[str, float]:
    """All figures of the module's docstring."""
    fresh, luck = _values(), random.Random(0)
    out: dict[str, float] = {}
    async with Session(address, query) as one:
        out["first_page_s"] = await one.ask()
        alone = [await one.ask(next(fresh)) for _ in range(max(changes, 3))]
        out["changed_input_s"] = sorted(alone)[len(alone) // 2]
        _check([one])
    async with contextlib.AsyncExitStack() as stack:
        everyone = [await stack.enter_async_context(Session(address, query)) for _ in range(sessions)]
        await asyncio.gather(*(s.ask() for s in everyone))

        async def user(session: Session) -> list[float]:
            took = []
            for _ in range(changes):
                await asyncio.sleep(luck.uniform(0, 2 * think_s))
                took.append(await session.ask(next(fresh)))
            return took

        spread = [t for each in await asyncio.gather(*(user(s) for s in everyone)) for t in each]
        burst = await asyncio.gather(*(s.ask(next(fresh)) for s in everyone))
        _check(everyone)
    for name, times in (("spread", spread), ("burst", list(burst))):
        out[f"{name}_p50_s"], out[f"{name}_p95_s"] = np.percentile(times, [50, 95])
    return out


def _check(sessions: list[Session]) -> None:
    failed = [s.failed for s in sessions if s.failed]
    if failed:
        raise SystemExit(f"{len(failed)} sessions failed: {failed[0]}")


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The app on a free loopback port."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    options = ("--server.address", "127.0.0.1", "--server.port", str(port), "--server.fileWatcherType", "none")
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true", *options]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + STARTED_WITHIN_S
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health"):
                break
            if running.poll() is not None or time.monotonic() > until:
                raise SystemExit("the app did not start")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        running.terminate()
        running.wait(10)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--changes", type=int, default=3, help="changes of each session")
    parser.add_argument("--think", type=float, default=30.0, help="mean seconds between changes of a session")
    parser.add_argument("--example", help="id of a shipped example instead of the first one")
    parser.add_argument("--address", help="a server that runs already")
    given = parser.parse_args()
    query = ""
    if given.example:
        from planner.ui import gallery, links

        query = f"s={links.pack(links.Linked(gallery.example(given.example).scenario))}"
    with contextlib.nullcontext(given.address) if given.address else server() as address:
        found = asyncio.run(measure(address, given.sessions, given.changes, given.think, query))
    for name, value in found.items():
        print(f"{name} {value:.2f}")


if __name__ == "__main__":
    main()

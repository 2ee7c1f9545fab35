"""The real app on a loopback port, driven by the system's Chromium."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.browser.app_page import settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STARTED_WITHIN_S = 60
ANSWERED_WITHIN_MS = 30_000


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app's address; the server ends with the tests."""
    pytest.importorskip("streamlit")
    port = _free_port()
    log = tmp_path_factory.mktemp("app") / "log.txt"
    options = {
        "server.port": str(port),
        "server.address": "127.0.0.1",
        "server.headless": "true",
        "server.fileWatcherType": "none",
    }
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    command += [word for key, value in options.items() for word in (f"--{key}", value)]
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait(f"http://127.0.0.1:{port}/_stcore/health", server, log)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < until:
        if server.poll() is not None:
            pytest.fail(f"the app ended: {log.read_text()[-2000:]}")
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.2)
    pytest.fail(f"the app did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip(f"no Chromium is installed ({', '.join(NAMES)})")
    with api.sync_playwright() as play:
        api.expect.set_options(timeout=ANSWERED_WITHIN_MS)
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[Page]:
    """The one tab of all journeys: what it has loaded and compiled serves the next one. Every address that is opened
    in it is a session of its own.
    """
    context = browser.new_context(reduced_motion="reduce", accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(ANSWERED_WITHIN_MS)
    yield page
    context.close()


@pytest.fixture
def visit(tab: Page, address: str) -> Iterator[Callable[..., Page]]:
    """Opens the app, or the page ``at`` of it, in a fresh session and waits for the answer."""

    def go(width: int = 1440, height: int = 1000, scheme: Literal["light", "dark"] = "light", at: str = "") -> Page:
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme=scheme)
        tab.goto(at if at.startswith("http") else f"{address}{at}")
        tab.get_by_test_id("stMain").get_by_role("heading").first.wait_for()
        if not at or at.startswith("?"):  # the first page, of a scenario that is served
            tab.get_by_test_id("stMetric").first.wait_for()
        settled(tab)
        return tab

    yield go
    tab.evaluate("localStorage.clear()")  # a folded sidebar stays folded
    tab.goto("about:blank")

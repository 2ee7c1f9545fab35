"""What journeys read from the page and do to it."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page


def limit(page: Page, metric: str) -> Locator:
    """The number of a limit, in either language."""
    return page.get_by_role("spinbutton", name=re.compile(f"^{metric}(, ms|（ms）)$"))


def answer(page: Page) -> str:
    return page.get_by_test_id("stMain").get_by_role("heading", level=2).first.inner_text()


def figures(page: Page) -> list[str]:
    return page.get_by_test_id("stMetricValue").all_inner_texts()


def set_limit(page: Page, metric: str, value: str) -> None:
    limit(page, metric).fill(value)
    limit(page, metric).press("Enter")
    settled(page)


_QUIET = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  const busy = !app || app.dataset.testScriptState === 'running'
    || document.querySelector('[data-testid=stStatusWidget], [data-stale=true]') !== null;
  const now = performance.now();
  if (busy || window.__quietSince === undefined) window.__quietSince = now;
  return !busy && now - window.__quietSince > 250;
}"""
"""The app has not run for a while, and nothing on the page is left over from an earlier run."""


def settled(page: Page) -> None:
    """Waits until the app has run to its end: what was just done has a moment to start a run."""
    page.wait_for_timeout(100)
    page.evaluate("window.__quietSince = undefined")
    page.wait_for_function(_QUIET, polling=50)


def turn_to(page: Page, name: str) -> None:
    """Goes to another page as people do, by the navigation: the session and the scripts stay."""
    page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()
    settled(page)


def fits(page: Page, what: str = "[data-testid=stMetric], .js-plotly-plot, input") -> bool:
    """Whether the page, and every one of ``what`` in its main part, ends inside the window."""
    wide = "document.documentElement.scrollWidth <= window.innerWidth"
    inside = "e => e.getBoundingClientRect().right <= window.innerWidth"
    parts = ", ".join(f"[data-testid=stMain] {one.strip()}" for one in what.split(","))
    return bool(page.evaluate(f"{wide} && [...document.querySelectorAll('{parts}')].every({inside})"))

"""Each page opens in Chromium, shows its figures and fits a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.app_page import settled
from tests.browser.conftest import ANSWERED_WITHIN_MS

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

PAGES = {"memory": 5, "layout": 4, "load": 3, "cost": 3, "evidence": 3}
"""Page -> figures that the first example shows on it, at the least."""


@pytest.fixture
def look(contexts: Callable[..., BrowserContext], address: str) -> Iterator[Callable[..., Page]]:
    """Opens a page by its address."""
    opened = []

    def go(name: str) -> Page:
        page = contexts(1440, 1000, "light").new_page()
        opened.append(page)
        page.set_default_timeout(ANSWERED_WITHIN_MS)
        page.goto(f"{address}{name}")
        page.locator(".js-plotly-plot").nth(PAGES[name] - 1).wait_for(state="attached")
        settled(page)
        return page

    yield go
    for page in opened:
        page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_its_figures_and_fits_a_phone(look, name):
    page = look(name)
    assert page.get_by_test_id("stException").count() == 0
    assert page.locator(".js-plotly-plot").count() >= PAGES[name]
    assert page.get_by_text("How is this computed?").count() >= 1
    titles = page.get_by_test_id("stMain").get_by_role("heading").all_inner_texts()
    assert titles[0].endswith("?")
    if name == "layout":
        page.get_by_role("button", name="DP", exact=True).or_(page.get_by_role("radio", name="DP", exact=True)).click()
        page.get_by_text("each keeps the attention of its own requests").wait_for()
        assert page.get_by_test_id("stException").count() == 0

    page.set_viewport_size({"width": 400, "height": 860})
    page.emulate_media(color_scheme="dark")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('[data-testid=stMain] [data-testid=stMetric], .js-plotly-plot')]"
        ".every(e => e.getBoundingClientRect().right <= window.innerWidth)"
    )

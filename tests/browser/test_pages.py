"""Each page opens in Chromium, shows its figures and fits a phone; one session walks through them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from planner.ui import gallery, links
from tests.browser.app_page import fits, settled, turn_to

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PAGES = {
    "Memory and precision": 4,
    "Layout and topology": 4,
    "Load": 5,
    "Cost and energy": 3,
    "Evidence": 3,
}
"""Page -> figures that the example shows on it, at the least."""
EXAMPLE = "s=" + links.pack(links.Linked(gallery.example("deepseek-r1-h200").scenario))


@pytest.fixture(scope="module")
def session(tab: Page, address: str) -> Page:
    """One visitor, at the page of memory."""
    tab.set_viewport_size({"width": 1440, "height": 1000})
    tab.goto(f"{address}memory?{EXAMPLE}")
    tab.get_by_test_id("stSidebarNav").get_by_role("link").first.wait_for()
    return tab


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_its_figures_and_fits_a_phone(session, name):
    page = session
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.emulate_media(color_scheme="light")
    turn_to(page, name)
    page.locator(".js-plotly-plot").nth(PAGES[name] - 1).wait_for(state="attached")
    settled(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("How is this computed?").first).to_be_visible()
    titles = page.get_by_test_id("stMain").get_by_role("heading").all_inner_texts()
    assert titles[0].endswith("?")
    if name.startswith("Layout"):
        page.get_by_text("Colour by group").wait_for()
        expect(page.get_by_test_id("stException")).to_have_count(0)

    page.set_viewport_size({"width": 400, "height": 860})
    page.emulate_media(color_scheme="dark")
    settled(page)
    assert fits(page, "[data-testid=stMetric], .js-plotly-plot, [data-testid=stTable] table")
    for box in page.get_by_text("How is this computed?").all():
        box.click()
    page.locator(".katex .base").first.wait_for()
    settled(page)
    assert fits(page, ".katex .base"), "a formula breaks into lines"


def test_ranks_are_coloured_by_another_group(visit):
    """Groups are told apart where a worker spans nodes: the first example."""
    page = visit(at="layout")
    dp = page.get_by_role("button", name="DP", exact=True).or_(page.get_by_role("radio", name="DP", exact=True))
    dp.click()
    page.get_by_text("each keeps the attention of its own requests").wait_for()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_nothing_is_fetched_from_outside(tab, visit, address):
    """Icons and fonts come with the app: an installation without internet looks the same."""
    asked: list[str] = []

    def note(request):
        asked.append(request.url)

    tab.on("request", note)
    visit()
    tab.remove_listener("request", note)
    assert asked
    assert [u for u in asked if not u.startswith((address, address.replace("http", "ws"), "data:", "blob:"))] == []


_COVERED = """e => {
  const {legend, _size} = e._fullLayout;
  const [, y] = e.querySelector('g.legend').getAttribute('transform').match(/,(.*)\\)/);
  return Number(y) + legend._height > _size.t;
}"""
"""Whether the legend of a figure reaches into the plot below it."""


def test_a_turned_phone_does_not_move_the_legend_into_the_plot(visit):
    """One entry of the roofline's legend in a row, then room for two: the plot grows, and the legend makes way."""
    page = visit(width=360, height=860, at="layout")
    figure = page.locator(".js-plotly-plot").filter(has_text="TFLOP/s of one GPU")
    rows = []
    for width in (360, 400):
        page.set_viewport_size({"width": width, "height": 860})
        figure.wait_for()
        page.wait_for_function("e => e._fullLayout.width === e.clientWidth", arg=figure.element_handle())
        settled(page)
        rows.append(figure.evaluate("e => e._fullLayout.legend._height"))
        assert not figure.evaluate(_COVERED)
    assert rows[0] > rows[1]

"""What journeys read from the page and do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def limit(page: Page, metric: str) -> Locator:
    return page.get_by_role("spinbutton", name=f"{metric}, ms")


def answer(page: Page) -> str:
    return page.get_by_test_id("stMain").get_by_role("heading", level=2).first.inner_text()


def figures(page: Page) -> list[str]:
    return page.get_by_test_id("stMetricValue").all_inner_texts()


def set_limit(page: Page, metric: str, value: str) -> None:
    limit(page, metric).fill(value)
    limit(page, metric).press("Enter")
    settled(page)


def settled(page: Page) -> None:
    """Waits until the app has run to its end."""
    page.wait_for_function("document.querySelector('[data-testid=stStatusWidget]') === null")
    page.wait_for_timeout(300)

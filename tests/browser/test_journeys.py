"""Journeys over several pages: a link, another language, a model of one's own, a slip, a phone."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from planner.scenario.load import load_scenario
from planner.ui import gallery, links
from tests.browser.app_page import answer, figures, fits, limit, set_limit, settled, turn_to
from tests.ui.sample_config import CONFIG

pytestmark = pytest.mark.browser
FIVE = 5
CHINESE = re.compile(r"[一-鿿]")
SMALL = "s=" + links.pack(links.Linked(gallery.example("deepseek-r1-h200").scenario))
"""The address's parameter of an example that is planned in a moment."""


def start_from(page, name):
    """Picks an example of the gallery."""
    box = page.get_by_test_id("stSidebar").get_by_role("combobox").first
    box.click()
    page.get_by_role("option", name=name).click()
    settled(page)


def answered(page):
    """Waits for the plan page with its answer in full."""
    page.get_by_text(re.compile("Planner 0|规划器 0")).first.wait_for()
    page.get_by_test_id("stMetricValue").nth(FIVE - 1).wait_for()
    settled(page)


def link_of(page) -> str:
    page.get_by_test_id("stSidebar").get_by_role("button", name="Link").click()
    code = page.get_by_test_id("stPopoverBody").get_by_test_id("stCode")
    code.wait_for()
    address = code.inner_text().strip()
    page.keyboard.press("Escape")
    return address


def test_a_link_opens_the_same_plan_in_another_language(visit, tmp_path):
    page = visit(at=f"?{SMALL}")
    start_from(page, "gpt-oss-120b")
    set_limit(page, "TPOT", "45")
    page.get_by_text("limit 45.0 ms").first.wait_for()
    answered(page)
    shown = (answer(page), figures(page))
    address = link_of(page)
    assert len(address) < 2000

    again = visit(at=address)
    answered(again)
    expect(again.get_by_text("limit 45.0 ms").first).to_be_visible()
    assert (answer(again), figures(again)) == shown

    again.get_by_test_id("stSidebar").get_by_role("radio", name="简体中文").click()
    again.get_by_role("heading", name="容量规划").wait_for()
    answered(again)
    assert figures(again) == shown[1]
    assert "lang=zh" in again.url
    assert CHINESE.search(answer(again))
    expect(limit(again, "TPOT")).to_have_value("45")
    turn_to(again, "目录")
    assert "lang=zh" in again.url
    assert "s=" in again.url
    again.reload()
    again.get_by_role("heading", name="对硬件和模型了解多少？").wait_for()
    turn_to(again, "方案")
    answered(again)
    assert figures(again) == shown[1]

    with again.expect_download() as got:
        again.get_by_role("button", name="保存场景（YAML）").click()
    file = tmp_path / "scenario.yaml"
    got.value.save_as(file)
    assert load_scenario(file).slo.tpot_ms.mean == 45.0


def test_a_broken_link_is_a_sentence(visit):
    page = visit(at="catalogue?s=1.AAAA")
    page.get_by_text("it is cut off or damaged").wait_for()
    expect(page.get_by_text("h800-sxm").first).to_be_visible()
    expect(page.get_by_text("Traceback")).to_have_count(0)


def test_a_pasted_config_becomes_the_model(visit):
    page = visit(at=f"catalogue?{SMALL}")
    box = page.get_by_test_id("stMain").get_by_role("textbox", name="config.json")
    box.fill('{"model_type": "nonesuch"}')
    box.press("Control+Enter")
    page.get_by_text("Understood model types").wait_for()
    box.fill(json.dumps(CONFIG))
    box.press("Control+Enter")
    page.get_by_text("8.03 billion").first.wait_for()
    page.get_by_role("button", name="Use this model in the scenario").click()
    settled(page)
    turn_to(page, "Plan")
    page.get_by_test_id("stMetric").first.wait_for()
    expect(page.get_by_text("llama ·").first).to_be_visible()


def test_a_slip_is_named_and_mended_by_a_button(visit):
    page = visit(at=f"?{SMALL}")
    set_limit(page, "TPOT", "4")
    page.get_by_role("heading", name="Nothing serves this as asked").wait_for()
    for _ in range(3):
        offer = page.get_by_role("button", name=re.compile("^Try: TPOT limit|Try: up to .* DGX H200")).first
        offer.click()
        settled(page)
        if figures(page):
            break
    assert figures(page)

    box = page.get_by_test_id("stSidebar").get_by_role("spinbutton", name="95 % are below").first
    box.fill("900000")
    box.press("Enter")
    page.get_by_role("heading", name="This cannot be planned yet").wait_for()
    expect(page.get_by_text(re.compile("“95 % are below” of a lognormal")).first).to_be_visible()
    expect(page.get_by_text("Traceback")).to_have_count(0)


def test_an_emptied_number_keeps_its_value(visit):
    page = visit(at=f"?{SMALL}")
    shown = figures(page)
    field = page.get_by_test_id("stSidebar").get_by_role("spinbutton", name="Requests per second")
    before = field.input_value()
    field.fill("")
    field.press("Enter")
    page.get_by_text("the last one stays").wait_for()
    settled(page)
    expect(field).to_have_value(before)
    assert figures(page) == shown


def test_a_number_out_of_range_is_refused_with_the_reason(visit):
    page = visit(at=f"?{SMALL}")
    shown = figures(page)
    field = page.get_by_test_id("stSidebar").get_by_role("spinbutton", name="Requests per second")
    before = field.input_value()
    for given, got in (("0", "0.0"), ("1000000000", "1000000000.0"), ("-5", "-5.0")):
        field.fill(given)
        field.press("Enter")
        page.get_by_text(re.compile(f"Got {re.escape(got)};")).wait_for()
        expect(page.get_by_role("heading", name="This cannot be planned yet")).to_be_visible()
        settled(page)
        assert figures(page) == []
    field.fill(before)
    field.press("Enter")
    page.get_by_test_id("stMetric").first.wait_for()
    settled(page)
    assert figures(page) == shown


def test_what_if_is_answered_and_taken_over(visit):
    page = visit(at=f"compare?{SMALL}")
    page.locator(".js-plotly-plot").first.wait_for()
    expect(page.get_by_text("Two plans side by side")).to_be_visible()
    values = page.get_by_role("textbox", name="Values to try")
    values.fill("20, 60")
    values.press("Enter")
    settled(page)
    table = page.get_by_test_id("stDataFrame").first
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    page.mouse.click(box["x"] + 17, box["y"] + 36 + 35 * 1.5)
    page.get_by_role("button", name="Put 60 ms into the scenario").click()
    settled(page)
    expect(limit(page, "TPOT")).to_have_value("60")


@pytest.mark.parametrize(("lang", "other"), [("en", "Catalogue"), ("zh", "目录")])
def test_a_phone_needs_no_sideways_scrolling(visit, lang, other):
    page = visit(400, 860, at=f"compare?{SMALL}&lang={lang}")
    _fits_in(page, lang)
    page.get_by_test_id("stExpandSidebarButton").click()
    turn_to(page, other)
    if page.get_by_test_id("stSidebarCollapseButton").is_visible():
        page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    page.get_by_text("h200-sxm").first.wait_for()
    settled(page)
    _fits_in(page, lang)


def _fits_in(page, lang):
    title = page.get_by_test_id("stMain").get_by_role("heading").first.inner_text()
    assert bool(CHINESE.search(title)) == (lang == "zh")
    assert fits(page, ".js-plotly-plot, input")
    expect(page.get_by_test_id("stException")).to_have_count(0)

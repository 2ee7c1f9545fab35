"""Journeys through the plan page, as people make them."""

from __future__ import annotations

import re
import subprocess

import openpyxl
import pytest
from playwright.sync_api import expect

from planner.export.formats import export_text
from planner.scenario.load import load_scenario
from planner.search.plan_schema import Plan
from planner.ui import gallery, links
from tests.browser.app_page import answer, figures, fits, limit, set_limit, settled

pytestmark = pytest.mark.browser
FIVE = 5
SMALL = "s=" + links.pack(links.Linked(gallery.example("deepseek-r1-h200").scenario))
"""The address's parameter of an example that is planned in a moment."""


def test_the_answer_is_there_and_follows_the_limits(visit):
    page = visit()
    assert "H800" in answer(page)
    expect(page.get_by_text("What binds:")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_test_id("stAlert").filter(has_text="error")).to_have_count(0)
    first = figures(page)
    assert len(first) == FIVE

    set_limit(page, "TPOT", "35")
    page.get_by_text("limit 35.0 ms").first.wait_for()
    assert figures(page) != first

    set_limit(page, "TPOT", "0.5")
    page.get_by_role("heading", name="Nothing serves this as asked").wait_for()
    expect(page.get_by_text("What comes nearest")).to_be_visible()
    assert figures(page) == []

    page.get_by_role("button", name="Undo all changes").click()
    page.get_by_test_id("stMetric").first.wait_for()
    settled(page)
    assert figures(page) == first


def test_another_candidate_is_chosen(visit):
    page = visit()
    best = figures(page)
    points = page.locator(".js-plotly-plot").first.locator(".trace.scatter .point")
    points.first.wait_for()
    chosen = page.get_by_text("chosen by you")
    # The last drawn are the candidates of the table or hollow points that it does not list.
    for i in reversed(range(points.count())):
        box = points.nth(i).bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(300)
        settled(page)
        if chosen.count():
            break
    expect(chosen).to_be_visible()
    page.get_by_role("button", name="Back to the best").click()
    chosen.wait_for(state="detached")
    settled(page)
    assert figures(page) == best

    table = page.get_by_test_id("stDataFrame")
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    page.mouse.click(box["x"] + 17, box["y"] + 36 + 35 * 1.5)
    page.get_by_text("candidate 2, chosen by you").wait_for()


def saved(page, tmp_path, name):
    """Presses a download button and keeps what comes."""
    with page.expect_download() as got:
        page.get_by_test_id("stMain").get_by_role("button", name=name).click()
    file = tmp_path / got.value.suggested_filename
    got.value.save_as(file)
    return file


def test_the_plan_is_taken_home_and_brought_back(visit, tmp_path):
    page = visit()
    set_limit(page, "TPOT", "35")
    shown = (answer(page), figures(page))
    file = saved(page, tmp_path, "Plan (YAML)")
    plan = Plan.from_yaml(file)
    assert plan.scenario.slo.tpot_ms is not None
    assert plan.scenario.slo.tpot_ms.mean == 35.0
    _everything_else(page, tmp_path, plan)

    with page.expect_download() as got:
        page.get_by_role("button", name="Save scenario (YAML)").click()
    scenario = tmp_path / "scenario.yaml"
    got.value.save_as(scenario)
    assert load_scenario(scenario) == plan.scenario

    again = visit(at=f"plan?{SMALL}")
    assert figures(again) != shown[1]
    bad = tmp_path / "bad.yaml"
    bad.write_text("schema: planner.scenario/1\nmodle: deepseek-v3\n")
    again.locator("input[type=file]").set_input_files(bad)
    again.get_by_text("did you mean model").wait_for()
    expect(again.get_by_text("bad.yaml").first).to_be_visible()
    expect(again.get_by_text("Traceback")).to_have_count(0)

    again.locator("input[type=file]").set_input_files(file)
    again.get_by_text("limit 35.0 ms").first.wait_for()
    settled(again)
    expect(again.get_by_text("did you mean model")).to_have_count(0)
    assert (answer(again), figures(again)) == shown


def _everything_else(page, tmp_path, plan):
    """Workbook, report, script and manifest, as the command line writes them."""
    book = openpyxl.load_workbook(saved(page, tmp_path, "Workbook (Excel)"))
    assert book["Candidates"].max_row > len(plan.candidates)
    report = saved(page, tmp_path, "Report (HTML)").read_text()
    assert plan.best is not None
    assert plan.best.layout.describe() in report
    assert "<script" not in report
    assert saved(page, tmp_path, "Report (Markdown)").read_text() == export_text(plan, "report-md")
    script = saved(page, tmp_path, "Launch script")
    assert script.read_text() == export_text(plan, "sglang")
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    page.get_by_role("radio", name="Dynamo").or_(page.get_by_role("button", name="Dynamo")).click()
    settled(page)
    assert saved(page, tmp_path, "Manifest (YAML)").read_text() == export_text(plan, "dynamo")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(visit, scheme):
    page = visit(400, 860, scheme)
    assert fits(page, "[data-testid=stMetric], .js-plotly-plot")
    colours = page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
    red = int(re.findall(r"\d+", colours)[0])
    assert (red > 128) == (scheme == "light")
    page.get_by_test_id("stExpandSidebarButton").click()
    limit(page, "TPOT").scroll_into_view_if_needed()
    expect(limit(page, "TPOT")).to_be_visible()

"""The report: everything in it, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from plans import example, renamed

from planner.errors import InputError
from planner.export.answers import counted
from planner.export.formats import export_text
from planner.export.report import svg
from planner.export.report.blocks import Paragraph, Report, Section
from planner.export.report.html import as_html
from planner.export.report.markdown import as_markdown
from planner.search.headline import deployment, headline
from planner.search.plan_schema import Plan
from planner.units import spaced

HOSTILE = '<script>alert(1)</script> & "quotes" | `code` *star* [link](http://example.com)'
SECTIONS = (
    *("Answer", "Service levels", "Candidates", "Frontier", "Where the time goes", "Memory of the fullest GPU"),
    *(
        "Admission",
        "Size, failures and recovery",
        "Formulas with their values",
        "How sure",
        "Why not the others",
        "Assumptions",
        "Identity",
        "Scenario",
        "Versions",
    ),
)


class Page(HTMLParser):
    """Tags and attributes of a page; complains about tags that do not nest."""

    VOID = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def plan() -> Plan:
    return example("deepseek-v3-h800")


def test_markdown_has_every_section(plan: Plan) -> None:
    text = export_text(plan, "report-md")
    assert re.findall(r"^## (.+)$", text, re.M) == list(SECTIONS)
    for line in text.splitlines():
        assert not line.startswith("| ") or line.count(" | ") == line.replace("\\|", "").count(" | ")


def test_html_is_self_contained(plan: Plan) -> None:
    page = Page(export_text(plan, "report-html"))
    names = [tag for tag, _ in page.tags]
    assert names.count("h2") == len(SECTIONS)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(names)
    for tag, attributes in page.tags:
        assert not {"src", "href", "srcset", "onload", "style"} & set(attributes), tag
    policy = [a for t, a in page.tags if t == "meta" and a.get("http-equiv")]
    assert policy[0]["content"] is not None
    assert "default-src 'none'" in policy[0]["content"]


def test_figures_are_well_formed(plan: Plan) -> None:
    for figure in re.findall(r"<svg.*?</svg>", export_text(plan, "report-html"), re.S):
        ET.fromstring(figure)


@pytest.mark.parametrize("name", ["deepseek-v3-h800", "infeasible-405b-one-h100"])
def test_hostile_text_is_escaped(name: str) -> None:
    hostile = renamed(example(name), HOSTILE)
    html = export_text(hostile, "report-html")
    assert "<script" not in html
    Page(html)
    markdown = export_text(hostile, "report-md")
    outside = re.sub(r"```yaml.*?```", "", markdown, flags=re.S)
    assert "\\<script\\>" in outside
    assert not re.search(r"(?<!\\)<script", outside)
    assert "](http" not in outside.replace("\\]", "")


def test_numbers_are_the_plans(plan: Plan) -> None:
    text = export_text(plan, "report-md")
    best = plan.candidates[0]
    assert f"{best.gpus:,}" in text
    assert plan.versions.coefficients in text
    assert spaced(best.binding) in text.replace("\\", "")
    assert all(spaced(a)[:40] in text.replace("\\", "") for a in plan.assumptions)


def test_another_candidate(plan: Plan) -> None:
    own = headline(plan.model_copy(update={"candidates": (plan.candidates[1],)}))
    for name, text in (("report-md", as_markdown), ("report-html", as_html)):
        shown = [text(Report("", (Section("", (Paragraph(one),)),))) for one in (own, headline(plan))]
        places = [export_text(plan, name, 2).find(re.search(r"[^\n>]*serves[^\n<]*", one).group()) for one in shown]
        assert 0 < places[0] < places[1], "its own sentence, then the best's"
        assert f"Candidate 2 of {len(plan.candidates)}" in export_text(plan, name, 2)
        assert "Candidate 1 of" not in export_text(plan, name)
    identity = export_text(plan, "report-md", 2).split("## Identity")[1].split("## Scenario")[0]
    assert f"| topology | {deployment(plan.candidates[1])} |" in identity
    assert deployment(plan.candidates[0]) not in identity
    with pytest.raises(InputError, match="rank from 1"):
        export_text(plan, "report-md", 999)


def test_rates_are_whole_where_they_are_compared(plan: Plan) -> None:
    """The load that was asked for, not the three digits that a speed is good for."""
    best = plan.candidates[0].model_copy(update={"goodput_rps": 1604.6, "concurrency": 9876.5, "nodes": 1234})
    text = export_text(plan.model_copy(update={"candidates": (best,)}), "report-md")
    for line in ("within every limit | 1,605 |", "in the decode workers | 9,876 |", "spares included | 1,234 |"):
        assert line in text
    assert [counted(v) for v in (None, 0.4567, 999.6, 1000.4, 12345.0)] == ["–", "0.457", "1,000", "1,000", "12,300"]


def test_the_frontier_has_both_pools(plan: Plan) -> None:
    rows = export_text(plan, "report-md").split("## Frontier")[1].split("##")[0].splitlines()
    apart = [line for line in rows if "| disagg |" in line]
    assert apart
    assert all("decode" in line and "prefill" in line for line in apart)


def test_nothing_feasible_is_a_report_too() -> None:
    text = export_text(example("infeasible-405b-one-h100"), "report-md")
    assert "Nothing serves" in text
    assert "Nearest misses" in text
    assert "## Candidates" not in text


@pytest.mark.parametrize("points", [[(1.0, 1.0)], [(0.0, 5.0), (0.0, 5.0)], [(1e-3, 1.0), (1e6, 2.0)], [(-3.0, 4.0)]])
def test_scatter_takes_any_values(points: list[tuple[float, float]]) -> None:
    text = svg.scatter([(x, y, "<a> & b", True) for x, y in points], "x", "y")
    root = ET.fromstring(text)
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(circle.attrib["cx"]) <= svg.WIDTH


def test_bars_take_no_time_at_all() -> None:
    ET.fromstring(svg.bars([("a", 0.0, 0.0)], "ms"))
    ET.fromstring(svg.bars([], "ms"))


@pytest.mark.parametrize("hidden", [0.0, 18.0, 12345.678])
def test_labels_of_bars_stay_in_the_picture(hidden: float) -> None:
    drawn = svg.bars([("combine", 1.0, hidden), ("attention core", 3.0, 0.0)], "ms")
    labels = re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="start">([^<]+)<', drawn)
    assert len(labels) == 2
    for x, text in labels:
        assert float(x) + svg.LETTER * len(text) <= svg.WIDTH

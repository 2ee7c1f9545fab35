"""Sizing, admission and the ladder on the load page."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import pytest

import planner
from planner.catalog import catalog
from planner.search.ladder import climb
from planner.search.sizing_schema import FailurePlan
from planner.ui import gallery
from planner.ui.current import Answered
from planner.ui.figures.ladder import RUNGS, ladder_figure, rung_name
from planner.ui.figures.sizing import day_figure, recovery_figure, recovery_parts
from planner.ui.sections import load_sizing
from planner.ui.sections.load_data import sizing_for
from planner.ui.subject import Subject, subject_of
from planner.units import uptime

OPEN = "qwen3-32b-l40s"


@cache
def _subject(rank: int = 1) -> Subject:
    data = gallery.example(OPEN).scenario.to_dict()
    data["hardware"]["candidates"] = [{"node": "l40s-8-pcie"}]
    data["workload"]["arrival"]["rate_rps"] = 30.0
    data["workload"]["daily_profile"] = {"peak_to_mean": 2.0}
    scenario = planner.Scenario.from_dict(data)
    plan = planner.plan(scenario)
    found = subject_of(Answered(scenario, plan, catalog(), "test", plan.candidates[rank - 1]))
    assert found is not None
    return found


def test_the_day_is_drawn_hour_by_hour():
    sizing = sizing_for(_subject())
    assert sizing.day is not None
    bars, average, load = day_figure(sizing.day).data
    assert list(bars.y) == list(sizing.day.hourly_gpus)
    assert set(average.y) == {sizing.day.average_gpus}
    assert max(load.y) == 30.0
    assert load.yaxis == "y2"


def test_the_best_is_sized_as_the_plan_sizes_it():
    assert sizing_for(_subject()) == planner.plan(_subject().scenario).best.sizing


def test_another_candidate_is_sized_on_its_own():
    other = _subject(2)
    assert other.candidate.sizing is None
    sizing = sizing_for(other)
    assert sizing.day is not None
    assert sizing.day.peak_gpus == other.candidate.gpus


def test_recovery_parts_add_up_to_the_whole():
    sizing = sizing_for(_subject())
    drawn = recovery_figure(sizing.recovery).data
    assert len(drawn) == sum(bool(getattr(sizing.recovery, field)) for field in recovery_parts())
    assert abs(sum(bar.x[0] for bar in drawn) - sizing.recovery.total_s) < 1e-6


def test_what_breaks_first_is_said():
    sizing = sizing_for(_subject())
    said = load_sizing._failure_sentence(sizing.failures)
    first = next((f for f in sizing.failures if not f.met_without_spares and not f.covered), None)
    assert first is None or f"**{first.spare_nodes}** more node" in said
    frame = load_sizing.failure_columns(sizing.failures)
    assert list(frame)[1:] == ["1 × GPU", "1 × node", "1 × rack"]


def _failure(**changes: object) -> FailurePlan:
    whole = sizing_for(_subject()).failures[0]
    return whole.model_copy(update={"count": 1, **changes})


def test_what_survives_is_what_holds_as_it_is():
    gpu = _failure(failure="gpu", met_without_spares=True, covered=False)
    node = _failure(failure="node", met_without_spares=False, covered=True)
    said = load_sizing._failure_sentence((gpu, node))
    assert "loss of a **node** breaks the limits unless spare workers run" in said
    assert said.endswith("survives the loss of: GPU.")
    said = load_sizing._failure_sentence((gpu, node.model_copy(update={"covered": False, "spare_nodes": 3})))
    assert "**3** more nodes keep them" in said
    assert "holds after each" in load_sizing._failure_sentence((gpu, gpu))


def test_a_closed_loop_does_not_claim_that_limits_break():
    gpu = _failure(failure="gpu", met_without_spares=None, covered=False, spare_nodes=1)
    assert load_sizing._failure_sentence((gpu,)) == "**1** more node makes up for the loss of a **GPU**."


def test_workers_lost_are_told_of_both_pools():
    gpu = _failure(lost_replicas=2, lost_prefill_workers=1, met_without_spares=False, ttft_p99_ms=None)
    rows = dict(zip(*load_sizing.failure_columns((gpu,)).values(), strict=True))
    assert rows["Workers lost"] == "1 prefill, 2 decode at most"
    assert rows["First token then, p99"] == "overloaded"


def test_uptime_shows_what_is_missing(open_page):
    app = open_page("load", OPEN)
    assert not app.exception
    shown = [c.value for c in app.caption if "Enough workers are up" in c.value]
    assert len(shown) == 1
    best = planner.plan(gallery.example(OPEN).scenario).best
    assert uptime(best.sizing.slo_availability) in shown[0]
    assert "up 100" not in shown[0]


def test_a_closed_loop_says_that_it_has_no_day(open_page):
    app = open_page("load", "gpt-oss-120b-h100")
    assert not app.exception
    assert any("closed loop has no rate" in c.value for c in app.caption)
    assert any("Who is let in" in h.value for h in app.subheader)


def test_the_ladder_is_replayed_once_asked(open_page):
    app = open_page("load", "gpt-oss-120b-h100")
    app.select_slider(key="load.ladder.size").set_value(250).run()
    app.selectbox(key="load.ladder.trace").set_value("short_qa").run()
    app.button(key="load.ladder.start").click().run()
    assert not app.exception
    assert any("**" in m.value and "output per GPU" in m.value for m in app.markdown)
    tables = [list(d.value.columns) for d in app.table]
    assert any("Added" in columns for columns in tables)


def test_every_rung_is_a_bar_with_a_name():
    found = climb(gallery.example("gpt-oss-120b-h100").scenario, requests=250, catalog=catalog())
    figure = ladder_figure(found)
    assert len(figure.data[0].x) == len(found.rungs) <= RUNGS
    assert all(rung_name(r.name) != r.name or r.name in ("continuous batching", "prefix cache") for r in found.rungs)


@pytest.mark.parametrize(
    ("prefill", "rate", "said"),
    [("pool", 3.0, "not worked out for separate pools"), (None, None, "a closed loop has none")],
)
def test_classes_of_a_scenario_are_not_denied(prefill, rate, said):
    classes = [SimpleNamespace(name="paid", share=1.0, priority=0)]
    subject = SimpleNamespace(
        scenario=SimpleNamespace(workload=SimpleNamespace(priority_classes=classes)),
        setup=SimpleNamespace(rate_rps=rate),
        deployment=SimpleNamespace(prefill=prefill),
    )
    assert said in load_sizing._no_classes(subject)
    subject.scenario.workload.priority_classes = []
    assert load_sizing._no_classes(subject).startswith("All requests are alike")

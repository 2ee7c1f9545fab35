"""Rent, own or API: what is not known is an empty field; over a day the mean load decides, not the busiest hour's."""

from __future__ import annotations

import pytest

import planner
from planner.catalog import catalog
from planner.ui import gallery
from planner.ui.current import Answered
from planner.ui.figures.cost import cost_by_load
from planner.ui.sections import cost_ways
from planner.ui.sections.cost_data import Day, Way, by_load, day_of, deployed, over_the_day, per_mtok, rented
from planner.ui.sections.load_data import sizing_for
from planner.ui.subject import Subject, subject_of
from tests.ui.pages.conftest import SMALL


@pytest.fixture(scope="module")
def with_a_day() -> Subject:
    """A deployment for a day whose mean is 2/5 of its busiest hour."""
    data = gallery.example("qwen3-32b-l40s").scenario.to_dict()
    data["hardware"]["candidates"] = [{"node": "l40s-8-pcie"}]
    data["workload"]["arrival"]["rate_rps"] = 30.0
    data["workload"]["daily_profile"] = {"peak_to_mean": 2.5}
    data["reliability"] = {"spare_nodes": 1}
    scenario = planner.Scenario.from_dict(data)
    plan = planner.plan(scenario)
    subject = subject_of(Answered(scenario, plan, catalog(), "test", plan.candidates[0]))
    assert subject is not None
    return subject


def test_the_mean_of_the_day_decides_and_not_its_busiest_hour(with_a_day):
    """API tokens of the mean load beside GPUs of the busiest hour: the way that is cheapest in it is not, over a day
    that is mostly quiet.
    """
    day = Day(0.4, sizing_for(with_a_day).day)
    rent, api = rented("Rent", "rent", 10, 2.0), Way("API", {"input tokens": 12.0, "output tokens": 18.0}, False)
    assert rent.total < api.total
    found = {w.name: w for w in over_the_day([rent, api], day, "Rent, autoscaled")}
    assert list(found) == ["Rent", "Rent, autoscaled", "API"]
    assert found["API"].parts == pytest.approx({"input tokens": 4.8, "output tokens": 7.2})
    assert found["API"].total < found["Rent"].total == 20.0
    said = cost_ways._answer([found["Rent"], found["API"]], deployed(with_a_day), day)
    assert "mean load is 40 % of the busiest hour's, **API** is cheapest: **\\$288 a day**" in said


def test_a_token_costs_over_the_day_what_the_load_page_says(with_a_day):
    c, d, day = with_a_day.candidate, deployed(with_a_day), day_of(with_a_day)
    sizing = sizing_for(with_a_day).day
    assert day is not None
    rent = rented("Rent", "rent", d.gpus, c.usd_per_hour / d.gpus)
    fixed, scaled = (per_mtok(w, day.share * d.output_tokens_per_s) for w in over_the_day([rent], day, "scaled"))
    assert fixed == pytest.approx(sizing.usd_per_mtok_output_fixed, rel=1e-6)
    assert scaled == pytest.approx(sizing.usd_per_mtok_output_autoscaled, rel=1e-6)
    assert scaled < fixed
    assert c.usd_per_mtok.output / day.share == pytest.approx(fixed, rel=1e-6)


def test_the_mean_of_the_day_is_marked():
    figure = cost_by_load(by_load([Way("Rent", {"rent": 50.0}, True)], 1000.0), {"Rent": 0.5}, 0.4)
    assert [a.text for a in figure.layout.annotations] == ["Rent from 50 %", "mean of the day 40 %"]
    assert [s.x0 for s in figure.layout.shapes] == [50.0, 40.0]


def test_a_price_that_is_not_known_is_an_empty_field(open_page, monkeypatch):
    known = open_page("cost", SMALL)
    field = next(n for n in known.number_input if n.label == "US dollars per GPU, bought")
    assert field.value > 0
    monkeypatch.setattr(cost_ways, "purchase_usd_per_gpu", lambda *_: None)
    app = open_page("cost", SMALL)
    assert not app.exception
    field = next(n for n in app.number_input if n.label == "US dollars per GPU, bought")
    assert field.value is None
    assert any("No purchase price is known" in c.value for c in app.caption)
    field.set_value(30_000.0).run()
    assert not any("No purchase price is known" in c.value for c in app.caption)

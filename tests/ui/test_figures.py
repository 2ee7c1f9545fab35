"""Figures are plain functions of a plan: what they draw, with which units, in which colours."""

import math

import pytest

from planner.search.plan_schema import MemoryGib, Percentiles, Plan
from planner.ui import palette
from planner.ui.figures.common import tick_format
from planner.ui.figures.frontier import available, envelope, frontier
from planner.ui.figures.memory import memory_bar
from planner.ui.figures.misses import comparable, misses_bar
from planner.ui.figures.step_time import drawn_terms, step_time
from planner.ui.words import bounds, memory_terms


def test_frontier_holds_every_candidate_and_its_rank(plan):
    figure = frontier(plan, chosen=3)
    ranks = [row[0] for t in figure.data if t.customdata is not None for row in t.customdata]
    assert sorted(r for r in ranks if r > 0) == [c.rank for c in plan.candidates]
    assert ranks.count(-1) == 1  # on the frontier, not among the candidates
    ring = next(t for t in figure.data if t.name == "chosen")
    chosen = plan.candidates[2]
    assert (ring.x[0], ring.y[0]) == (chosen.tpot_ms.mean, chosen.usd_per_mtok.output)


def test_frontier_axes_carry_units_and_hover_text(plan):
    figure = frontier(plan, "ttft", "rate")
    assert figure.layout.xaxis.title.text == "Time to first token, ms"
    assert figure.layout.yaxis.title.text == "Output tokens per second and GPU"
    hover = figure.data[1].text[0]
    assert "TP1" in hover
    assert "1,808 GPUs" in hover
    assert "Time to first token, ms: 1.39 s" in hover
    for axes in (("ttft", "rate"), ("gpus", "cost")):
        lines = [len(h.split("<br>")) for trace in frontier(plan, *axes).data for h in trace.text or ()]
        assert max(lines) <= 5


@pytest.mark.parametrize(
    ("values", "form"),
    [([0.2, 0.9], ",.3~r"), ([3.0, 7e7], ".3~s"), ([0.5, 7e3], ",.3~r"), ([], ",.3~r"), ([12.0, 800.0], ",.3~r")],
)
def test_ticks_are_written_without_powers_of_ten(values, form):
    assert tick_format(values) == form


def test_several_limits_have_a_colour_of_their_own():
    assert palette.UNKNOWN not in palette.BOUND.values()


def test_the_limit_is_drawn_where_it_belongs(plan):
    figure = frontier(plan, "tpot", "cost")
    line = figure.layout.shapes[0]
    assert (line.x0, line.x1) == (50.0, 50.0)
    assert "limit 50.0 ms" in figure.layout.annotations[0].text


def test_a_wide_range_gets_a_logarithmic_axis(plan):
    wide = tuple(
        c.model_copy(update={"ttft_ms": c.ttft_ms.model_copy(update={"mean": 10.0 * 2**i})})
        for i, c in enumerate(plan.candidates)
    )
    figure = frontier(plan.model_copy(update={"candidates": wide}), "ttft", "cost")
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.yaxis.type == "linear"
    at = next(a for a in figure.layout.annotations if "limit" in a.text).x
    assert at == pytest.approx(math.log10(5000))


def test_axes_without_numbers_are_not_offered(plan):
    known = {"tpot", "ttft", "cost", "rate", "gpus", "goodput"}
    assert set(available(plan)) == known
    tails = [
        c.model_copy(update={"tbt_ms": Percentiles(p99=80.0), "ttft_ms": Percentiles(p99=900.0)})
        for c in plan.candidates
    ]
    assert set(available(plan.model_copy(update={"candidates": tuple(tails)}))) == known | {"tbt_p99", "ttft_p99"}
    assert frontier(plan, "goodput", "gpus").layout.xaxis.title.text == "Requests per second and GPU within every limit"


def test_envelope_keeps_what_nothing_beats():
    points = [(1, 5), (2, 3), (3, 4), (4, 1), (4, 2)]
    assert envelope(points, x_low=True, y_low=True) == [(1, 5), (2, 3), (4, 1)]
    assert envelope(points, x_low=True, y_low=False) == [(1, 5)]
    assert envelope([], x_low=True, y_low=True) == []


def test_exposed_bars_follow_one_another(plan):
    candidate = plan.candidates[0]
    figure = step_time(candidate, "decode")
    exposed = [(b, x) for t in figure.data if t.name != "hidden" for b, x in zip(t.base, t.x, strict=True)]
    ends = sorted(b + x for b, x in exposed)
    starts = sorted(b for b, _x in exposed)
    assert starts[0] == 0
    assert starts[1:] == pytest.approx(ends[:-1])
    assert ends[-1] == pytest.approx(candidate.breakdown.step_ms["decode"])


def test_hidden_time_is_hatched_and_adds_nothing(plan):
    figure = step_time(plan.candidates[0], "decode")
    hidden = next(t for t in figure.data if t.name == "hidden")
    assert hidden.marker.pattern.shape == "/"
    assert sum(hidden.x) == pytest.approx(5.6 + 7.1 + 1.9)


def test_small_terms_are_summed_up(plan):
    terms = drawn_terms(plan.candidates[0], "decode")
    assert terms[-1].term == "3 smaller terms"
    assert sum(t.exposed_ms for t in terms) == pytest.approx(34.7)


def test_memory_adds_up_and_shows_the_capacity(plan):
    candidate = plan.candidates[0]
    figure = memory_bar(candidate)
    assert list(figure.data[0].y) == ["Prefill", "Decode"]
    decode = sum(t.x[1] for t in figure.data)
    assert decode == pytest.approx(candidate.memory_gib.total)
    assert {s.x0 for s in figure.layout.shapes} == {candidate.memory_gib.capacity}
    assert figure.layout.xaxis.title.text == "GiB"


def test_one_pool_is_one_bar(plan):
    aggregated = next(c for c in plan.candidates if c.serving == "agg")
    assert len(memory_bar(aggregated).data[0].x) == 1


def test_misses_show_needed_and_available(plan):
    from plan_data import many

    data = plan.scenario.to_dict()
    data["slo"]["tpot_ms"] = {"mean": 10.0}
    none = many(type(plan.scenario).from_dict(data))
    assert none.best is None
    figure = misses_bar(none.nearest_misses)
    assert figure is not None
    assert list(figure.data[0].x) == [95.0, 190.0, 760.0]
    assert figure.layout.xaxis.title.text == "GiB"
    odd = none.nearest_misses[1].model_copy(update={"unit": "ms", "reason": "slo_tpot"})
    assert len(comparable((none.nearest_misses[0], odd))) == 1
    assert misses_bar(()) is None


def test_every_term_has_one_colour_of_its_own():
    terms = set(MemoryGib.model_fields) - {"total", "capacity"}
    assert set(palette.MEMORY) == terms == set(memory_terms())
    assert set(palette.BOUND) == set(bounds())
    for colours in (palette.MEMORY, palette.BOUND):
        assert len(set(colours.values())) == len(colours)


def test_figures_escape_names(plan: Plan):
    evil = plan.candidates[0].model_copy(update={"node": "<img src=x>"})
    text = frontier(plan.model_copy(update={"candidates": (evil,), "pareto": ()})).to_json()
    assert "<img" not in text
    assert "\\u003cimg" not in text

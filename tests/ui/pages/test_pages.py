"""Every page renders with a feasible, a disaggregated and an infeasible scenario."""

import pytest

PAGES = ("memory", "layout", "load", "cost", "evidence")
EXAMPLES = ("gpt-oss-120b-h100", "kimi-k2-gb200", "infeasible-405b-one-h100")


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_renders(open_page, page, example):
    app = open_page(page, example)
    assert not app.exception
    infeasible = example.startswith("infeasible")
    assert bool(app.error) == infeasible
    if infeasible:
        assert "Does not fit GPU memory" in app.error[0].value
    if page not in ("cost", "load") or not infeasible:
        assert len(app.subheader) >= 2
        assert len(app.get("plotly_chart")) >= (1 if infeasible else 2)


def test_the_chosen_deployment_follows_to_another(open_page):
    app = open_page("memory", "gpt-oss-120b-h100")
    before = app.markdown[0].value
    app.selectbox[0].select_index(6).run()
    assert not app.exception
    assert app.selectbox[0].index == 6
    assert app.markdown[0].value != before


def test_pools_are_looked_into_apart(open_page):
    app = open_page("memory", "kimi-k2-gb200")
    decode = app.markdown[0].value
    app.button_group[0].set_value("prefill").run()
    assert not app.exception
    assert app.markdown[0].value != decode


def test_the_slider_moves_the_hot_expert(open_page):
    app = open_page("layout", "kimi-k2-gb200")
    at_default = next(m.value for m in app.markdown if "fullest of" in m.value)
    app.slider[0].set_value(0.0).run()
    assert not app.exception
    even = next(m.value for m in app.markdown if "fullest of" in m.value)
    assert even != at_default


def test_the_kv_calculator_answers(open_page):
    app = open_page("memory", "gpt-oss-120b-h100")
    before = app.metric[2].value
    app.number_input[0].set_value(50_000).run()
    assert not app.exception
    assert int(app.metric[2].value.replace(",", "")) < int(before.replace(",", ""))


def test_your_own_prices_count(open_page):
    app = open_page("cost", "gpt-oss-120b-h100")
    rent = next(n for n in app.number_input if n.label == "US dollars per GPU-hour")
    rent.set_value(0.01).run()
    assert not app.exception
    assert "**Rent** is cheapest" in next(m.value for m in app.markdown if "cheapest" in m.value)


def test_the_evidence_is_filtered_to_the_nearest(open_page):
    app = open_page("evidence", "gpt-oss-120b-h100")
    show = next(s for s in app.selectbox if s.label == "Show")
    show.set_value("near").run()
    assert not app.exception
    assert any("Measured: " in m.value and "in this very layout" in m.value for m in app.markdown)


def test_the_map_of_separate_pools_is_worked_out_once_asked(open_page):
    app = open_page("load", "gpt-oss-120b-h100")
    charts = len(app.get("plotly_chart"))
    next(b for b in app.button if b.label == "Work out the map").click().run()
    assert not app.exception
    assert len(app.get("plotly_chart")) == charts + 1

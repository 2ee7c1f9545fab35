"""The page as a session meets it: what is shown first, what a change does, what an error says."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from planner.errors import InputError
from planner.ui import answers, state
from tests.ui.sample_config import CONFIG


def number(app: AppTest, key: str):
    return app.number_input(key=f"{state.PREFIX}{key}")


def choice(app: AppTest, key: str):
    return app.selectbox(key=f"{state.PREFIX}{key}")


def headings(app: AppTest) -> str:
    return " | ".join(h.value for h in app.main.header)


def test_a_first_visitor_sees_a_worked_plan(app, planned):
    assert not app.exception
    assert not app.error
    assert "HGX H800" in headings(app)
    assert [m.value for m in app.metric] == ["≈ $0.462", "≈ 1,203", "≈ 1.39 s", "≈ 49.0 ms", "8.76 GiB"]
    assert planned[-1].model == "deepseek-v3"
    assert any("What binds" in m.value for m in app.main.markdown)


def test_a_changed_limit_changes_the_plan(app, planned):
    number(app, "slo.tpot_ms.limit").set_value(30.0).run()
    assert planned[-1].slo.tpot_ms.mean == 30.0
    assert app.metric[3].value == "≈ 26.0 ms"
    assert not app.exception


def test_fields_take_any_number_so_that_none_is_ignored_without_a_word(app, planned):
    """A browser keeps what is out of bounds to itself, and the answer would stay that of the number before."""
    fields = [n.proto for n in app.sidebar.number_input]
    assert len(fields) > 10
    assert [f.label for f in fields if f.has_min or f.has_max] == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("arrival.rate", 0.0, "got 0.0; must be at least"),
        ("arrival.rate", -5.0, "got -5.0; must be at least"),
        ("day.peak_to_mean", 0.5, "got 0.5; must be at least 1"),
        ("completion_percent", 0.0, "got 0.0; more than 0 and at most 100 %"),
        ("hit_percent", 150.0, "got 150.0; from 0 to less than 100 %"),
        ("failures", 0, "got 0; must be at least 1"),
    ],
)
def test_a_number_out_of_range_takes_the_place_of_the_answer(app, planned, key, value, said):
    number(app, key).set_value(1e9 if isinstance(value, float) else 10**9).run()
    number(app, key).set_value(value).run()
    assert headings(app) == "This cannot be planned yet"
    assert said in app.error[0].value.replace("Got", "got").replace("\\", "")
    assert not app.main.metric
    assert not app.exception


def test_the_same_question_is_planned_once(app, planned):
    number(app, "slo.tpot_ms.limit").set_value(30.0).run()
    number(app, "slo.tpot_ms.limit").set_value(50.0).run()
    assert len(planned) == 2


def test_changes_can_be_undone(app, planned):
    choice(app, "objective").set_value("fewest_gpus").run()
    assert planned[-1].objective == "fewest_gpus"
    undo = next(b for b in app.sidebar.button if "Undo" in b.label)
    undo.click().run()
    assert choice(app, "objective").value == "lowest_cost"
    assert not [b for b in app.sidebar.button if "Undo" in b.label]


def test_what_cannot_be_planned_can_be_undone(app, planned):
    """The way back is there when it is needed most: a value that makes no scenario."""
    number(app, "slo.tpot_ms.limit").set_value(0.0).run()
    assert headings(app) == "This cannot be planned yet"
    next(b for b in app.sidebar.button if "Undo" in b.label).click().run()
    assert app.metric
    assert number(app, "slo.tpot_ms.limit").value == 50.0
    assert not [b for b in app.sidebar.button if "Undo" in b.label]


def test_reuse_of_prefixes_is_shown_in_the_form_and_can_be_left_out(app, planned, scenario):
    reuse = {"prefixes": 200, "tokens": 1500, "zipf": 1.0, "routing": "affinity"}
    workload = scenario.to_dict()["workload"] | {"prefix_reuse": reuse}
    loaded = type(scenario).from_dict(scenario.to_dict() | {"workload": workload})
    app.sidebar.file_uploader[0].upload("s.yaml", loaded.to_yaml().encode(), "application/yaml").run()
    assert not app.exception
    hits = f"{state.PREFIX}hit_percent"
    assert hits not in [n.key for n in app.sidebar.number_input]
    assert any("200 prefixes of 1,500 tokens" in c.value for c in app.sidebar.caption)
    assert planned[-1].workload.prefix_reuse is not None
    app.toggle(key=f"{state.PREFIX}prefix_reuse").set_value(False).run()
    number(app, "hit_percent").set_value(50.0).run()
    assert planned[-1].workload.prefix_reuse is None
    assert planned[-1].workload.prefix_hit_rate == 0.5
    app.toggle(key=f"{state.PREFIX}prefix_reuse").set_value(True).run()
    assert app.session_state["planner.edited"].workload.prefix_reuse == loaded.workload.prefix_reuse


@pytest.mark.parametrize("example", ["deepseek-r1-h200", "kimi-k2-gb200", "qwen3-32b-l40s"])
def test_examples_load(app, planned, example):
    app.selectbox(key="pick.example").set_value(example).run()
    assert not app.exception
    assert not app.error
    assert planned[-1].model == example.rsplit("-", 1)[0]


def test_an_example_survives_loading_unchanged(app, planned):
    from planner.ui import gallery

    for one in gallery.examples():
        app.selectbox(key="pick.example").set_value(one.id).run()
        assert planned[-1] == one.scenario


def test_a_kind_of_length_brings_its_numbers(app, planned):
    choice(app, "in.kind").set_value("lognormal").run()
    assert planned[-1].workload.input_tokens.p95_tokens == pytest.approx(2 * 4383)
    number(app, "in.mean").set_value(3000.0).run()
    assert planned[-1].workload.input_tokens.mean_tokens == 3000.0
    choice(app, "arrival.kind").set_value("closed_loop").run()
    assert planned[-1].workload.arrival.concurrency == 64


def test_nothing_feasible_says_so_first(app):
    number(app, "slo.tpot_ms.limit").set_value(10.0).run()
    assert headings(app) == "Nothing serves this as asked"
    assert "Does not fit GPU memory" in app.error[0].value
    text = " ".join(m.value for m in app.main.markdown)
    assert "What would help" in text
    assert "1,204 times" in text
    assert not app.metric


def test_bad_input_is_one_sentence(app, planned):
    before = len(planned)
    choice(app, "in.kind").set_value("lognormal").run()
    number(app, "in.p95").set_value(90_000.0).run()
    assert not app.exception
    said = app.error[0].value.replace("\\", "")
    assert said.startswith("**Input tokens**: “95 % are below” of a lognormal must be above its mean")
    assert "_tokens" not in said
    assert not app.metric
    assert len(planned) == before + 1
    number(app, "in.p95").set_value(9_000.0).run()
    assert app.metric


def test_no_hardware_is_one_sentence(app):
    app.button_group(key=f"{state.PREFIX}nodes").set_value([]).run()
    assert not app.exception
    assert "choose at least one node type" in app.error[0].value


def test_errors_are_not_kept(app, planned, monkeypatch):
    good = answers.planned

    def fails(scenario, catalog):
        raise InputError("workload.arrival", 7, "something else")

    monkeypatch.setattr(answers, "planned", fails)
    number(app, "slo.tpot_ms.limit").set_value(31.0).run()
    assert "workload.arrival" in app.error[0].value
    monkeypatch.setattr(answers, "planned", good)
    app.run()
    assert not app.error
    assert app.metric


def test_a_scenario_file_is_loaded(app, planned, scenario):
    data = scenario.to_dict() | {"name": "Mine", "objective": "fewest_gpus"}
    mine = type(scenario).from_dict(data)
    app.file_uploader(key="load.file.0").set_value(("mine.yaml", mine.to_yaml().encode(), "text/yaml")).run()
    assert planned[-1] == mine
    assert app.selectbox(key="pick.example").value is None
    assert choice(app, "objective").value == "fewest_gpus"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"schema: planner.scenario/1\nmodle: x\n", "did you mean model"),
        (b"a: [", "not YAML"),
        (b"\xff\xfe", "UTF-8"),
        (b"schema: planner.scenario/1\nmodel: ../x.yaml\n", "opens no files"),
    ],
)
def test_a_bad_file_is_one_sentence_and_changes_nothing(app, planned, text, says):
    before = list(planned)
    app.file_uploader(key="load.file.0").set_value(("x.yaml", text, "text/yaml")).run()
    assert not app.exception
    assert says in app.error[0].value.replace("\\", "")
    assert app.metric
    assert planned == before
    app.run()
    assert not app.error


def test_a_pasted_model_is_planned(app, planned):
    app.text_area(key="paste.config").set_value(json.dumps(CONFIG))
    app.text_input(key="paste.name").set_value("mine")
    next(b for b in app.sidebar.button if b.label == "Use this model").click().run()
    assert not app.exception
    assert not app.error
    assert planned[-1].model == "mine"
    assert planned[-1].model_spec.hidden_size == 4096
    number(app, "slo.tpot_ms.limit").set_value(40.0).run()
    assert planned[-1].model_spec is not None


def test_a_bad_config_is_one_sentence(app):
    app.text_area(key="paste.config").set_value('{"model_type": "nonesuch"}')
    next(b for b in app.sidebar.button if b.label == "Use this model").click().run()
    assert not app.exception
    assert "nonesuch" in app.error[0].value
    assert app.metric


def test_prices_are_yours(app, planned):
    number(app, "price.hgx-h800").set_value(3.0).run()
    assert planned[-1].economics.usd_per_gpu_hour == {"hgx-h800": 3.0}


def test_hardware_and_its_price_are_added(app, planned):
    app.button_group(key=f"{state.PREFIX}nodes").select("dgx-h200").run()
    assert [c.node for c in planned[-1].hardware.candidates] == ["hgx-h800", "dgx-h200"]
    number(app, "price.dgx-h200").set_value(4.0).run()
    assert planned[-1].economics.usd_per_gpu_hour["dgx-h200"] == 4.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": "deepseek-v9"}, "deepseek\\-v3"),
        ({"hardware": {"candidates": [{"node": "hgx-h900"}]}}, "hgx\\-h800"),
        ({"economics": {"usd_per_gpu_hour": {"![x](http://x)": 1.0}}}, "usd\\_per\\_gpu\\_hour"),
    ],
)
def test_unknown_names_in_a_file_are_one_sentence_and_change_nothing(app, scenario, change, says):
    before = app.session_state["planner.edited"]
    text = type(scenario).from_dict(scenario.to_dict() | change).to_yaml()
    app.file_uploader(key="load.file.0").set_value(("x.yaml", text.encode(), "text/yaml")).run()
    assert not app.exception
    assert says in app.error[0].value
    assert "![x]" not in app.error[0].value
    assert "Nothing was changed" in " ".join(c.value for c in app.main.caption)
    assert app.session_state["planner.edited"] == before
    assert app.selectbox(key="pick.example").value == "deepseek-v3-h800"
    assert app.metric


@pytest.mark.parametrize(("field", "kept"), [("arrival.rate", 7.5), ("hit_percent", 40.0), ("out.mean", 800.0)])
def test_an_emptied_number_keeps_the_last_value_and_says_so(app, planned, field, kept):
    app.selectbox(key=f"{state.PREFIX}arrival.kind").set_value("poisson").run()
    app.selectbox(key=f"{state.PREFIX}out.kind").set_value("lognormal").run()
    number(app, field).set_value(kept).run()
    asked = len(planned)
    number(app, field).set_value(None).run()
    assert not app.exception
    assert number(app, field).value == kept
    assert any("the last one stays" in c.value for c in app.sidebar.caption)
    assert len(planned) == asked
    app.run()
    assert not any("the last one stays" in c.value for c in app.sidebar.caption)


def test_a_limit_beyond_every_limit_is_refused_as_it_was_typed(app):
    number(app, "slo.ttft_ms.limit").set_value(-1.0).run()
    number(app, "slo.ttft_ms.limit").set_value(1e12).run()
    assert "1000000000000" in app.error[0].value
    assert "must be at most" in app.error[0].value


def test_a_changed_scenario_no_longer_bears_the_title_of_the_example(app, planned, scenario):
    number(app, "slo.tpot_ms.limit").set_value(35.0).run()
    assert planned[-1].name == f"{scenario.name} (changed)"
    assert planned[-1].description is None
    number(app, "slo.tpot_ms.limit").set_value(36.0).run()
    assert planned[-1].name.count("(changed)") == 1
    number(app, "slo.tpot_ms.limit").set_value(50.0).run()
    assert app.session_state["planner.edited"] == scenario


def test_a_version_that_is_not_known_is_told_both_that_are(app, plan):
    text = plan.to_yaml().replace("planner.plan/1", "planner.plan/9", 1)
    app.file_uploader(key="load.file.0").set_value(("x.yaml", text.encode(), "text/yaml")).run()
    said = app.error[0].value.replace("\\", "")
    assert "planner.plan/9" in said
    assert "planner.scenario/1, planner.plan/1" in said

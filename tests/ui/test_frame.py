"""The frame around the pages: links, language, scenarios under names, remedies, compare, catalogue."""

import json
import re

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from planner.ui import gallery, i18n, links, state
from planner.ui.links import Linked
from tests.ui.conftest import APP, SECONDS
from tests.ui.sample_config import CONFIG

CHINESE = re.compile(r"[一-鿿]")
FIRST_LIMIT = 50.0


def turn_to(app: AppTest, page: str) -> AppTest:
    """The same session on another page."""
    app._page_hash = calc_hash(page)
    return app.run()


def opened(**parameters: str) -> AppTest:
    """A new session at an address."""
    app = AppTest.from_file(str(APP), default_timeout=SECONDS)
    for key, value in parameters.items():
        app.query_params[key] = value
    return app.run()


def limit(app: AppTest):
    return app.number_input(key=f"{state.PREFIX}slo.tpot_ms.limit")


def button(app: AppTest, label: str):
    return next(b for b in app.button if label in b.label)


@pytest.fixture
def chinese():
    i18n.use("zh")
    yield
    i18n.use(i18n.DEFAULT)


def text(app: AppTest) -> str:
    return " ".join(str(e.value) for kind in (app.title, app.main.markdown, app.subheader, app.error) for e in kind)


def test_a_link_opens_the_same_plan(app, planned):
    limit(app).set_value(35.0).run()
    address = next(c.value for c in app.sidebar.code)
    shown = [m.value for m in app.metric]
    again = opened(s=address.partition("s=")[2])
    assert not again.exception
    assert limit(again).value == 35.0
    assert [m.value for m in again.metric] == shown
    assert planned[-1].slo.tpot_ms.mean == 35.0


def test_a_link_keeps_the_candidate_and_the_address_survives_a_change_of_page(planned):
    scenario = gallery.example("deepseek-r1-h200").scenario
    packed = links.pack(Linked(scenario, rank=2))
    app = opened(s=packed)
    assert any("chosen by you" in c.value for c in app.main.caption)
    turn_to(app, "catalogue")
    assert packed in app.query_params["s"]
    turn_to(app, "plan")
    assert any("chosen by you" in c.value for c in app.main.caption)


@pytest.mark.parametrize("packed", ["nonsense", "1.AAAA", "9.x", "1." + "A" * 7_000])
def test_a_bad_link_is_one_sentence_above_the_first_example(planned, packed):
    app = opened(s=packed)
    assert not app.exception
    assert "link" in app.error[0].value
    assert app.metric
    assert planned[-1].model == "deepseek-v3"


def test_the_language_is_switched_and_remembered(app, planned, chinese):
    limit(app).set_value(35.0).run()
    app.button_group(key="pick.language").set_value("zh").run()
    assert not app.exception
    assert "zh" in app.query_params["lang"]
    assert limit(app).value == 35.0
    assert CHINESE.search(app.title[0].value)
    assert app.sidebar.header[0].value == "容量规划"
    again = opened(lang="zh")
    assert CHINESE.search(again.title[0].value)
    assert opened(lang="xx").title[0].value == ":gray[What would it take?]"


def test_scenarios_are_kept_under_names(app, planned):
    limit(app).set_value(35.0).run()
    app.text_input(key="save.name").set_value("tight")
    button(app, "Save under this name").click().run()
    assert not app.error
    limit(app).set_value(60.0).run()
    app.text_input(key="save.name").set_value("loose")
    button(app, "Save under this name").click().run()
    app.button(key="switch.0").click().run()
    assert limit(app).value == 35.0
    assert app.session_state["planner.edited"].name == "tight"
    app.button(key="delete.1").click().run()
    assert list(app.session_state["planner.saved"]) == ["tight"]
    assert not app.exception


def test_what_if_answers_unasked_and_takes_values(app, planned):
    turn_to(app, "compare")
    assert not app.exception
    assert "TPOT limit" in text(app)
    asked = len(planned)
    values = next(t for t in app.main.text_input if t.label == "Values to try")
    values.set_value("20, 30, 50").run()
    assert not app.exception
    assert {s.slo.tpot_ms.mean for s in planned[asked:]} == {20.0, 30.0}
    values = next(t for t in app.main.text_input if t.label == "Values to try")
    values.set_value("20, many").run()
    assert "numbers with commas" in app.error[0].value


def test_two_scenarios_side_by_side(app, planned):
    limit(app).set_value(30.0).run()
    turn_to(app, "compare")
    app.selectbox(key="compare.right").set_value("before").run()
    assert not app.exception
    assert any("compare directly" in s.value for s in app.success)
    app.selectbox(key="compare.right").set_value("example.kimi-k2-gb200").run()
    assert not app.exception
    tables = " ".join(str(t.value.to_dict()) for t in app.main.table)
    assert "kimi" in tables.lower()


def test_the_tuple_is_that_of_the_candidate_compared(app, planned):
    turn_to(app, "compare")
    app.selectbox(key="compare.right").set_value("example.deepseek-r1-h200").run()
    # The first table says where the scenarios differ, the second what the two are results of.
    before = [str(t.value.to_dict()) for t in app.main.table[:2]]
    app.session_state["planner.chosen"] = 3
    app.run()
    assert not app.exception
    after = [str(t.value.to_dict()) for t in app.main.table[:2]]
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def test_where_the_scenarios_differ_comes_before_what_the_plans_are_results_of(app, planned):
    limit(app).set_value(30.0).run()
    turn_to(app, "compare")
    app.session_state["planner.chosen"] = 3
    app.run()
    app.selectbox(key="compare.right").set_value("before").run()
    assert not app.exception
    first = app.main.table[0].value.to_dict()
    assert "tpot" in str(first)
    said = " ".join(c.value for c in app.main.caption)
    assert "one point only" not in said
    assert "from where the scenarios differ" in said


def test_a_plan_file_is_compared(app, planned, plan):
    turn_to(app, "compare")
    app.file_uploader(key="compare.file").set_value(("x.yaml", plan.to_yaml().encode(), "text/yaml")).run()
    app.selectbox(key="compare.right").set_value("upload").run()
    assert not app.exception
    assert not app.error
    app.file_uploader(key="compare.file").set_value(("x.yaml", b"a: 1", "text/yaml")).run()
    assert not app.exception
    assert "plan is needed" in app.error[0].value


def test_the_catalogue_shows_what_the_scenario_uses(app, planned):
    turn_to(app, "catalogue")
    assert not app.exception
    assert "H800" in text(app)
    for kind in ("node", "model"):
        app.button_group(key="catalogue.kind").set_value(kind).run()
        assert not app.exception
    assert "deepseek\\-v3" in text(app)


def test_a_pasted_config_is_explained_and_used(app, planned):
    turn_to(app, "catalogue")
    app.text_area(key="own.config").set_value(json.dumps(CONFIG)).run()
    assert any("Understood" in s.value for s in app.success)
    assert "8.03 billion" in [m.value for m in app.main.metric]
    button(app, "Use this model in the scenario").click().run()
    turn_to(app, "plan")
    assert planned[-1].model_spec.hidden_size == 4096
    turn_to(app, "catalogue")
    app.text_area(key="own.config").set_value('{"model_type": "nonesuch"}').run()
    assert "nonesuch" in app.error[0].value
    assert "Understood model types" in text(app)


def test_own_hardware_is_planned_deleted_and_travels(app, planned):
    turn_to(app, "catalogue")
    next(b for b in app.main.button if b.label == "Add it" and b.key != "own.yaml.add").click().run()
    assert not app.exception
    assert not app.error
    assert "my-h100-sxm-8" in state_nodes(app)
    assert "my\\-h100\\-sxm\\-8" in app.toast[0].value
    assert [c.node for c in app.session_state["planner.edited"].hardware.candidates] == ["my-h100-sxm-8"]
    app.button(key="own.node.my-h100-sxm-8").click().run()
    turn_to(app, "plan")
    assert planned[-1].hardware.candidates[0].node == "my-h100-sxm-8"
    again = opened(s=next(c.value for c in app.sidebar.code).partition("s=")[2])
    assert not again.error
    assert "my-h100-sxm-8" in state_nodes(again)
    turn_to(app, "catalogue")
    app.button(key="own.delete.accelerator.my-h100-sxm").click().run()
    assert not app.exception
    assert "my\\-h100\\-sxm\\-8" in turn_to(app, "plan").error[0].value


def state_nodes(app: AppTest) -> list[str]:
    return list(app.session_state["planner.overlay"].entries["node"])


def test_bad_yaml_of_ones_own_is_one_sentence(app, planned):
    turn_to(app, "catalogue")
    app.text_area(key="own.yaml").set_value("tflops_dense: {bf16: 1}\nid: x")
    app.button(key="own.yaml.add").click().run()
    assert not app.exception
    assert app.error


def test_a_model_by_its_numbers_is_worked_out(app, planned):
    turn_to(app, "catalogue")
    button(app, "Work it out").click().run()
    assert not app.exception
    assert any("my-model" in s.value.replace("\\", "") for s in app.success)


def test_a_limit_that_is_not_above_zero_is_refused_with_the_reason(app):
    limit(app).set_value(-3.0).run()
    assert not app.exception
    assert any("TPOT, ms at mean" in e.value.replace("\\", "") and "must be at least" in e.value for e in app.error)

"""What is taken home: every file that the planner can write of a plan, and sentences where it cannot."""

import io
from pathlib import Path

import pytest

import planner
from planner.catalog import catalog
from planner.errors import InputError, UnknownNameError
from planner.export.formats import ENGINES, FORMATS, export_text
from planner.scenario.load import load_scenario
from planner.scenario.schema import NodeChoice
from planner.ui import links, overlay, own
from planner.ui.overlay import Overlay
from planner.ui.sections import take_home
from tests.ui.test_frame import opened

FILES = ("Plan (YAML)", "Workbook (Excel)", "Report (HTML)", "Report (Markdown)")


def downloads(app) -> list[str]:
    return [b.label for b in app.main.get("download_button")]


def chooser(app):
    return app.button_group(key="start.sglang")


def test_all_files_are_offered_and_no_format_is_left_out(app):
    assert downloads(app) == [*FILES, "Launch script"]
    options = set(chooser(app).options)
    assert options == {"SGLang script", "vLLM script", "TensorRT-LLM script", "LeaderWorkerSet", "Dynamo", "llm-d"}
    assert len(options) + 2 == len(FORMATS)


def test_the_script_on_show_is_that_of_the_engine_planned_with(app, plan):
    (code,) = app.main.code
    assert code.value == export_text(plan, "sglang").rstrip("\n") or code.value == export_text(plan, "sglang")
    assert not app.main.warning or all("weaker" in w.value for w in app.main.warning)


@pytest.mark.parametrize("name", [*ENGINES, "leaderworkerset", "dynamo", "llm-d"])
def test_each_script_and_manifest_is_shown_or_refused_in_a_sentence(app, plan, name):
    chooser(app).set_value(name).run()
    assert not app.exception
    if app.main.code:
        assert app.main.code[0].value.strip() == export_text(plan, name).strip()
        assert downloads(app)[-1] == ("Launch script" if name in ENGINES else "Manifest (YAML)")
    else:
        assert downloads(app) == [*FILES]
        assert any("--format" not in w.value and w.value.endswith(".") for w in app.main.warning)


def test_files_follow_the_candidate_chosen(app, plan):
    from planner.ui import state

    app.session_state[state._CHOSEN] = 3
    app.run()
    assert app.main.code[0].value.strip() == export_text(plan, "sglang", 3).strip()


def test_a_vendor_that_an_engine_does_not_run_on_is_a_sentence(planned):
    app = opened()
    app.selectbox(key="pick.example").set_value("llama-3.3-70b-mi300x").run()
    app.button_group(key="start.vllm").set_value("trtllm").run()
    assert not app.exception
    said = next(w.value.replace("\\", "") for w in app.main.warning if "AMD" in w.value)
    assert said.startswith("TensorRT-LLM: the plan's accelerators")
    assert "vLLM and SGLang" in said
    assert downloads(app) == [*FILES]


def test_nothing_feasible_leaves_plan_and_reports(app):
    app.number_input(key="f.slo.tpot_ms.limit").set_value(10.0).run()
    assert downloads(app) == [FILES[0], *FILES[2:]]


def test_the_workbook_opens(plan):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(io.BytesIO(take_home.workbook(plan, catalog())))
    assert {"Summary", "Prices", "Candidates"} <= set(book.sheetnames)


def test_own_hardware_goes_into_every_file(tmp_path: Path):
    openpyxl = pytest.importorskip("openpyxl")
    known = Overlay(own.hardware(catalog(), own.defaults(catalog(), "h100-sxm") | {"id": "mine", "base": "h100-sxm"}))
    scenario = load_scenario(Path(__file__).parents[2] / "examples" / "gpt-oss-120b-h100.yaml")
    hardware = scenario.hardware.model_copy(update={"candidates": (NodeChoice(node="mine-8"),)})
    scenario = scenario.model_copy(update={"hardware": hardware})
    plan = planner.plan(scenario, known.catalog)
    assert plan.best is not None
    carried = links.from_text(take_home.plan_text(plan, overlay.used(known.entries, scenario)), "plan.yaml")
    assert carried.scenario == scenario
    assert list(carried.entries["node"]) == ["mine-8"]
    assert take_home.plan_text(plan, {}) == plan.to_yaml()
    for name in FORMATS:
        assert export_text(plan, name, catalog=known.catalog)
    book = openpyxl.load_workbook(io.BytesIO(take_home.workbook(plan, known.catalog)))
    assert "mine-8" in {cell.value for cell in book["Prices"]["A"]}
    with pytest.raises(UnknownNameError, match="mine-8"):
        export_text(plan, "vllm")


def test_a_refusal_does_not_name_the_command_lines_option():
    error = InputError("--format", "trtllm", "it does not run there")
    assert take_home.refusal(error).replace("\\", "") == "TensorRT-LLM: it does not run there."
    assert "allowed" in take_home.refusal(UnknownNameError("node", "x", ("a", "b")))


def test_a_missing_library_is_said_before_the_button_is_pressed(app, monkeypatch):
    monkeypatch.setattr(take_home, "_workbooks", lambda: False)
    app.run()
    assert FILES[1] not in downloads(app)
    assert any("XlsxWriter" in c.value for c in app.main.caption)


def test_the_workbook_opens_on_the_candidate_chosen(plan):
    openpyxl = pytest.importorskip("openpyxl")
    cells = []
    for rank in (1, 3):
        book = openpyxl.load_workbook(io.BytesIO(take_home.workbook(plan, catalog(), rank)))
        cells.append([c.value for row in book["Summary"].iter_rows() for c in row])
    assert cells[0] != cells[1]


def test_what_is_of_the_choice_and_what_is_not_is_said(app):
    from planner.ui import state

    assert not any("which you chose" in c.value for c in app.main.caption)
    app.session_state[state._CHOSEN] = 3
    app.run()
    said = next(c.value for c in app.main.caption if "which you chose" in c.value)
    assert "candidate 3" in said
    assert "opens with the best" in said

"""The catalogue in words: every fact has a name, searches find, tables are of what was found."""

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from planner.model.sensitivity import SENSITIVITY
from planner.ui.sections import memory_precision
from planner.ui.sections.catalogue import facts, tables


def test_every_fact_has_a_name(cat):
    entries = [*map(cat.accelerator, cat.accelerator_ids()), *map(cat.node, cat.node_ids())]
    keys = {fact.key for entry in entries for fact in facts.facts(entry)}
    assert keys <= set(facts.names())


def test_a_fact_says_number_unit_and_source(cat):
    found = {fact.key: fact for fact in facts.facts(cat.accelerator("h200-sxm"))}
    assert found["memory.gb_sold"].value == "141 GB"
    assert found["memory.gib_usable"].value == "139.8 GiB"
    assert found["memory.gib_usable"].source.startswith("measured: ")
    assert found["tflops_dense.fp4"].value is None
    assert "datasheet" in found["tflops_dense.bf16"].source
    assert facts.price(cat.prices().rental("h200-sxm")).source


@pytest.mark.parametrize(
    ("kind", "sought", "groups", "expected"),
    [
        ("accelerator", "H200", [], {"h200-sxm"}),
        ("accelerator", "", ["AMD"], {"mi300x", "mi325x", "mi355x"}),
        ("model", "deepseek mla", [], {"deepseek-v3"}),
        ("node", "no such thing", [], set()),
    ],
)
def test_a_search_finds(cat, kind, sought, groups, expected):
    everything = tables.frame(kind, cat, frozenset())
    found = set(tables.matching(everything, sought, groups)["id"])
    assert expected <= found
    assert len(found) < len(everything)
    assert bool(found) == bool(expected)


def test_the_page_shows_what_was_searched(open_page):
    st.cache_data.clear()
    app = open_page("catalogue", "gpt-oss-120b-h100")
    app.text_input(key="catalogue.search.accelerator").set_value("mi300").run()
    assert not app.exception
    assert list(app.dataframe[0].value["id"]) == ["mi300x"]
    app.text_input(key="catalogue.search.accelerator").set_value("zzz").run()
    assert not app.exception
    assert any("Nothing is called so" in i.value for i in app.info)


def _form() -> None:
    from planner.ui import state
    from planner.ui.sections.catalogue import entry

    state.start()
    entry.model()


def test_the_form_names_its_own_fields():
    app = AppTest.from_function(_form, default_timeout=60).run()
    next(n for n in app.number_input if n.label == "KV heads").set_value(7)
    app.button[0].click().run()
    assert not app.exception
    assert app.error[0].value.startswith("**KV heads**: ")


def test_every_sensitivity_has_its_reason():
    assert set(memory_precision.reasons()) == set(SENSITIVITY)


def _windowed():
    from planner.catalog import load_model
    from planner.ui.sections.catalogue import detail

    detail.model(load_model("gemma-3-27b"))
    detail.model(load_model("qwen3-32b"))


def test_the_cache_of_a_windowed_model_is_told_for_both_lengths():
    app = AppTest.from_function(_windowed, default_timeout=60).run()
    assert not app.exception
    assert "496 KiB" in [m.value for m in app.metric]
    assert [c.value for c in app.caption if "windows" in c.value] == ["80.0 KiB once windows are full"]

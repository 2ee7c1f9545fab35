"""Pages in Chinese: the same tables, no column lost to a header of the same name, no half-width colon after Chinese."""

import json
import re

import pytest

from planner.ui import i18n

PAGES = ("memory", "layout", "load", "cost", "evidence", "catalogue")
HALF_WIDTH = re.compile(r"[\u4e00-\u9fff）](?:</?b>)?[:;,](?![/\d])")


@pytest.fixture
def spoken():
    yield
    i18n.use(i18n.DEFAULT)


def run_in(open_page, page, example, language):
    app = open_page(page, example)
    app.session_state["planner.language"] = language
    app.run()
    assert not app.exception
    return app


@pytest.mark.parametrize("example", ["gpt-oss-120b-h100", "kimi-k2-gb200"])
@pytest.mark.parametrize("page", PAGES)
def test_both_languages_show_the_same(open_page, spoken, page, example):
    english, chinese = (run_in(open_page, page, example, language) for language in ("en", "zh"))
    assert [t.value.shape for t in english.table] == [t.value.shape for t in chinese.table]
    assert len(english.get("plotly_chart")) == len(chinese.get("plotly_chart"))
    for chart in chinese.get("plotly_chart"):
        texts = re.sub(r'"(?:x|y|ids)":\[[^\]]*\]', "", json.dumps(json.loads(chart.proto.spec), ensure_ascii=False))
        assert not HALF_WIDTH.findall(texts), HALF_WIDTH.findall(texts)
    said = [m.value for m in (*chinese.markdown, *chinese.caption) if m.value]
    assert [t for t in said if HALF_WIDTH.search(t.replace("\\", ""))] == []


@pytest.mark.parametrize(("language", "words"), [("en", "19 measured runs"), ("zh", "19 次实测")])
def test_the_answer_warns_of_a_gpu_that_was_predicted_badly(open_page, spoken, language, words):
    app = run_in(open_page, "plan", "kimi-k2-gb200", language)
    warned = [w.value for w in app.warning if words in w.value]
    assert warned
    assert "Qwen3" in warned[0]

"""Every string of the pages is there in every language, compiled, with its fields."""

import re
from collections.abc import Mapping

import pytest

from planner.economics.owning import owning_defaults
from planner.errors import InputError
from planner.hardware.curves import fallback_rules
from planner.layout.rules import RULES
from planner.replay.generate import fixed_trace
from planner.search.certainty import DISTANCE_WORDS
from planner.search.explain import TERM_WORDS
from planner.search.explain import WORDS as RESOURCE_WORDS
from planner.search.headline import BINDING, headline
from planner.search.ladder import climb
from planner.search.rejections import REASONS
from planner.ui import gallery, i18n, phrases, templates, upload
from planner.ui.i18n import LOCALES
from planner.ui.sections import errors
from planner.ui.text import sentence

pytest.importorskip("babel", reason="Babel is not installed")

from planner.ui import locale

FIELD = re.compile(r"\{[^}]*\}")
FOLDERS = list(LOCALES.values())


@pytest.fixture
def chinese():
    i18n.use("zh")
    yield
    i18n.use(i18n.DEFAULT)


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_missing_or_guessed(folder):
    left = [m.id for m in locale.missing(folder)]
    assert not left, f"translate in {locale.path(folder)} after python -m planner.ui.locale: {left[:5]} …"


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_compiled_catalogue_is_that_of_the_text(folder):
    assert locale.path(folder).with_suffix(".mo").read_bytes() == locale.compiled(locale.read(folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_fields_are_those_of_the_message(folder):
    for message in locale.read(folder):
        texts = [message.string] if isinstance(message.string, str) else message.string
        ids = [message.id] if isinstance(message.id, str) else message.id
        allowed = {f for i in ids for f in FIELD.findall(i)}
        for text in texts:
            assert set(FIELD.findall(text)) <= allowed, message.id
            if message.id and not isinstance(message.id, tuple | list):
                assert sorted(FIELD.findall(text)) == sorted(FIELD.findall(message.id)), message.id


@pytest.mark.parametrize("folder", FOLDERS)
def test_bold_closes_before_punctuation(folder):
    """Markdown does not see the end of bold text between full-width punctuation and a letter."""
    for message in locale.read(folder):
        for text in [message.string] if isinstance(message.string, str) else message.string:
            for bold in text.split("**")[1::2]:
                assert bold[-1] not in "：。，；）", text


def test_the_librarys_typed_sentences_have_templates():
    assert {r.text for r in REASONS.values()} <= set(templates.WHY)
    for rule in RULES:
        assert rule.sentence in templates.WHY
        assert rule.fix in templates.FIXES
    assert set(DISTANCE_WORDS.values()) <= set(templates.SENTENCES)
    assert [w for w in _whys(fallback_rules()) if not phrases.known(w)] == []
    words = {*TERM_WORDS.values(), *RESOURCE_WORDS.values()} - {"host time"}
    assert words <= set(templates.WORDS)


def _whys(rules):
    """Why one operator curve stands in for another, anywhere in the rules."""
    for key, value in rules.items() if isinstance(rules, Mapping) else enumerate(rules):
        if isinstance(value, Mapping | list | tuple):
            yield from _whys(value)
        elif key == "why" and isinstance(value, str):
            yield value


@pytest.mark.parametrize("id", ["deepseek-v3-h800", "infeasible-405b-one-h100", "llama-3.3-70b-mi300x"])
def test_what_real_plans_say_is_covered(id):
    import planner

    plan = planner.plan(gallery.example(id).scenario)
    said = [*plan.assumptions]
    for c in plan.candidates[:5]:
        said += [c.binding, *c.explanation, c.evidence.distance or "", *(m.text for m in c.evidence.marks)]
    for r in plan.rejected:
        said += [r.example, r.fix or ""]
    for m in plan.nearest_misses:
        said += [m.text, m.fix or ""]
    english = [t for t in said if t and not phrases.known(t)]
    assert not english, "give planner/ui/templates.py a template for these"


def test_what_a_replayed_ladder_says_is_covered():
    found = climb(gallery.example("gpt-oss-120b-h100").scenario, fixed_trace("short_qa", 50, 0))
    rungs = [f"{r.name}: 3 requests exceed the context limit or a rank's cache and are left out." for r in found.rungs]
    assert [n for n in (*found.notes, *rungs) if not phrases.known(n)] == []


def test_a_plan_without_an_answer_is_covered():
    import planner

    said = headline(planner.plan(gallery.example("infeasible-405b-one-h100").scenario))
    assert "binds" in said
    assert phrases.known(said)
    assert set(BINDING.values()) <= set(templates.NOTHING)


def test_what_an_owners_inputs_stand_for_is_covered():
    given = owning_defaults()
    notes = [getattr(given, name).note for name in type(given).model_fields]
    assert [n for n in notes if not phrases.known(n)] == []


def test_a_refusal_in_the_librarys_words_is_chinese(chinese):
    text = errors.message(
        InputError("workload.input_tokens", "73,858 tokens with the output", "at most 40,960, the context of qwen3-32b")
    )
    assert "连同输出共 73,858 个 token" in text.replace("\\", "")
    assert "with the output" not in text


def test_numbers_and_names_stay(chinese):
    text = "TP8 on dgx-h200 at 12 requests per worker: needs 2 nodes for the load, 1 are allowed"
    assert sentence(text) == "dgx-h200 上的 TP8，每实例 12 个请求：承载该负载需要 2 个节点，允许 1 个。"
    assert sentence("memory bandwidth in routed experts (66% of the decode step)") == (
        "路由专家的显存带宽（占解码步的 66 %）。"
    )
    assert sentence("something nobody foresaw") == "Something nobody foresaw."


@pytest.mark.parametrize(("word", "name"), [("dispatch", "分发（dispatch"), ("combine", "汇总（combine")])
def test_what_experts_exchange_has_one_name(word, name):
    texts = [str(m.string) for m in locale.read("zh_CN") if m.id and word in str(m.string)]
    assert texts
    for text in texts:
        assert text.count(word) == text.count(name), text


def test_errors_of_a_file_are_chinese_to_the_last_bracket(chinese, scenario):
    bad = scenario.to_dict() | {"objective": "lowest_cosst", "slo": {"ttft": 3}, "workload": {"a": 1}}
    one = {**scenario.to_dict(), "objective": "lowest_cosst"}
    for data, says in ((bad, "另有"), (one, "是不是")):
        with pytest.raises(InputError) as error:
            upload.scenario_from_mapping(data, "plan.yaml")
        text = errors.message(error.value)
        assert says in text
        assert not re.search(r"did you mean|more error|allowed|: |\\:", text), text

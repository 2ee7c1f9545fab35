"""One variable at a time, and two plans side by side."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from plan_data import many

from planner.errors import InputError
from planner.scenario.differences import flat
from planner.ui import comparison, draft, gallery
from planner.ui.figures.sweep import metrics
from planner.ui.figures.sweep import sweep as drawn
from planner.ui.sections import whatif
from planner.ui.sweep import points, popular, variables

EXAMPLES = [e.id for e in gallery.examples()]


@pytest.mark.parametrize("id", EXAMPLES)
def test_every_variable_changes_one_thing(id, cat):
    scenario = gallery.example(id).scenario
    for variable in variables(scenario, popular(scenario, cat)).values():
        for value in variable.values:
            after = draft.build(scenario, variable.put(value))
            keys = {k.split(".")[0] for k, _a, _b in _changes(scenario, after)}
            assert len(keys) <= 1, variable.id
            assert (after == scenario) == (value == variable.now), (variable.id, value)


def _changes(a, b):
    left, right = flat(a.to_dict()), flat(b.to_dict())
    keys = {*left, *right} - {"name", "description"}
    return [(k, left.get(k), right.get(k)) for k in keys if left.get(k) != right.get(k)]


def test_a_sweep_keeps_what_cannot_be_served(scenario):
    variable = variables(scenario, ())["tpot_ms"]
    with ThreadPoolExecutor(2) as pool:
        found = sorted(points(scenario, variable, (10.0, 30.0, 50.0), many, pool), key=lambda p: p.value)
    assert [p.best is None for p in found] == [True, False, False]
    for metric in metrics().values():
        figure = drawn(variable, found, metric)
        assert any(t.name == "nothing serves it" for t in figure.data)
    table = whatif.frame(variable, found)
    assert list(table["value"]) == [10.0, 30.0, 50.0]
    assert "Does not fit" in table["deployment"][0]
    assert "cheapest at 50" in whatif.answer(variable, found) or "does not change" in whatif.answer(variable, found)


def test_values_are_read_as_people_write_them(scenario):
    variable = variables(scenario, ())["tpot_ms"]
    assert whatif.parsed("50, 20;30，20", variable) == (20.0, 30.0, 50.0)
    whole = variables(scenario, ())["in"]
    assert whatif.parsed("1000.4", whole) == (1000,)


@pytest.mark.parametrize("text", ["", "x", "1, two", "-5", "nan", ",".join(map(str, range(1, 20)))])
def test_bad_values_are_one_sentence(scenario, text):
    with pytest.raises(InputError):
        whatif.parsed(text, variables(scenario, ())["tpot_ms"])


def test_what_two_plans_are_results_of_comes_first(scenario):
    a = many(scenario)
    assert comparison.identities(a.identity, a.identity) == []
    assert comparison.scenarios(a, a) == []
    b = many(draft.build(scenario, {"slo.tpot_ms.limit": 30.0}))
    assert comparison.scenarios(a, b) == [("slo.tpot_ms.mean", "50", "30")]
    other = a.model_copy(update={"identity": a.identity.model_copy(update={"gpu": "h100-sxm"})})
    assert comparison.identities(a.identity, other.identity) == [("GPU", "h800-sxm", "h100-sxm")]


def test_numbers_side_by_side(plan):
    rows = {r.name: r for r in comparison.numbers(plan.candidates[0], plan.candidates[1])}
    first, second = plan.candidates[:2]
    assert rows["GPUs"].ratio == pytest.approx(second.gpus / first.gpus)
    assert rows["Joules per output token"].ratio is None

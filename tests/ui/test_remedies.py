"""Remedies are changes of the scenario that do what they say."""

import pytest

from planner import plan as make_plan
from planner.search.plan_schema import Rejection
from planner.ui import draft, gallery
from planner.ui.remedies import proven, remedies


def refused(reason: str, needed: float, available: float) -> Rejection:
    return Rejection(reason=reason, count=1, needed=needed, available=available, unit="x", example="e")


def changed(scenario, remedy):
    return draft.build(scenario, dict(remedy.values))


def test_a_limit_moves_to_what_is_reached_and_no_further(scenario):
    (one,) = remedies(scenario, refused("slo_tpot", 51.234, 50.0))
    assert one.label == "TPOT limit (mean) of 51.3 ms instead of 50.0 ms"
    assert changed(scenario, one).slo.tpot_ms.mean == 51.3


def test_a_limit_that_the_scenario_does_not_have_is_not_touched(scenario):
    assert remedies(scenario, refused("slo_e2e", 9.0, 5.0)) == []
    assert remedies(scenario, refused("slo_tpot", 9.0, 5.0)) == []
    assert remedies(scenario, refused("heads_not_divisible", 9.0, 5.0)) == []


def test_memory_offers_what_is_enough(scenario):
    memory = refused("memory", 100.0, 80.0)
    assert remedies(scenario, memory) == []
    cache = memory.model_copy(update={"fix": "short by 20 GiB per GPU; KV cache in fp8", "fits_gpus": 288})
    labels = [r.label for r in remedies(scenario, cache)]
    assert labels == ["KV cache in fp8", "workers of up to 288 GPUs"]


def test_a_worker_that_fits_gets_its_nodes_and_gpus():
    base = gallery.example("infeasible-405b-one-h100").scenario
    one = remedies(base, refused("memory", 800.0, 80.0).model_copy(update={"fits_gpus": 16}))[-1]
    after = changed(base, one).hardware.candidates[0]
    assert (after.gpus, after.max_nodes) == (None, 2)


def test_nodes_are_raised_to_what_the_load_needs():
    base = gallery.example("llama-3.3-70b-mi300x").scenario
    (one,) = remedies(base, refused("nodes", 7.0, 4.0))
    assert changed(base, one).hardware.candidates[0].max_nodes == 7
    (one,) = remedies(base, refused("rate", 10.0, 8.0))
    assert changed(base, one).hardware.candidates[0].max_nodes == 5


@pytest.mark.parametrize(
    ("example", "change"),
    [("infeasible-405b-one-h100", {}), ("deepseek-r1-h200", {"slo.tpot_ms.limit": 4.0})],
)
def test_following_the_remedies_leads_to_a_plan(example, change):
    scenario = draft.build(gallery.example(example).scenario, change)
    for _step in range(8):
        plan = make_plan(scenario)
        if plan.best is not None:
            break
        offered = remedies(scenario, plan.nearest_misses[0])
        assert offered
        for remedy in offered[-2:]:
            scenario = changed(scenario, remedy)
    assert plan.best is not None


@pytest.mark.parametrize(
    ("example", "change"),
    [
        ("deepseek-r1-h200", {"slo.ttft_ms.limit": 126.0}),
        ("deepseek-r1-h200", {"slo.tbt_ms.limit": 105.0}),
        ("qwen3-coder-480b-code-h200", {"slo.tpot_ms.limit": 2.87}),
    ],
)
def test_a_limit_is_offered_only_with_a_plan_to_show_for_it(example, change):
    """The value that the nearest miss reaches is not enough by itself: refining moves it."""
    scenario = draft.build(gallery.example(example).scenario, change)
    miss = make_plan(scenario).nearest_misses[0]
    remedy = proven(scenario, miss, make_plan)
    assert remedy is not None
    assert make_plan(changed(scenario, remedy)).best is not None
    (field, value), *_more = remedy.values
    assert field == next(iter(change))
    assert miss.needed < value < 1.2 * miss.needed


def test_a_limit_that_no_plan_follows_from_is_not_offered(scenario, plan):
    nothing = plan.model_copy(update={"candidates": (), "nearest_misses": ()})
    assert proven(scenario, refused("slo_tpot", 51.2, 50.0), lambda s: nothing) is None


def test_a_second_hurdle_is_named_in_the_same_button(scenario, plan):
    """Lifting the limit shows that memory is short: both changes are one offer."""
    miss = refused("slo_tpot", 51.2, 50.0)
    short = refused("memory", 100.0, 80.0).model_copy(update={"fix": "KV cache in fp8"})
    then = plan.model_copy(update={"candidates": (), "nearest_misses": (short,)})
    answers = iter([then, plan])
    remedy = proven(scenario, miss, lambda s: next(answers))
    assert remedy.label == "TPOT limit (mean) of 51.8 ms instead of 50.0 ms + KV cache in fp8"
    assert dict(remedy.values) == {"slo.tpot_ms.limit": 51.8, "precision.kv": "fp8"}

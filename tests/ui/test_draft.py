"""The form shows the scenario and puts changes back without losing what it does not show."""

import pytest

from planner.errors import InputError
from planner.scenario.load import scenario_from_data
from planner.ui import draft, gallery
from planner.ui.sidebar.files import file_stem

EXAMPLES = [e.id for e in gallery.examples()]


@pytest.mark.parametrize("id", EXAMPLES)
def test_nothing_changed_is_the_same_scenario(id):
    scenario = gallery.example(id).scenario
    assert draft.build(scenario, draft.fields(scenario)) == scenario


@pytest.mark.parametrize(
    ("field", "value", "where", "expected"),
    [
        ("model", "qwen3-32b", "model", "qwen3-32b"),
        ("objective", "fewest_gpus", "objective", "fewest_gpus"),
        ("hit_percent", 25.0, "workload.prefix_hit_rate", 0.25),
        ("serving", ["agg"], "search.serving", ["agg"]),
        ("spare_nodes", 2, "reliability.spare_nodes", 2),
        ("failures", 3, "reliability.failures", 3),
        ("reliability.detection_s", 12.0, "reliability.detection_s", 12.0),
        ("reliability.gpus_per_rack", 64, "reliability.gpus_per_rack", 64),
        ("day.peak_to_mean", 1.5, "workload.daily_profile.peak_to_mean", 1.5),
        ("engine.name", "vllm", "engine.name", "vllm"),
        ("engine.version", "0.5.0", "engine.version", "0.5.0"),
        ("option.max_num_seqs", 64, "engine.options.max_num_seqs", 64),
        ("option.redundant_experts", None, "engine.options.redundant_experts", None),
        ("precision.routed_experts", "fp8", "precision.routed_experts", "fp8"),
        ("precision.kv", None, "precision.kv", None),
        ("price.hgx-h800", 3.5, "economics.usd_per_gpu_hour.hgx-h800", 3.5),
        ("price.hgx-h800", None, "economics.usd_per_gpu_hour.hgx-h800", None),
        ("slo.tpot_ms.limit", 40.0, "slo.tpot_ms.mean", 40.0),
        ("slo.tpot_ms.limit", None, "slo.tpot_ms", None),
        ("slo.ttft_ms.percentile", "p99", "slo.ttft_ms.p99", 5000.0),
        ("slo.e2e_ms.limit", 90_000.0, "slo.e2e_ms.p95", 90_000.0),
        ("completion_percent", 99.0, "slo.completion_rate", 0.99),
        ("arrival.rate", 12.5, "workload.arrival.rate_rps", 12.5),
        ("arrival.kind", "closed_loop", "workload.arrival.concurrency", 64),
        ("in.tokens", 1000, "workload.input_tokens.tokens", 1000),
        ("in.kind", "lognormal", "workload.input_tokens.mean_tokens", 4383.0),
        ("out.kind", "uniform", "workload.output_tokens.kind", "uniform"),
        ("max_nodes.hgx-h800", 40, "hardware.candidates.0.max_nodes", 40),
        ("nodes", ["dgx-h200"], "hardware.candidates.0.node", "dgx-h200"),
        ("max_gpus_per_worker", None, "hardware.max_gpus_per_worker", None),
    ],
)
def test_a_field_changes_its_key(scenario, field, value, where, expected):
    changed = draft.build(scenario, {field: value}).to_dict()
    assert _at(changed, where) == expected
    assert scenario_from_data(changed) == draft.build(scenario, {field: value})


def _at(data, where):
    for key in where.split("."):
        data = data[int(key)] if isinstance(data, list) else (data or {}).get(key)
    return data


def test_what_the_form_does_not_show_is_kept(scenario):
    data = scenario.to_dict()
    data["workload"]["priority_classes"] = [{"name": "all", "share": 1.0, "priority": 0}]
    data["slo"]["ttft_ms"] = {"p50": 800.0, "p99": 4000.0}
    data["hardware"]["candidates"] = [{"node": "hgx-h800", "min_nodes": 2, "gpus": 4}]
    base = scenario_from_data(data)
    after = draft.build(base, {"slo.ttft_ms.limit": 900.0, "nodes": ["hgx-h800", "dgx-h200"]})
    assert after.workload.priority_classes == base.workload.priority_classes
    assert after.slo.ttft_ms.given() == {"p50": 900.0, "p99": 4000.0}
    assert after.hardware.candidates[0] == base.hardware.candidates[0]
    assert draft.further_limits(base, "ttft_ms") == {"p99": 4000.0}


def test_pools_come_and_go(scenario):
    split = draft.build(scenario, {"pools": True, "decode_nodes": ["hgx-h20-141g"]})
    assert [c.node for c in split.hardware.pools.prefill] == ["hgx-h800"]
    assert [c.node for c in split.hardware.pools.decode] == ["hgx-h20-141g"]
    assert draft.build(split, {"pools": False}).hardware.pools is None


def test_a_pasted_model_travels_inside_the_scenario(scenario, cat):
    spec = cat.model("qwen3-8b").model_copy(update={"id": "mine"})
    after = draft.build(scenario, {"model": "mine"}, {"mine": spec})
    assert after.model_spec == spec
    assert draft.build(after, {"model": "deepseek-v3"}).model_spec is None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"nodes": []}, "hardware.candidates"),
        ({"serving": []}, "search.serving"),
        ({"in.kind": "lognormal", "in.mean": 100.0, "in.p95": 1000.0}, "workload.input_tokens"),
        ({"in.kind": "uniform", "in.min": 9, "in.max": 3}, "workload.input_tokens"),
        ({"precision.kv": "fp7"}, "precision.kv"),
    ],
)
def test_bad_values_name_their_field(scenario, values, field):
    with pytest.raises(InputError) as error:
        draft.build(scenario, values)
    assert field in error.value.field


def test_a_day_goes_with_its_rate(scenario):
    day = draft.build(scenario, {"day.peak_to_mean": 2.0})
    assert draft.fields(day)["day.peak_to_mean"] == 2.0
    assert draft.build(day, {"arrival.kind": "closed_loop"}).workload.daily_profile is None
    assert draft.build(day, {"day.peak_to_mean": None}).workload.daily_profile is None


def test_hours_of_a_file_show_their_ratio_and_stay(scenario):
    data = scenario.to_dict()
    data["workload"]["daily_profile"] = {"hourly": [1.0] * 12 + [3.0] * 12}
    hours = scenario_from_data(data)
    assert draft.fields(hours)["day.peak_to_mean"] == 1.5
    assert draft.build(hours, {"spare_nodes": 2}).workload.daily_profile == hours.workload.daily_profile


def test_one_reliability_value_keeps_the_others(scenario):
    both = draft.build(draft.build(scenario, {"reliability.restart_s": 5.0}), {"spare_nodes": 2})
    assert (both.reliability.restart_s, both.reliability.spare_nodes) == (5.0, 2)


def test_a_name_that_was_changed_is_marked_once_and_stays_within_its_length(scenario):
    longest = type(scenario).from_dict(scenario.to_dict() | {"name": "x" * 200})
    once = draft.build(longest, {"objective": "fewest_gpus"})
    assert once.name.endswith(draft.CHANGED)
    assert len(once.name) == 200
    assert draft.build(once, {"objective": "lowest_cost"}).name == once.name
    assert draft.build(once, {"max_nodes.nonesuch": None}) is once


def test_a_file_of_a_changed_scenario_is_named_so():
    assert file_stem("DeepSeek-V3, day 6") == "deepseek-v3-day-6"
    assert file_stem(f"DeepSeek-V3, day 6{draft.CHANGED}") == "deepseek-v3-day-6-changed"
    assert file_stem("x" * 190 + draft.CHANGED).endswith("x-changed")
    assert len(file_stem("x" * 190 + draft.CHANGED)) <= 60

"""Every field given wrongly ends in one sentence that names it; the nearest valid key is offered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenario_data import VALID, changed

from planner.errors import InputError
from planner.scenario.load import load_scenario, scenario_from_data
from planner.scenario.schema import DailyProfile, Scenario

WRONG = [
    ("schema", "planner.scenario/9"),
    ("schema", ...),
    ("name", 3),
    ("name", ""),
    ("name", ...),
    ("description", 5),
    ("model", ...),
    ("model", 671),
    ("precision", "fp8"),
    ("precision.kv", 8),
    ("precision.kv", "int4_g128"),
    ("precision.routed_experts", "fp3"),
    ("precision.norm", "fp8"),
    ("hardware", []),
    ("hardware.candidates", "dgx-h200"),
    ("hardware.candidates.0.node", ...),
    ("hardware.candidates.0.min_nodes", -1),
    ("hardware.candidates.0.min_nodes", True),
    ("hardware.candidates.0.max_nodes", 0),
    ("hardware.candidates.0.max_nodes", 2.5),
    ("hardware.candidates.0.gpus", "8"),
    ("hardware.pools.prefill", []),
    ("hardware.pools.decode", ...),
    ("hardware.max_gpus_per_worker", 0),
    ("engine.name", "ollama"),
    ("engine.name", ...),
    ("engine.version", 0.9),
    ("workload.prefix_hit_requests", 0),
    ("workload.prefix_hit_requests", 1.5),
    ("engine.options.gpu_memory_utilization", 1.2),
    ("engine.options.gpu_memory_utilization", 0),
    ("engine.options.max_num_seqs", 0),
    ("engine.options.max_num_batched_tokens", "8k"),
    ("engine.options.max_model_len", -1),
    ("engine.options.chunked_prefill", "yes"),
    ("engine.options.cuda_graphs", 1),
    ("engine.options.two_batch_overlap", "on"),
    ("engine.options.redundant_experts", -32),
    ("engine.options.expert_skew", float("nan")),
    ("workload", ...),
    ("workload.input_tokens", ...),
    ("workload.input_tokens", 1000),
    ("workload.input_tokens.kind", "normal"),
    ("workload.input_tokens.kind", ...),
    ("workload.input_tokens.mean_tokens", 0),
    ("workload.input_tokens.mean_tokens", float("inf")),
    ("workload.output_tokens.min_tokens", "ten"),
    ("workload.output_tokens.max_tokens", ...),
    ("workload.arrival.kind", "burst"),
    ("workload.arrival.rate_rps", 0),
    ("workload.arrival.rate_rps", -3),
    ("workload.arrival.cv", ...),
    ("workload.prefix_hit_rate", 1.0),
    ("workload.prefix_hit_rate", 56.3),
    ("workload.max_new_tokens", 0),
    ("workload.tokenizer", 1),
    ("workload.sampling.temperature", -0.1),
    ("workload.sampling.top_p", 0),
    ("workload.sampling.ignore_eos", "true"),
    ("workload.priority_classes.0.share", 0),
    ("workload.priority_classes.0.name", ...),
    ("workload.priority_classes.0.priority", 1.5),
    ("slo", ...),
    ("slo.ttft_ms", 2000),
    ("slo.ttft_ms.p95", 0),
    ("slo.tbt_ms.p99", -5),
    ("slo.tpot_ms.mean", "50ms"),
    ("slo.e2e_ms", {}),
    ("slo.completion_rate", 1.5),
    ("objective", "cheapest"),
    ("economics.usd_per_gpu_hour", 3.5),
    ("economics.usd_per_gpu_hour.dgx-h200", -1),
    ("reliability.spare_nodes", -1),
    ("search.serving", []),
    ("search.serving", "agg"),
    ("search.serving.0", "aggregate"),
    ("search.concurrency_per_worker", []),
    ("search.concurrency_per_worker.0", 0),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=[f"{p}={v!r}" for p, v in WRONG])
def test_wrong_field_is_named(path: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from_data(changed(path, value))
    message = str(caught.value)
    # a union is chosen by its kind: the sentence names the union and the key
    field = path.removesuffix(".kind")
    assert field in caught.value.field, message
    assert field == path or "kind" in message
    assert "\n" not in message


UNKNOWN = [
    ("modle", "model"),
    ("hardware.candidates.0.nodes", "node"),
    ("hardware.max_gpu_per_worker", "max_gpus_per_worker"),
    ("engine.verison", "version"),
    ("engine.options.max_num_sequences", "max_num_seqs"),
    ("workload.arrivals", "arrival"),
    ("workload.input_tokens.mean", "mean_tokens"),
    ("workload.arrival.rate", "rate_rps"),
    ("slo.ttft", "ttft_ms"),
    ("slo.ttft_ms.p_95", "p95"),
    ("economics.usd_per_gpu_hours", "usd_per_gpu_hour"),
    ("reliability.spare_node", "spare_nodes"),
    ("search.server", "serving"),
    ("precision.routed_expert", "routed_experts"),
]


@pytest.mark.parametrize(("path", "near"), UNKNOWN, ids=[p for p, _ in UNKNOWN])
def test_unknown_key_names_the_nearest(path: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from_data(changed(path, 1))
    assert path in caught.value.field
    assert near in caught.value.allowed


def test_the_valid_one_is_valid_and_round_trips() -> None:
    scenario = scenario_from_data(VALID)
    assert load_scenario(scenario.to_yaml()) == scenario
    assert Scenario.from_dict(scenario.to_dict()) == scenario
    assert scenario.slo.limits()[0] == ("ttft_ms", "mean", 900.0)
    assert len(scenario.slo.limits()) == 5


CONTRADICTIONS = [
    ("hardware", {}, "candidates"),
    ("hardware.candidates.0.min_nodes", 3, "max_nodes"),
    ("hardware.candidates", [{"node": "a"}, {"node": "a"}], "twice"),
    ("hardware.candidates", [], "hardware.candidates"),
    ("hardware.pools.prefill", [{"node": "a"}, {"node": "a"}], "twice"),
    ("workload.output_tokens.max_tokens", 5, "min_tokens"),
    ("workload.input_tokens.p95_tokens", 900, "3.868"),
    ("workload.input_tokens.p95_tokens", 4000, "3.868"),
    ("workload.priority_classes", [{"name": "a", "share": 0.4, "priority": 0}], "add up to 1"),
    ("search.serving", ["agg", "agg"], "twice"),
    ("workload.input_tokens", {"kind": "empirical"}, "values_tokens"),
    ("workload.input_tokens", {"kind": "empirical", "file": "a.csv"}, "column"),
    ("workload.input_tokens", {"kind": "empirical", "values_tokens": [3, 2]}, "ascending"),
    ("workload.input_tokens", {"kind": "empirical", "values_tokens": [2], "weights": [0]}, "not all be 0"),
    ("workload.input_tokens", {"kind": "empirical", "values_tokens": [2], "weights": [1, 2]}, "one number"),
    ("workload.arrival", {"kind": "trace", "file": "a.csv", "column": "t", "unit": "s", "cv": 1.0}, "cv"),
    (
        "workload.priority_classes",
        [{"name": "gold", "share": 0.5, "priority": 0}, {"name": "gold", "share": 0.5, "priority": 1}],
        "two classes are called gold",
    ),
    ("slo.ttft_ms", {"p50": 5000, "p99": 100}, "the limit at p50, 5000 ms, must be at most the one at p99, 100 ms"),
]


@pytest.mark.parametrize(("path", "value", "said"), CONTRADICTIONS, ids=[str(c[2]) + c[0] for c in CONTRADICTIONS])
def test_contradictions_are_said(path: str, value: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from_data(changed(path, value))
    assert said in str(caught.value)


def test_every_field_is_described() -> None:
    schema = Scenario.model_json_schema()
    ours = {k: v for k, v in schema["$defs"].items() if "properties" in v and _is_ours(k)}
    missing = [
        f"{name}.{key}"
        for name, body in {**ours, "Scenario": schema}.items()
        for key, prop in body["properties"].items()
        if "description" not in prop and "$ref" not in prop
    ]
    assert missing == []
    json.dumps(schema)


def _is_ours(name: str) -> bool:
    from planner.catalog import model_spec

    return not hasattr(model_spec, name)


def test_not_a_mapping() -> None:
    for data in ([], "text", None, 3, {1: 2}):
        with pytest.raises(InputError):
            scenario_from_data(data)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("workload.arrival.rate_rps", 1e300, "at most 1,000,000"),
        ("workload.arrival.rate_rps", 1e9, "at most 1,000,000"),
        ("workload.arrival.rate_rps", 1e-12, "at least 1e-06"),
        ("workload.input_tokens", {"kind": "fixed", "tokens": 10**12}, "at most 100,000,000"),
        ("workload.input_tokens.mean_tokens", 1e300, "at most 100,000,000"),
        ("slo.ttft_ms.p95", 1e300, "at most 1,000,000,000"),
        ("slo.ttft_ms.p95", 1e-300, "at least 0.001"),
        ("economics.usd_per_gpu_hour.dgx-h200", 1e300, "at most 1,000,000"),
    ],
)
def test_absurd_numbers_are_refused_with_what_is_allowed(field: str, value: object, allowed: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from_data(changed(field, value))
    assert field in str(caught.value)
    assert allowed in caught.value.allowed


def test_a_day_says_how_its_mean_stands_to_its_busiest_hour() -> None:
    assert DailyProfile(peak_to_mean=2.5).mean_over_peak == pytest.approx(0.4)
    assert DailyProfile(hourly=(4.0,) + (1.0,) * 20 + (0.0,) * 3).mean_over_peak == pytest.approx(0.25)
    assert DailyProfile(hourly=(7.0,) * 24).mean_over_peak == 1.0

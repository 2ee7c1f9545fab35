"""The plan's JSON keys are those of the interface, and a plan reads back equal to itself."""

from __future__ import annotations

import json
from pathlib import Path

import plan_data
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.search.plan_schema import MemoryGib, Percentiles, Plan

CANDIDATE_KEYS = {
    *("rank", "layout", "serving", "gpus", "replicas", "node", "ttft_ms", "tbt_ms", "tpot_ms", "goodput_rps"),
    *("output_tokens_per_s_per_gpu", "concurrency", "memory_gib", "usd_per_mtok", "joules_per_token"),
    *("interval", "binding", "breakdown"),
}


def test_json_has_the_interface_keys() -> None:
    document = json.loads(plan_data.plan().to_json())
    assert {"scenario", "candidates", "pareto", "rejected", "assumptions"} <= set(document)
    first = document["candidates"][0]
    assert set(first) >= CANDIDATE_KEYS
    assert {"tp", "pp", "attention_dp", "moe_tp", "ep"} <= set(first["layout"])
    assert {"p50", "p95", "p99"} <= set(first["ttft_ms"])
    terms = {"weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin", "total", "capacity"}
    assert set(first["memory_gib"]) == terms
    assert {"input", "output"} <= set(first["usd_per_mtok"])
    assert {"reason", "count", "example", "fix"} <= set(document["rejected"][0])
    assert document["schema"] == "planner.plan/1"
    assert document["scenario"]["schema"] == "planner.scenario/1"


@pytest.mark.parametrize("feasible", [True, False])
def test_yaml_round_trip(feasible: bool, tmp_path: Path) -> None:
    plan = plan_data.plan(feasible)
    assert Plan.from_yaml(plan.to_yaml()) == plan
    path = tmp_path / "plan.yaml"
    path.write_text(plan.to_yaml())
    assert Plan.from_yaml(path) == plan
    assert Plan.from_yaml(str(path)) == plan
    assert Plan.from_yaml(plan.to_yaml()).to_json() == plan.to_json()


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=30))
def test_floats_and_texts_survive_exactly(number: float, text: str) -> None:
    first = plan_data.candidate()
    changed = first.model_copy(
        update={
            "ttft_ms": Percentiles(mean=number),
            "memory_gib": MemoryGib(**{**first.memory_gib.model_dump(), "kv": number}),
            "binding": text,
        }
    )
    plan = plan_data.plan(candidates=(changed,))
    assert Plan.from_yaml(plan.to_yaml()) == plan


def test_frame_has_a_row_per_candidate() -> None:
    frame = plan_data.plan().to_frame()
    assert len(frame) == 2
    assert frame["memory_gib.kv"].tolist() == [40.1, 40.1]
    assert frame["serving"].tolist() == ["agg", "disagg"]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("schema: planner.plan/1", "schema: planner.plan/2", "schema"),
        ("rank: 1", "rank: first", "rank"),
        ("tpot_ms:", "tpot:", "tpot"),
        ("reason: memory", "reason: Out of memory", "reason"),
        ("  name: DeepSeek-R1", "  nam: DeepSeek-R1", "nam"),
    ],
)
def test_a_spoilt_plan_is_named(old: str, new: str, field: str) -> None:
    text = plan_data.plan().to_yaml()
    assert old in text
    with pytest.raises(InputError) as caught:
        Plan.from_yaml(text.replace(old, new, 1))
    assert field in str(caught.value)


def test_best_and_breakdown() -> None:
    plan = plan_data.plan()
    assert plan.best is plan.candidates[0]
    assert [t.term for t in plan.candidates[0].breakdown.phase("decode")] == ["attention", "dispatch"]
    assert plan_data.plan(False).best is None
    assert plan.candidates[0].layout.gpus == 8

"""What the end-to-end check found for a GPU stands beside every number of a deployment on it."""

from __future__ import annotations

import pytest

import planner
from planner.evidence.accelerator_check import check_of
from planner.layout.layouts import Layouts
from planner.scenario.load import scenario_from_data
from planner.search.certainty import CHECK
from planner.search.headline import in_one_sentence
from planner.search.plan_schema import Estimate


def estimate(node: str) -> Estimate:
    scenario = scenario_from_data(
        {
            "schema": "planner.scenario/1",
            "name": "sixteen in flight",
            "slo": {},
            "model": "qwen3-32b",
            "hardware": {"candidates": [{"node": node}]},
            "engine": {"name": "trtllm"},
            "workload": {
                "input_tokens": {"kind": "fixed", "tokens": 2000},
                "output_tokens": {"kind": "fixed", "tokens": 500},
                "arrival": {"kind": "closed_loop", "concurrency": 16},
            },
        }
    )
    return planner.estimate(scenario, Layouts.of(tp=2))


def test_a_gpu_whose_runs_were_predicted_badly_is_said_to_be_everywhere() -> None:
    found = estimate("gb200-nvl72")
    text = check_of("gb200-nvl72").text()
    assert f"{text}." in found.assumptions
    assert found.candidate.evidence.cautions == (text,)
    assert text in [m.text for m in found.candidate.evidence.marks if m.subject == CHECK]
    assert found.candidate.evidence.extrapolated
    assert f"Caution: {text}." in in_one_sentence(found.candidate, found.scenario)


@pytest.mark.parametrize("node", ["dgx-h100", "dgx-b200"])
def test_a_gpu_whose_runs_were_predicted_well_carries_no_caution(node: str) -> None:
    found = estimate(node)
    assert found.candidate.evidence.cautions == ()
    assert CHECK not in [m.subject for m in found.candidate.evidence.marks]
    assert "Caution" not in in_one_sentence(found.candidate, found.scenario)
    assert sum("measured runs were predicted" in text for text in found.assumptions) == 1


def test_a_gpu_without_runs_says_so_and_keeps_the_interval_of_its_distance() -> None:
    found = estimate("hgx-h20-96g")
    assert found.candidate.evidence.distance == "far: runs of this engine, on other GPUs"
    assert any("No end-to-end run on h20-96g" in text for text in found.assumptions)
    assert any("No end-to-end run on h20-96g" in m.text for m in found.candidate.evidence.marks)
    assert found.candidate.evidence.cautions == ()

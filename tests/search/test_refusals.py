"""What a plan must refuse by name, and what it must never promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.scenario.schema import Scenario

EXAMPLES = Path(__file__).parents[2] / "examples"


def _changed(example: str, **paths: Any) -> Scenario:
    data = planner.load_scenario(EXAMPLES / f"{example}.yaml").to_dict()
    for path, value in paths.items():
        *parents, last = path.split("__")
        place = data
        for key in parents:
            place = place.setdefault(key, {})
        place[last] = value
    return Scenario.from_dict(data)


def test_no_token_is_promised_faster_than_its_step() -> None:
    """Without speculative decoding every token waits for a whole decode step."""
    found = planner.plan(planner.load_scenario(EXAMPLES / "deepseek-r1-h200.yaml")).candidates
    assert found
    for c in found:
        assert c.tpot_ms.mean >= 0.97 * c.breakdown.step_ms["decode"], c.layout.describe()


def test_requests_longer_than_the_context_are_refused() -> None:
    long = _changed("qwen3-32b-l40s", model="gemma-2-27b", workload__input_tokens={"kind": "fixed", "tokens": 20_000})
    with pytest.raises(InputError, match=r"workload\.input_tokens.*8,192 tokens.*gemma-2-27b"):
        planner.plan(long)


def test_an_engine_version_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"engine\.version"):
        planner.plan(_changed("qwen3-32b-l40s", engine__version="banana"))


def test_drafts_of_a_block_that_the_model_lacks_are_refused() -> None:
    drafts = {"method": "mtp", "tokens": 1, "acceptance": [0.8]}
    with pytest.raises(InputError, match="no multi-token-prediction block"):
        planner.plan(_changed("qwen3-32b-l40s", engine__options={"speculation": drafts}))


def test_nothing_costs_nothing() -> None:
    free = planner.plan(_changed("qwen3-32b-l40s", economics={"usd_per_gpu_hour": {"l40s": 0.0}}))
    assert free.best is not None
    assert free.best.usd_per_mtok.output == 0.0


def test_unsplit_prompts_take_steps_that_hold_them() -> None:
    """Engines start with unsplit prompts only where the longest request fits a step (vLLM: verify_max_model_len)."""
    whole = planner.plan(_changed("deepseek-r1-h200", engine__options__chunked_prefill=False))
    assert whole.candidates
    for c in whole.candidates:
        for settings in [c.settings] if c.prefill_pool is None else [c.prefill_pool.settings]:
            assert settings.max_num_batched_tokens >= settings.max_model_len
    options = {"chunked_prefill": False, "max_num_batched_tokens": 4096}
    with pytest.raises(InputError, match=r"max_num_batched_tokens: got 4096; at least [\d,]+, the longest request"):
        planner.plan(_changed("deepseek-r1-h200", engine__options=options))


def test_without_a_network_bandwidth_workers_stay_on_one_node() -> None:
    found = planner.plan(
        _changed(
            "qwen3-32b-l40s",
            hardware={"candidates": [{"node": "rtx4090-8-pcie"}]},
            slo={"tpot_ms": {"mean": 500.0}},
        )
    )
    assert found.candidates
    assert all(c.layout.gpus <= 8 for c in found.candidates)
    assert any("network bandwidth is not sourced" in r.example for r in found.rejected)


def test_an_estimate_says_that_it_is_no_pool() -> None:
    split = planner.estimate(_changed("qwen3-32b-l40s", search__serving=["disagg"]), Layouts.of(tp=4))
    assert split.candidate.serving == "agg"
    assert "separate pools only" in split.assumptions[0]
    both = planner.estimate(_changed("qwen3-32b-l40s", search__serving=["agg", "disagg"]), Layouts.of(tp=4))
    assert not any("separate pools only" in text for text in both.assumptions)


def test_an_estimate_promises_nothing_that_memory_does_not_hold() -> None:
    """100,000 requests in one worker: one worker and its memory, no fleet of millions of nodes, no latency."""
    found = planner.estimate(_changed("qwen3-32b-l40s"), Layouts.of(tp=4), concurrency=100_000.0)
    assert not found.feasible
    assert [r.reason for r in found.rejected] == ["memory"]
    assert (found.candidate.replicas, found.candidate.gpus) == (1, 4)
    assert found.candidate.ttft_ms.mean is None
    assert found.candidate.memory_gib.total > found.candidate.memory_gib.capacity


def test_in_a_closed_loop_requests_beyond_memory_wait() -> None:
    """One worker with more requests in flight than its cache holds is no fit, and its times are those of the wait."""
    loop = {"arrival": {"kind": "closed_loop", "concurrency": 4000}}
    crowd = _changed("qwen3-32b-l40s", **{f"workload__{k}": v for k, v in loop.items()})
    found = planner.estimate(crowd, Layouts.of(tp=4), concurrency=4000)
    assert not found.feasible
    assert found.candidate.ttft_ms.mean > 10_000

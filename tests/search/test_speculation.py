"""Speculative decoding from the scenario to times by token, memory, replay and launch scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.catalog import catalog
from planner.errors import InputError
from planner.export.launch import launch_script
from planner.export.roles import deployment
from planner.layout.layouts import Layouts
from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario
from planner.search.aggregated import fitting_layouts
from planner.search.evaluation import budget_of, most_decoding
from planner.search.plan_schema import Candidate
from planner.search.planning import estimate, plan
from planner.search.replays import replay_scenario
from planner.search.setup import setup
from planner.units import GIB

EXAMPLES = Path(__file__).parents[2] / "examples"
LAYOUT = Layouts.of(tp=4)


def scenario(
    speculation: dict[str, Any] | None = None, rate: float = 2.0, model: str = "llama-3.3-70b", concurrency: int = 0
) -> Scenario:
    data = load_scenario(EXAMPLES / "llama-3.3-70b-mi300x.yaml").to_dict()
    data["model"] = model
    data["hardware"] = {"candidates": [{"node": "dgx-h200"}]}
    data["workload"] |= {
        "input_tokens": {"kind": "fixed", "tokens": 1000},
        "output_tokens": {"kind": "fixed", "tokens": 301},
        "arrival": {"kind": "poisson", "rate_rps": rate},
        "prefix_hit_rate": 0.0,
    }
    if concurrency:
        data["workload"]["arrival"] = {"kind": "closed_loop", "concurrency": concurrency}
    drafts = speculation and {"method": "eagle3" if model.startswith("llama") else "mtp", **speculation}
    data["engine"] = {"name": "vllm", "options": {"speculation": drafts}}
    data["precision"], data["slo"], data["economics"] = {}, {}, {}
    return Scenario.from_dict(data)


def candidate(question: Scenario, layout: Layouts = LAYOUT) -> Candidate:
    return estimate(question, layout).candidate


def test_accepted_drafts_divide_the_step() -> None:
    """One draft that is always accepted: two tokens a step, which is a little longer; never accepted: all cost."""
    plain = candidate(scenario())
    always = candidate(scenario({"tokens": 1, "acceptance": [1.0]}))
    never = candidate(scenario({"tokens": 1, "acceptance": [0.0]}))
    assert plain.tpot_ms.mean is not None
    assert always.tpot_ms.mean is not None
    assert never.tpot_ms.mean is not None
    step = always.breakdown.step_ms["decode"]
    assert step > candidate(scenario(rate=1.0)).breakdown.step_ms["decode"]
    assert always.tbt_ms.p50 == pytest.approx(step / 2.0, rel=0.05)
    assert always.tpot_ms.mean < 0.6 * plain.tpot_ms.mean
    assert never.tpot_ms.mean > plain.tpot_ms.mean
    assert always.settings.draft_tokens == 1
    assert {t.term for t in always.breakdown.phase("decode")} >= {"drafts"}


def test_mean_tokens_of_a_step_stand_for_acceptance() -> None:
    by_length = candidate(scenario({"tokens": 2, "tokens_per_step": 1.75}))
    by_chance = candidate(scenario({"tokens": 2, "acceptance": [0.5, 0.5]}))
    assert by_length.tpot_ms.mean == pytest.approx(by_chance.tpot_ms.mean)


def test_percentiles_are_those_of_the_replay() -> None:
    question = scenario({"tokens": 2, "acceptance": [0.8, 0.6]}, rate=2.5)
    c = candidate(question)
    found = replay_scenario(question, requests=5000, candidate=c).replayed.summary()
    assert c.tpot_ms.mean == pytest.approx(found["tpot_ms"]["mean"], rel=0.05)
    assert c.e2e_ms.mean == pytest.approx(found["e2e_ms"]["mean"], rel=0.05)
    assert c.tbt_ms.p50 == pytest.approx(found["tbt_ms"]["p50"], rel=0.15)
    assert c.tbt_ms.p95 == pytest.approx(found["tbt_ms"]["p95"], rel=0.25)


def test_three_drafts_help_a_lone_request_and_harm_a_full_worker() -> None:
    """Few sequences leave compute idle beside the weights that are read, many do not: with poor acceptance drafts of
    256 sequences cost more than they bring."""
    drafts = {"tokens": 3, "acceptance": [0.5, 0.3, 0.2]}

    def gain(concurrency: int) -> float:
        with_drafts, without = (
            estimate(scenario(d, concurrency=concurrency), LAYOUT, concurrency=float(concurrency)).candidate
            for d in (drafts, None)
        )
        assert with_drafts.output_tokens_per_s_per_gpu is not None
        return with_drafts.output_tokens_per_s_per_gpu / without.output_tokens_per_s_per_gpu

    assert gain(1) > 1.3
    assert gain(1) > gain(32) > gain(256)
    assert gain(256) < 1.0


def test_the_prediction_block_takes_memory() -> None:
    layout = Layouts.of(attention_dp=8, ep=8)
    plain = candidate(scenario(model="deepseek-v3"), layout)
    drafting = candidate(scenario({"tokens": 1, "acceptance": [0.85]}, model="deepseek-v3"), layout)
    assert drafting.memory_gib.weights > plain.memory_gib.weights + 0.5


def test_both_pools_start_with_the_drafting_head_and_decode_steps_count_drafts() -> None:
    data = scenario({"tokens": 2, "acceptance": [0.8, 0.6]}, rate=8.0).to_dict()
    data["search"]["serving"] = ["disagg"]
    answer = plan(Scenario.from_dict(data))
    plain = plan(Scenario.from_dict({**data, "engine": {"name": "vllm"}}))
    assert answer.best is not None
    assert plain.best is not None
    assert answer.best.gpus <= plain.best.gpus
    assert answer.best.settings.draft_tokens == 2
    assert answer.best.prefill_pool is not None
    assert answer.best.prefill_pool.settings.draft_tokens is None
    for engine, flag in (
        ("vllm", "--speculative-config.num_speculative_tokens 2"),
        ("sglang", "--speculative-num-steps 2"),
    ):
        script = launch_script(deployment(answer), engine)
        # The drafting head's cache of the prompt comes from the prefill workers, which start with the same head.
        for pool in script.split("\ndecode)"):
            assert flag in pool
    assert launch_script(deployment(answer), "trtllm").count("decoding_type: Eagle3") == 2


def test_the_bound_of_a_decode_step_is_said_where_it_binds() -> None:
    """Only where tokens go to experts of other nodes."""
    data = scenario(model="deepseek-v3").to_dict()
    data["engine"]["name"] = "sglang"
    wide, narrow = (estimate(Scenario.from_dict(data), Layouts.of(attention_dp=n, ep=n)).assumptions for n in (16, 8))
    assert any("1,024 tokens of a rank" in text for text in wide)
    assert not any("tokens of a rank" in text for text in narrow)


def test_no_drafts_over_stages_where_the_engine_has_none() -> None:
    """SGLang 0.5.23 lets prefill workers of a deployment with MTP have stages, and no others."""
    data = scenario({"tokens": 1, "acceptance": [0.85]}, rate=2.0, model="deepseek-v3").to_dict()
    data["engine"]["name"] = "sglang"
    data["hardware"] = {"candidates": [{"node": "dgx-h100"}], "max_gpus_per_worker": 16}
    data["search"]["serving"] = ["agg", "disagg"]
    answer = plan(Scenario.from_dict(data))
    assert answer.candidates
    assert all(c.layout.pp == 1 for c in answer.candidates)
    assert "speculation_over_stages" in {r.reason for r in answer.rejected}
    found = estimate(Scenario.from_dict(data), Layouts.of(tp=8, pp=2))
    assert "speculation_over_stages" in {r.reason for r in found.rejected}
    s = setup(Scenario.from_dict(data), catalog())
    fitting = fitting_layouts(s, s.hardware(s.scenario.hardware.candidates[0]), 16)
    assert (fitting.layouts.pp == 1).all()
    assert (fitting.for_prefill.pp > 1).any()


def test_decode_steps_fit_low_latency_dispatch() -> None:
    """1,024 tokens of a rank, drafts included, across nodes; buffers for them are paid for. None inside a node."""
    data = scenario({"tokens": 3, "acceptance": [0.8, 0.6, 0.4]}, model="deepseek-v3").to_dict()
    data["engine"]["name"] = "sglang"
    s = setup(Scenario.from_dict(data), catalog())
    hw = s.hardware(s.scenario.hardware.candidates[0])
    layouts = Layouts.of(tp=[1, 1, 2], attention_dp=[16, 8, 8], ep=[16, 8, 16])
    assert most_decoding(s, hw, layouts).tolist() == [256, 1024, 512]
    few, many = (budget_of(s, hw, layouts, n * layouts.attention_dp, 2048) for n in (20.0, 200.0))
    grown = (many.collectives - few.collectives) / GIB
    assert grown == pytest.approx([4 * (800 - 128) * 256 * 7168 * 2 / GIB, 0.0, 4 * (400 - 128) * 256 * 7168 * 2 / GIB])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tokens": 2}, "one of them"),
        ({"tokens": 2, "acceptance": [0.5]}, "2 numbers"),
        ({"tokens": 1, "tokens_per_step": 2.5}, "at most 2"),
        ({"tokens": 1, "acceptance": [1.5]}, "speculation"),
        ({"tokens": 0, "acceptance": []}, "speculation"),
    ],
)
def test_what_does_not_add_up_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scenario(given)

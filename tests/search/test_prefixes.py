"""Plans with shared prefixes: hit rates that the caches reach, routing, kept memory, and the replay beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.replay.generate import workload_trace
from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate, PrefixCache
from planner.search.planning import plan
from planner.search.replays import replay_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"


def scenario(
    prefixes: int, routing: str = "least_loaded", rate: float = 12.0, tokens: int = 3000, share: float | None = None
) -> Scenario:
    data = load_scenario(EXAMPLES / "llama-3.3-70b-mi300x.yaml").to_dict()
    data["hardware"] = {"candidates": [{"node": "dgx-h200"}], "max_gpus_per_worker": 4}
    data["workload"] |= {
        "input_tokens": {"kind": "fixed", "tokens": 4000},
        "output_tokens": {"kind": "fixed", "tokens": 150},
        "arrival": {"kind": "poisson", "rate_rps": rate},
        "prefix_hit_rate": 0.0,
        "prefix_reuse": {"prefixes": prefixes, "tokens": tokens, "zipf": 0.6, "routing": routing},
    }
    data["engine"] = {"name": "vllm", "options": {"prefix_cache_share": share}}
    data["precision"], data["economics"] = {}, {}
    data["slo"] = {"ttft_ms": {"p50": 1500.0}, "tpot_ms": {"mean": 60.0}}
    return Scenario.from_dict(data)


def best(question: Scenario) -> tuple[Candidate, PrefixCache]:
    found = plan(question).best
    assert found is not None
    assert found.prefix_cache is not None
    return found, found.prefix_cache


def test_few_prefixes_are_always_held() -> None:
    """Four prefixes of 3,000 tokens fit any cache: 3,000 of 4,000 prompt tokens are hits under both routings."""
    answer = plan(scenario(4))
    assert answer.best is not None
    cache = answer.best.prefix_cache
    assert cache is not None
    assert cache.hit_rate == pytest.approx(0.75)
    assert answer.scenario.workload.prefix_hit_rate == pytest.approx(0.75, abs=0.01)
    assert cache.affinity_hit_rate == pytest.approx(0.75)
    assert 0.0 < cache.used_gib_per_rank < answer.best.memory_gib.kv


def test_many_prefixes_need_affinity() -> None:
    """Thousands of prefixes overflow a worker's cache; a worker of each prefix's own makes all caches one."""
    spread, cache = best(scenario(3000))
    affine, known = best(scenario(3000, "affinity"))
    assert cache.hit_rate < 0.6
    assert cache.affinity_hit_rate > cache.least_loaded_hit_rate
    assert known.hit_rate > cache.hit_rate
    assert affine.gpus <= spread.gpus
    assert known.imbalance >= 1.0


def test_the_plan_is_consistent_with_its_caches() -> None:
    answer = plan(scenario(600))
    assert answer.best is not None
    assert answer.best.prefix_cache is not None
    assert answer.scenario.workload.prefix_hit_rate > 0.05
    assert answer.best.prefix_cache.hit_rate >= answer.scenario.workload.prefix_hit_rate - 0.011


def test_kept_memory_takes_slots_and_raises_hits() -> None:
    free, kept = best(scenario(3000, rate=6.0)), best(scenario(3000, rate=6.0, share=0.6))
    assert kept[0].max_concurrency is not None
    assert free[0].max_concurrency is not None
    assert kept[0].max_concurrency / kept[0].gpus < 0.6 * free[0].max_concurrency / free[0].gpus
    assert kept[1].tokens_per_rank >= 0.59 * kept[0].memory_gib.kv / free[0].memory_gib.kv * free[1].tokens_per_rank


@pytest.mark.parametrize("routing", ["least_loaded", "affinity"])
def test_the_replay_hits_as_often(routing: str) -> None:
    """Requests that draw their prefix from the same popularity, on workers with the same memory and routing."""
    answer = plan(scenario(600, routing, rate=7.0))
    assert answer.best is not None
    assert answer.best.prefix_cache is not None
    found = replay_scenario(answer.scenario, requests=8000, candidate=answer.best).replayed
    later = found.counted
    share = float(found.cached_tokens[later].sum() / found.input_tokens[later].sum())
    assert share == pytest.approx(answer.best.prefix_cache.hit_rate, abs=0.08)


def test_generated_prompts_share_their_prefix() -> None:
    work = scenario(5).workload
    trace = workload_trace(work, 2000, 3)
    first = trace.block_ids[trace.block_starts[:-1]]
    assert len(np.unique(first)) == 5
    assert trace.infinite_cache_hit_rate() == pytest.approx(46 * 64 / 4000, rel=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"tokens": 5000}, "mean prompt"), ({"prefixes": 0}, "prefixes"), ({"zipf": -1.0}, "zipf")],
)
def test_impossible_prefixes_are_refused(change: dict[str, Any], message: str) -> None:
    data = scenario(5).to_dict()
    data["workload"]["prefix_reuse"] |= change
    with pytest.raises(InputError, match=message):
        plan(Scenario.from_dict(data))


@pytest.mark.parametrize("requests", [None, 0.5])
def test_hits_of_some_requests_stand_in_the_tails_of_plan_and_replay(requests: float | None) -> None:
    lengths = ({"kind": "lognormal", "mean_tokens": m, "p95_tokens": q} for m, q in ((1155, 3300), (211, 500)))
    data = scenario(5).to_dict() | {"model": "llama-3.3-70b", "slo": {}, "search": {"serving": ["agg"]}}
    data["hardware"] = {"candidates": [{"node": "dgx-h100"}]}
    data["workload"] = {
        **dict(zip(("input_tokens", "output_tokens"), lengths, strict=True)),
        "arrival": {"kind": "poisson", "rate_rps": 3.0},
        "prefix_hit_rate": 0.4,
        "prefix_hit_requests": requests,
    }
    answer = replay_scenario(Scenario.from_dict(data), requests=8_000, layout=Layouts.of(tp=4))
    found = answer.replayed.summary()["ttft_ms"]
    for level in ("p50", "p95"):
        assert getattr(answer.candidate.ttft_ms, level) == pytest.approx(found[level], rel=0.1), level


def test_a_hit_rate_beside_shared_prefixes_is_said_not_to_count() -> None:
    """The shared prefixes give 14 %, whatever rate is written beside them; a plan's own scenario says nothing new."""
    question = scenario(5)
    work = question.workload.model_copy(update={"prefix_hit_rate": 0.9})
    answer = plan(question.model_copy(update={"workload": work}))
    said = [a for a in answer.assumptions if a.startswith("prefix_hit_rate 90.0% is not used")]
    assert len(said) == 1
    again = plan(answer.scenario)
    assert not [a for a in again.assumptions if "is not used" in a]

"""Generated traces: the published statistics, reproducible, and what a workload says."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import InputError
from planner.replay.generate import arrival_times, fixed_trace, profiles, workload_trace
from planner.scenario.schema import Workload


@pytest.mark.parametrize("name", ["short_qa", "long_document_qa", "long_reasoning"])
def test_profiles_keep_their_published_statistics(name: str) -> None:
    p, t = profiles()[name], fixed_trace(name, 20_000, seed=1)
    for tokens, quantiles in ((t.input_tokens, p.input_quantiles_tokens), (t.output_tokens, p.output_quantiles_tokens)):
        for q, value in quantiles[1:-1]:
            assert float(np.quantile(tokens, q)) == pytest.approx(value, rel=0.1)
    assert t.input_tokens.mean() == pytest.approx(p.input_mean_tokens, rel=0.15)
    assert t.output_tokens.mean() == pytest.approx(p.output_mean_tokens, rel=0.15)
    assert t.rate_rps == pytest.approx(p.rate_rps, rel=0.03)
    assert t.gap_cv == pytest.approx(p.interarrival_cv, rel=0.05)


def test_long_documents_repeat_as_published() -> None:
    """Mooncake's conversation trace: 37.4 % of prompt tokens hit an infinite cache."""
    assert fixed_trace("long_document_qa", 20_000, seed=1).infinite_cache_hit_rate() == pytest.approx(0.374, abs=0.015)


def test_the_seed_decides() -> None:
    one, same, other = (fixed_trace("short_qa", 100, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.arrival_s, same.arrival_s)
    assert np.array_equal(one.input_tokens, same.input_tokens)
    assert not np.array_equal(one.input_tokens, other.input_tokens)


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 4.0])
def test_gaps_have_the_rate_and_variation_asked_for(cv: float) -> None:
    at = arrival_times(np.random.default_rng(0), 200_000, 4.0, cv)
    gaps = np.diff(at)
    assert 1.0 / gaps.mean() == pytest.approx(4.0, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03, abs=1e-9)


def test_workloads_keep_cut_off_and_priorities() -> None:
    w = Workload.model_validate(
        {
            "input_tokens": {"kind": "fixed", "tokens": 10},
            "output_tokens": {"kind": "uniform", "min_tokens": 1, "max_tokens": 100},
            "arrival": {"kind": "poisson", "rate_rps": 2.0},
            "max_new_tokens": 20,
            "priority_classes": [
                {"name": "a", "share": 0.25, "priority": 0},
                {"name": "b", "share": 0.75, "priority": 5},
            ],
        }
    )
    t = workload_trace(w, 4000, seed=0)
    assert t.output_tokens.max() == 20
    assert (t.priority == 0).mean() == pytest.approx(0.25, abs=0.03)


def test_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(InputError, match="short_qa"):
        fixed_trace("short_qs", 10, seed=0)


def test_repeated_traces_share_no_blocks_between_copies() -> None:
    t = fixed_trace("long_document_qa", 200, seed=2)
    three = t.repeated(3)
    assert len(three) == 600
    assert three.infinite_cache_hit_rate() == pytest.approx(t.infinite_cache_hit_rate())
    assert three.rate_rps == pytest.approx(t.rate_rps, rel=0.01)
    assert np.array_equal(three.input_tokens[200:400], t.input_tokens)
    assert len(set(three.blocks_of(0)) & set(three.blocks_of(200))) == 0

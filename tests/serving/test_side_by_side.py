"""Prompts side by side on attention-DP ranks: counted prompts against drawn ones, and what burstiness may change."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.serving.latency import percentiles
from planner.serving.open_loop import flow
from planner.serving.side_by_side import busiest, counted
from tests.serving.loads import load

BURSTINESS = (1.0, 1.5, 2.0, 3.0, 4.0)


def _drawn(prompts: int, lanes: int, seed: int = 0) -> float:
    """Mean prompts on the busiest rank where each goes to the rank with the fewest requests, by stepping through single
    arrivals and departures (at random) between bursts of ``prompts``."""
    rng = np.random.default_rng(seed)
    usual = 30 * lanes
    held = np.full(lanes, 30)
    found = []
    for _ in range(1_500):
        for _ in range(10 * lanes):
            if rng.random() < usual / (usual + held.sum()):
                held[int(np.argmin(held + 0.1 * rng.random(lanes)))] += 1
            else:
                held[rng.choice(lanes, p=held / held.sum())] -= 1
        got, now = np.zeros(lanes), held.copy()
        for _ in range(prompts):
            k = int(np.argmin(now + 0.1 * rng.random(lanes)))
            now[k] += 1
            got[k] += 1
        found.append(got.max())
    return float(np.mean(found))


@pytest.mark.parametrize(("prompts", "lanes"), [(2, 2), (4, 2), (2, 4), (4, 4), (8, 4)])
def test_the_busiest_rank_has_as_many_as_drawn(prompts: int, lanes: int) -> None:
    found = float(busiest(np.array(float(prompts)), np.array(float(lanes)), np.array(1e9)))
    assert found == pytest.approx(_drawn(prompts, lanes), rel=0.2)


@given(st.floats(1.0, 30.0), st.floats(0.0, 0.99), st.floats(0.0, 1.0), st.sampled_from([2.0, 4.0, 8.0]))
def test_prompts_of_all_ranks_cost_between_one_and_all(batch: float, alone: float, shared: float, lanes: float) -> None:
    found = counted(*(np.array(v) for v in (batch, alone, lanes, 50.0, shared)), (np.array(1.2), np.array(1.5)))
    assert float(found.mean) >= 1.0
    assert 0.0 <= float(found.each) <= 1.0
    assert float(found.each) >= shared - 1e-9  # what ranks do together does not shrink with their number
    whole = counted(*(np.array(v) for v in (batch, alone, lanes, 50.0, 1.0)), (np.array(1.2), np.array(1.5)))
    assert float(found.mean) <= float(whole.mean) + 1e-9


def test_with_one_rank_every_prompt_counts() -> None:
    found = counted(*(np.array(v) for v in (2.5, 0.4, 1.0, 50.0, 0.3)), (np.array(1.2), np.array(1.5)))
    assert float(found.mean) == 2.5
    assert float(found.several) == pytest.approx((2.5 - 0.4) / 0.6)
    assert float(found.each) == 1.0


@settings(deadline=None, max_examples=60)
@given(st.floats(0.5, 8.0), st.sampled_from([1.0, 2.0, 4.0, 8.0]), st.floats(0.0, 1.0), st.booleans())
def test_burstier_arrivals_wait_longer(rate: float, lanes: float, shared: float, pause: bool) -> None:
    """Mean TTFT does not fall with the gaps' CV (by 1.2 % where eight ranks share nothing at a full rate), TPOT not
    where ranks share all work.
    """
    changes = {"lanes": np.array(lanes), "shared_part": np.array(shared), "most_prompts": np.array(8.0 * lanes)}
    found = [percentiles(load(rate, cv=cv, pause=pause, **changes)) for cv in BURSTINESS]
    for calm, bursty in pairwise(found):
        assert float(bursty.ttft["mean"][0]) >= 0.985 * float(calm.ttft["mean"][0])
        if lanes == 1.0 or shared == 1.0:
            assert float(bursty.tpot["mean"][0]) >= 0.99 * float(calm.tpot["mean"][0])


@settings(deadline=None, max_examples=60)
@given(st.floats(0.5, 8.0), st.sampled_from(BURSTINESS), st.sampled_from([1.0, 2.0, 4.0]), st.floats(6.0, 60.0))
def test_no_wait_is_longer_than_the_time_to_first_token(rate: float, cv: float, lanes: float, slots: float) -> None:
    found = percentiles(load(rate, cv=cv, slots=slots, lanes=np.array(lanes)))
    for name, wait in found.wait.items():
        assert not np.any(wait > found.ttft[name] + 1e-12)


def test_requests_vary_as_prompts_bring_on_further_ones() -> None:
    """Variance over mean 1 / (1 - theta)^2 where the decode step does not depend on the requests."""
    f = flow(load(6.0, decode_step_slope_s=np.array(0.0)))
    wanted = f.occupancy / np.square(1.0 - f.prefill_share)
    np.testing.assert_allclose(f.occupancy_variance, wanted, rtol=1e-6)

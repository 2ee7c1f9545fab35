"""Replays small enough to work out by hand, and what holds in every replay."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.replay_parts import deployment, table, trace

from planner.errors import InputError
from planner.replay.cluster import replay
from planner.replay.generate import arrival_times
from planner.replay.results import Replayed
from planner.replay.settings import Admission, Failure, Limits, Rules, Speculation, Transfer
from planner.replay.trace import Trace


def _run(t: Trace, rules: Rules | None = None, **kind: object) -> Replayed:
    return replay(t, (deployment(**kind), table()), rules or Rules(routing="round_robin"))


def test_one_request_alone() -> None:
    """40 prompt tokens: 40 ms to the first token, then 4 steps of 10 ms."""
    r = _run(trace([0.0], 40, 5))
    assert r.ttft_s[0] == pytest.approx(0.040)
    assert r.tpot_s[0] == pytest.approx(0.010)
    assert r.e2e_s[0] == pytest.approx(0.080)


def test_a_long_prompt_goes_in_chunks() -> None:
    """250 tokens at 100 a step: three steps, 250 ms in all."""
    assert _run(trace([0.0], 250, 1)).ttft_s[0] == pytest.approx(0.250)


def test_mixed_scheduling_lengthens_the_step_that_carries_the_prompt() -> None:
    """The second prompt comes in the step ending at 60 ms and rides in the next one: 10 + 20 ms."""
    r = _run(trace([0.0, 0.055], [40, 20], [6, 2]))
    assert r.ttft_s[1] == pytest.approx(0.060 + 0.030 - 0.055)
    assert r.e2e_s[0] == pytest.approx(0.040 + 0.050 + 0.020)
    assert sorted(np.repeat(r.gap_s, r.gap_tokens.astype(int)).round(6).tolist()) == [0.01] * 5 + [0.03]


def test_prefill_first_pauses_the_decodes() -> None:
    """The prompt takes 20 ms alone from 60 ms on; the first request's gap is 20 + 10 ms, the second's 10 ms."""
    r = _run(trace([0.0, 0.055], [40, 20], [6, 2]), mixed=False)
    assert r.ttft_s[1] == pytest.approx(0.060 + 0.020 - 0.055)
    assert r.e2e_s[0] == pytest.approx(0.040 + 0.050 + 0.020)
    assert sorted(np.repeat(r.gap_s, r.gap_tokens.astype(int)).round(6).tolist()) == [0.01] * 5 + [0.03]


def test_whole_prompts_wait_for_room_in_the_budget() -> None:
    """Two prompts of 60 with 100 a step: chunked, the second is complete in the step after; whole, it starts there."""
    at = [0.0, 0.0]
    assert _run(trace(at, 60, 2)).ttft_s.max() == pytest.approx(0.100 + 0.010 + 0.020)
    assert _run(trace(at, 60, 2), chunked=False).ttft_s.max() == pytest.approx(0.060 + 0.010 + 0.060)


def test_static_batches_wait_for_the_batch_before_them() -> None:
    r = _run(trace([0.0, 0.001], [10, 10], [11, 2]), static=True, mixed=False)
    assert r.ttft_s[1] == pytest.approx(0.010 + 0.100 + 0.010 - 0.001)


def test_a_full_cache_makes_requests_wait() -> None:
    """Room for one request of 20 + 5 tokens: the second starts when the first has left."""
    t = trace([0.0, 0.0], 20, 5)
    r = _run(t, tokens=25, reserve=1.0)
    assert r.ttft_s.tolist() == pytest.approx([0.020, 0.060 + 0.020])
    assert r.restarts.sum() == 0


def test_preemption_recomputes_the_latest_request() -> None:
    """Two requests of 20 tokens in a cache of 45: after 2 steps of both no page is left; the later one starts again."""
    r = _run(trace([0.0, 0.0], 20, 8), tokens=45)
    assert r.restarts.tolist() == [0, 1]
    assert r.tokens_out == 16
    assert r.e2e_s[0] == pytest.approx(0.040 + 7 * 0.010)


def test_more_important_requests_go_first() -> None:
    t = trace([0.0, 0.0, 0.0], 100, 2, priority=[2, 1, 0])
    assert np.argsort(_run(t).ttft_s).tolist() == [2, 1, 0]


def test_prefix_blocks_are_computed_once() -> None:
    """30 tokens in blocks of 10, of which 20 are known: 10 are left. A prompt known whole computes its last block."""
    blocks = [[1, 2, 3], [1, 2, 4], [1, 2, 3]]
    t = trace([0.0, 1.0, 2.0], 30, 2, blocks)
    assert _run(t, prefix=True).ttft_s.tolist() == pytest.approx([0.030, 0.010, 0.010])
    assert _run(t, prefix=False).ttft_s.tolist() == pytest.approx([0.030] * 3)
    assert _run(t, prefix=True).cached_tokens.tolist() == [0, 20, 20]


def test_the_block_used_longest_ago_goes_first() -> None:
    """A cache of 40 tokens keeps one old prompt beside a running one of 12: the older of two prompts is gone."""
    t = trace([0.0, 1.0, 2.0, 3.0], 10, 2, [[1], [2], [3], [1]])
    hit = _run(t, prefix=True, tokens=40).cached_tokens
    assert hit.tolist() == [0, 0, 0, 0]
    repeated = trace([0.0, 1.0, 2.0], 15, 2, [[1, 5], [2, 6], [1, 7]])
    assert _run(repeated, prefix=True, tokens=40).cached_tokens.tolist() == [0, 0, 10]
    assert _run(repeated, prefix=True, tokens=20).cached_tokens.tolist() == [0, 0, 0]


def test_pools_hand_over_after_the_transfer() -> None:
    """Prompt 40 ms, transfer 5 ms + 0.1 ms a token = 9 ms, then the decode worker takes it at once."""
    r = replay(
        trace([0.0], 40, 3),
        (deployment(), table()),
        Rules(),
        (deployment(), table()),
        Transfer(0.005, 0.0001),
    )
    assert r.ttft_s[0] == pytest.approx(0.049)
    assert r.e2e_s[0] == pytest.approx(0.069)


def test_transfers_of_one_sender_follow_each_other() -> None:
    """Two prompts complete in one step: the second's bytes start when the first's are sent."""
    r = replay(
        trace([0.0, 0.0], 40, 2), (deployment(), table()), Rules(), (deployment(), table()), Transfer(0.0, 0.001)
    )
    assert np.sort(r.ttft_s).tolist() == pytest.approx([0.080 + 0.040, 0.080 + 0.080])


def test_layers_are_sent_while_the_prompt_is_computed() -> None:
    """Prompt 40 ms, 40 ms of transfer in 4 layers: three leave beside the last 30 ms of the step, one after it. With
    twice the bytes 30 of 80 ms fit beside it."""
    for seconds, end in ((0.001, 0.040 + 0.010), (0.002, 0.040 + 0.050)):
        r = replay(
            trace([0.0], 40, 3),
            (deployment(), table()),
            Rules(),
            (deployment(), table()),
            Transfer(0.0, seconds, layers=4),
        )
        assert r.ttft_s[0] == pytest.approx(end)


def test_a_receiver_takes_one_cache_after_the_other() -> None:
    """Two prefill workers send 40 tokens at once; the one decode worker needs 80 ms for each, two of them 40 ms."""

    def sent(decoders: int) -> list[float]:
        r = replay(
            trace([0.0, 0.0], 40, 2),
            (deployment(decoders), table()),
            Rules(),
            (deployment(2), table()),
            Transfer(0.0, 0.0005, receive_seconds_per_token=0.002),
        )
        return np.sort(r.ttft_s).tolist()  # type: ignore[no-any-return]

    assert sent(1) == pytest.approx([0.040 + 0.080, 0.040 + 0.160])
    assert sent(2) == pytest.approx([0.040 + 0.080, 0.040 + 0.080])


def test_round_robin_and_least_loaded() -> None:
    """Long, short, long, short: in turn, the long ones share a worker; by load the third goes where one has left."""
    t = trace([0.0, 0.0, 0.5, 0.5], 10, [200, 2, 200, 2])
    turn = replay(t, (deployment(2), table()), Rules(routing="round_robin"))
    load = replay(t, (deployment(2), table()), Rules(routing="least_loaded"))
    assert turn.ttft_s[2] > load.ttft_s[2]


def test_prefix_aware_routing_finds_the_worker_that_knows() -> None:
    t = trace([0.0, 0.0, 5.0, 5.0], 40, 2, [[1, 2, 3, 4], [5, 6, 7, 8], [5, 6, 7, 9], [1, 2, 3, 9]])
    r = replay(t, (deployment(2, prefix=True), table()), Rules(routing="prefix_aware"))
    assert r.cached_tokens.tolist() == [0, 0, 30, 30]


def test_a_failed_worker_loses_its_cache_not_its_requests() -> None:
    """100 ms in, 6 of 20 tokens are out; the other worker computes prompt and those again (26 ms) and goes on."""
    r = replay(trace([0.0], 20, 20), (deployment(2), table()), Rules(failures=[Failure(0.075, 0, 1.0)]))
    assert r.restarts[0] == 1
    assert r.tokens_out == 20
    assert r.e2e_s[0] == pytest.approx(0.075 + 0.026 + 13 * 0.010)
    alone = replay(trace([0.0], 20, 20), (deployment(1), table()), Rules(failures=[Failure(0.075, 0, 1.0)]))
    assert alone.e2e_s[0] == pytest.approx(1.075 + 0.026 + 13 * 0.010)


def test_admission_turns_away_what_would_wait() -> None:
    r = _run(trace([0.0] + [0.001] * 5, 20, 5), Rules(admission=Admission(most_waiting=2)), sequences=1)
    assert r.rejected.sum() == 3
    assert r.summary()["completion_rate"] == 0.5


def test_speculation_makes_several_tokens_a_step() -> None:
    """Every draft accepted: 2 tokens a step, so 10 further tokens in 5 steps, 5 ms apart."""
    r = _run(trace([0.0], 10, 11), Rules(speculation=Speculation((1.0,))))
    assert r.e2e_s[0] == pytest.approx(0.010 + 0.050)
    assert r.summary()["tbt_ms"]["p50"] == pytest.approx(5.0)
    assert Speculation((0.5, 0.5)).tokens_per_step == pytest.approx(1.75)
    many = _run(trace(np.arange(200) * 10.0, 10, 100), Rules(speculation=Speculation((0.5, 0.5))))
    assert float(np.mean(many.tpot_s)) == pytest.approx(0.010 / 1.75, rel=0.03)


def test_goodput_counts_requests_within_every_limit() -> None:
    """Gaps of the first request: one of 30 ms in five. 80 % of its gaps keep to 20 ms, not 90 %."""
    t = trace([0.0, 0.055], [40, 20], [6, 2])
    kept = _run(t, Rules(limits=Limits(tbt_s=((0.020, 0.8),))))
    missed = _run(t, Rules(limits=Limits(tbt_s=((0.020, 0.9),))))
    assert kept.good.tolist() == [True, True]
    assert missed.good.tolist() == [False, True]
    assert _run(t, Rules(limits=Limits(ttft_s=0.036))).good.tolist() == [False, True]
    assert _run(t, Rules(limits=Limits(e2e_s=0.050))).good.tolist() == [False, True]
    assert _run(t, Rules(limits=Limits(tpot_s=0.013))).good.tolist() == [False, True]


@pytest.mark.parametrize("metric", ["ttft", "tbt", "tpot", "e2e"])
def test_a_limit_on_a_mean_sorts_no_requests(metric: str) -> None:
    """All are good where the mean keeps to it, though some are above, and none where it does not: as in a plan."""
    t = trace([0.0, 0.055], [40, 20], [6, 2])
    plain = _run(t, Rules())
    mean = plain.summary()[f"{metric}_ms"]["mean"] / 1e3
    kept, missed = (_run(t, Rules(limits=Limits(means=((metric, f * mean),)))) for f in (1.001, 0.999))
    assert kept.good.tolist() == [True, True]
    assert missed.good.tolist() == [False, False]
    assert kept.goodput_rps == kept.throughput_rps
    one = Limits(ttft_s=0.036, means=((metric, 1.001 * mean),))
    assert _run(t, Rules(limits=one)).good.tolist() == [False, True]


def test_a_closed_loop_keeps_its_number_in_flight() -> None:
    r = _run(trace([0.0] * 400, 10, 20), Rules(concurrency=4))
    assert r.mean_inside == pytest.approx(4.0, rel=0.02)


def test_ranks_share_a_step() -> None:
    """Two ranks with a budget of 100 each: two prompts of 100 are computed side by side."""
    r = _run(trace([0.0, 0.0], 100, 2), ranks=2)
    assert r.ttft_s.tolist() == pytest.approx([0.100, 0.100])


def test_a_request_beyond_the_cache_is_refused() -> None:
    with pytest.raises(InputError, match="cache of one rank"):
        _run(trace([0.0], 200, 1), tokens=100)


CASES = st.fixed_dictionaries(
    {
        "mixed": st.booleans(),
        "chunked": st.booleans(),
        "reserve": st.sampled_from([0.0, 0.1, 1.0]),
        "page": st.sampled_from([1, 4, 16]),
        "prefix": st.booleans(),
        "ranks": st.sampled_from([1, 2]),
        "workers": st.sampled_from([1, 3]),
        "tokens": st.sampled_from([320, 1_000, 10_000]),
        "sequences": st.sampled_from([2, 16]),
    }
)


@settings(max_examples=60, deadline=None)
@given(CASES, st.sampled_from(["round_robin", "least_loaded", "prefix_aware"]), st.integers(0, 10**6), st.booleans())
def test_what_holds_in_every_replay(case: dict[str, object], routing: str, seed: int, split: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    inputs, outputs = rng.integers(1, 150, n), rng.integers(1, 60, n)
    blocks = [[int(rng.integers(0, 3))] + list(range(1000 * i, 1000 * i + int(inputs[i]) // 10)) for i in range(n)]
    t = trace(arrival_times(rng, n, 20.0, 2.0), inputs, outputs, blocks)
    rules = Rules(routing=routing, limits=Limits(ttft_s=0.5, tbt_s=((0.02, 0.9),)), seed=seed)
    kind = (deployment(**case), table())
    pools = ((deployment(**case), table()), Transfer(0.001, 1e-5)) if split else (None, None)
    r = replay(t, kind, rules, *pools)
    assert r.tokens_out == outputs.sum(), "every token comes out once"
    assert np.all(r.ttft_s > 0)
    assert np.all(r.e2e_s >= r.ttft_s - 1e-12)
    assert r.gap_tokens.sum() == outputs.sum() - n, "every further token has a gap"
    assert float(r.gap_s @ r.gap_tokens) == pytest.approx(float((r.e2e_s - r.ttft_s).sum()))
    assert r.mean_inside == pytest.approx(n / r.span_s * float(r.e2e_s.mean())), "Little's law"
    assert r.goodput_rps <= r.throughput_rps + 1e-12
    for values in (r.summary()[m] for m in ("ttft_ms", "tbt_ms", "e2e_ms")):
        assert values["p50"] <= values["p95"] <= values["p99"]
    again = replay(t, kind, rules, *pools)
    assert json.dumps(r.summary()) == json.dumps(again.summary()), "the same bytes for the same seed"


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0]))
def test_room_for_outputs_or_a_large_cache_needs_no_restarts(seed: int, reserve: float) -> None:
    rng = np.random.default_rng(seed)
    inputs, outputs = rng.integers(1, 100, 80), rng.integers(1, 60, 80)
    t = trace(arrival_times(rng, 80, 40.0, 1.0), inputs, outputs)
    small = _run(t, tokens=200, page=4, reserve=reserve)
    large = _run(t, tokens=100_000, page=4, reserve=reserve)
    assert large.restarts.sum() == 0
    if reserve == 1.0:
        assert small.restarts.sum() == 0
    assert small.tokens_out == large.tokens_out

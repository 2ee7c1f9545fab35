"""Closed forms of a closed loop: identities, limits, and the stepped loop they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.serving.closed_loop import LoopTimes, aggregated, disaggregated
from planner.serving.worker import ARRIVAL_BURST
from tests.serving.stepping import Loop, step_through

seconds = st.floats(1e-4, 10.0)


def _closed_form(loop: Loop) -> LoopTimes:
    """The closed form of a stepped loop, its prompt groups as planner.serving.worker makes them."""
    c, out = float(loop.concurrency), loop.mean_output
    decode = loop.step_s + loop.sequence_s * c
    room = loop.budget - (0.0 if loop.pause else c)
    most = max(room / loop.mean_input, 1.0)
    chunks = max(loop.mean_input / room, 1.0)
    group = 1.0 + ARRIVAL_BURST * c * loop.poll_steps / (out - 1.0)
    if loop.shortest == 1.0 and loop.pause:
        group = c
    group = max(min(group, c), 1.0)
    prompts = min(group, most)

    def prompt_step(together: float) -> float:
        riding = 0.0 if loop.pause else decode
        return riding + loop.prompt_step_s + loop.token_s * together * loop.mean_input / chunks

    return aggregated(
        c,
        c,
        out,
        decode,
        prompt_step(prompts),
        chunks,
        prompts,
        loop.pause,
        0.0,
        0.1,
        group_prompts=group,
        most_prompts=most,
        poll_steps=loop.poll_steps,
        wave_step_s=prompt_step(min(most, c)),
    )


@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize("poll_steps", [1, 30])
@pytest.mark.parametrize("concurrency", [4, 64])
@pytest.mark.parametrize("lengths", [(1024, 1024), (8192, 1024)])
def test_closed_form_is_the_mean_of_the_stepped_loop(
    pause: bool, poll_steps: int, concurrency: int, lengths: tuple[int, int]
) -> None:
    budget = 16384 if pause else 8192
    loop = Loop(concurrency, *lengths, 0.8, pause, budget, poll_steps)
    ttft, tpot, _ = step_through(loop)
    found = _closed_form(loop)
    # Engines look at the queue half a step after a request arrives; the stepped loop, at once.
    assert float(found.ttft_s) - loop.step_s == pytest.approx(ttft, rel=0.25)
    assert float(found.tpot_s) == pytest.approx(tpot, rel=0.05)


def test_fixed_lengths_keep_paused_requests_in_step() -> None:
    """All prompts return together: TTFT is half of what all of them take, not one prompt's time."""
    loop = Loop(64, 1024, 128, 1.0, True, 16384, 1)
    ttft, tpot, _ = step_through(loop)
    found = _closed_form(loop)
    assert float(found.ttft_s) == pytest.approx(ttft, rel=0.03)
    assert float(found.tpot_s) == pytest.approx(tpot, rel=0.06)
    assert ttft > 30 * loop.token_s * loop.mean_input


@given(
    c=st.floats(1, 2000),
    share=st.floats(0.05, 1.0),
    out=st.floats(2, 4000),
    d=seconds,
    extra=seconds,
    chunks=st.floats(1, 20),
    prompts=st.floats(1, 8),
    pause=st.booleans(),
    poll=st.floats(1, 30),
    request=st.floats(0, 1),
)
@settings(max_examples=200, deadline=None)
def test_littles_law_holds(
    c: float,
    share: float,
    out: float,
    d: float,
    extra: float,
    chunks: float,
    prompts: float,
    pause: bool,
    poll: float,
    request: float,
) -> None:
    """C = X (TTFT + (O - 1) TPOT), with and without a queue for slots."""
    slots = max(share * c, 1.0)
    m = extra if pause else d + extra
    loop = aggregated(c, slots, out, d, m, chunks, prompts, pause, request, poll_steps=poll)
    in_flight = loop.throughput_rps * (loop.ttft_s + max(out - 1.0, 1.0) * loop.tpot_s)
    assert float(in_flight) == pytest.approx(c, rel=1e-9)
    assert float(loop.tpot_s) >= d
    assert 0.0 <= float(loop.prefill_utilisation) <= 1.0


@given(c=st.floats(1, 500), d=seconds, m=seconds, servers=st.floats(1, 64), out=st.floats(2, 2000))
@settings(max_examples=100, deadline=None)
def test_littles_law_holds_for_two_pools(c: float, d: float, m: float, servers: float, out: float) -> None:
    loop = disaggregated(c, c, out, d, m, 1.0, servers, 0.01)
    assert float(loop.throughput_rps * (loop.ttft_s + (out - 1.0) * loop.tpot_s)) == pytest.approx(c, rel=1e-9)
    assert float(loop.tpot_s) == pytest.approx(d)


def test_times_scale_with_the_unit_of_time() -> None:
    one = aggregated(32.0, 32.0, 500.0, 0.01, 0.08, 1.0, 1.5, True, 0.02, 0.1, most_prompts=4.0)
    ten = aggregated(32.0, 32.0, 500.0, 0.1, 0.8, 1.0, 1.5, True, 0.2, 0.1, most_prompts=4.0)
    assert np.allclose(
        [ten.ttft_s, ten.tpot_s, 1.0 / ten.throughput_rps], [10 * one.ttft_s, 10 * one.tpot_s, 10 / one.throughput_rps]
    )


@pytest.mark.parametrize("pause", [False, True])
def test_more_in_flight_never_shortens_a_token(pause: bool) -> None:
    c = np.linspace(1.0, 400.0, 100)
    found = aggregated(c, c, 1000.0, 0.01 + 1e-5 * c, 0.06 + 1e-5 * c, 1.0, 1.0, pause, most_prompts=8.0)
    assert np.all(np.diff(found.tpot_s) >= 0.0)
    assert np.all(np.diff(found.throughput_rps) >= -1e-12)


def test_requests_without_a_slot_wait_for_one() -> None:
    free = aggregated(64.0, 64.0, 500.0, 0.02, 0.05, 1.0, 1.0, False)
    short = aggregated(64.0, 32.0, 500.0, 0.02, 0.05, 1.0, 1.0, False)
    assert float(short.ttft_s) > 10 * float(free.ttft_s)
    assert float(short.tpot_s) < float(free.tpot_s)

"""Admit, queue, reject: each for its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.serving.admission import RESERVES, Policy, Request, Running, State, admit

POLICY = Policy(max_sequences=8, max_context_tokens=8192, max_waiting=2)
REQUEST = Request(prompt_tokens=1000, expected_output_tokens=200, max_output_tokens=2000)
STATE = State(total_blocks=1000, free_blocks=600, block_tokens=16)


def test_room_admits() -> None:
    found = admit(STATE, REQUEST, POLICY)
    assert found.action == "admit"
    assert found.needed_blocks == 75
    assert found.available_blocks == 590


@pytest.mark.parametrize(
    ("state", "request_", "policy", "action", "word"),
    [
        (STATE, replace(REQUEST, max_output_tokens=9000), POLICY, "reject", "context"),
        (replace(STATE, total_blocks=70, free_blocks=70), REQUEST, POLICY, "reject", "blocks"),
        (replace(STATE, free_blocks=50), REQUEST, POLICY, "queue", "blocks"),
        (replace(STATE, free_blocks=50, waiting=2), REQUEST, POLICY, "reject", "wait"),
        (replace(STATE, running=(Running(REQUEST),) * 8), REQUEST, POLICY, "queue", "run"),
        (STATE, replace(REQUEST, priority=5), replace(POLICY, held_back={5: 0.55}), "queue", "kept back"),
    ],
)
def test_each_reason(state: State, request_: Request, policy: Policy, action: str, word: str) -> None:
    found = admit(state, request_, policy)
    assert found.action == action
    assert any(word in reason for reason in found.reasons)


def test_what_running_requests_will_take_is_promised() -> None:
    running = (Running(REQUEST, 100),) * 4
    state = replace(STATE, running=running)
    assert state.promised("prompt") == 0
    assert state.promised("expected") == 4 * (75 - 69)
    assert state.promised("maximum") == 4 * (188 - 69)
    assert replace(STATE, running=(Running(REQUEST, 500),)).promised("expected") == 0


def test_a_cached_prompt_needs_fewer_blocks() -> None:
    assert admit(STATE, replace(REQUEST, cached_tokens=800), POLICY).needed_blocks == 25


@settings(deadline=None)
@given(
    prompt=st.integers(1, 4000),
    expected=st.integers(0, 1000),
    free=st.integers(0, 1000),
    running=st.integers(0, 6),
)
def test_more_caution_never_admits_more(prompt: int, expected: int, free: int, running: int) -> None:
    request = Request(prompt, expected, max(expected, 1) + 500)
    state = replace(STATE, free_blocks=free, running=(Running(request, 3),) * running)
    order = {"admit": 0, "queue": 1, "reject": 2}
    found = [order[admit(state, request, replace(POLICY, reserve=r)).action] for r in RESERVES]
    assert found == sorted(found)


def test_a_policy_is_plain_data() -> None:
    assert Policy(**POLICY.to_dict()) == POLICY
    with pytest.raises(InputError, match="watermark"):
        replace(POLICY, watermark=1.0)
    with pytest.raises(InputError, match="max_waiting"):
        replace(POLICY, max_waiting=-1)

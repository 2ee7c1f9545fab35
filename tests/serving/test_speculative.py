"""Acceptance to tokens a step, against published acceptance lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.serving.length_shape import LengthShape
from planner.serving.speculative import (
    acceptance_from_length,
    extra_kv_tokens,
    in_steps,
    step_distribution,
    steps_for,
    tokens_per_step,
)


def test_one_draft() -> None:
    assert tokens_per_step([0.85]) == pytest.approx(1.85)
    assert tokens_per_step([]) == 1.0
    assert step_distribution([0.8, 0.5]) == pytest.approx([0.2, 0.4, 0.4])


def test_deepseek_report_section_5_4_3() -> None:
    # arXiv 2412.19437v2: second token accepted 85-90 % of the time, 1.8 times the tokens per second
    for accepted in (0.85, 0.9):
        dearer = 0.0515 / 0.05  # a step that drafts and checks one token more, over a plain one
        assert tokens_per_step([accepted]) / dearer == pytest.approx(1.8, rel=0.05)


@pytest.mark.parametrize(("drafts", "length"), [(1, 1.92), (2, 2.58), (3, 2.82), (4, 2.99), (5, 3.01)])
def test_acceptance_lengths_of_tensorrt_llm(drafts: int, length: float) -> None:
    # NVIDIA/TensorRT-LLM tech_blog/blog1, DeepSeek-R1 FP4 on 8 B200
    accepted = acceptance_from_length(length, drafts)
    assert tokens_per_step(accepted) == pytest.approx(length)
    assert extra_kv_tokens(accepted) == pytest.approx(drafts + 1 - length)


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 1.0), max_size=6))
def test_a_step_makes_between_one_and_all(acceptance: list[float]) -> None:
    p = step_distribution(acceptance)
    assert p.sum() == pytest.approx(1.0)
    assert 1.0 <= tokens_per_step(acceptance) <= len(acceptance) + 1 + 1e-9


def test_chances_outside_0_to_1_are_refused() -> None:
    with pytest.raises(InputError):
        step_distribution([1.2])


def test_steps_for_an_output_are_counted_with_the_last_ones_surplus() -> None:
    """Two tokens a step always: 5 tokens take 3 steps; one a step: as many; renewal theory against drawing them."""
    assert steps_for(6.0, [1.0]) == pytest.approx(3.25)  # the mean over odd and even outputs
    assert steps_for(6.0, []) == 6.0
    assert steps_for(0.0, [0.5]) == 0.0
    rng = np.random.default_rng(1)
    chances = step_distribution([0.8, 0.5])
    made = np.cumsum(rng.choice([1, 2, 3], p=chances, size=(20_000, 60)), axis=1)
    assert steps_for(40.0, [0.8, 0.5]) == pytest.approx(float(np.mean(np.argmax(made >= 40, axis=1) + 1)), rel=0.01)
    shape = in_steps(LengthShape.fixed(41), [0.8, 0.5])
    assert shape.mean == pytest.approx(1.0 + float(steps_for(40.0, [0.8, 0.5])))

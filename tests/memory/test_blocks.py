"""Paged allocation: rounding, fragmentation, sharing, reservation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import catalog
from planner.errors import InputError
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.memory.blocks import (
    blocks_of,
    expected_blocks,
    fragmentation,
    paged_need,
    reserved_need,
    resident_tokens,
    sequences_that_fit,
    shared_prefix_tokens_saved,
)
from planner.memory.budget import MemoryBudget, memory_budget
from planner.model.precision import PrecisionPlan


def _budget(model: str = "llama-3.1-8b") -> MemoryBudget:
    cat = catalog()
    spec = cat.model(model)
    return memory_budget(
        spec,
        PrecisionPlan.from_checkpoint(spec),
        Layouts.of(),
        device(cat.accelerator("h100-sxm")),
        "vllm",
        max_num_seqs=256,
        max_num_batched_tokens=8192,
    )


@given(block=st.integers(1, 128), start=st.integers(1, 1000))
def test_expected_blocks_is_the_mean_over_a_period(block: int, start: int) -> None:
    lengths = np.arange(start, start + 64 * block)
    assert expected_blocks(lengths.mean(), block) == pytest.approx(blocks_of(lengths, block).mean())


def test_fragmentation_falls_with_length() -> None:
    waste = fragmentation([10, 100, 10_000], 16)
    assert np.all(np.diff(waste) < 0)
    assert fragmentation(1000, 1) == 0


def test_a_random_look_finds_long_outputs() -> None:
    assert resident_tokens(100, 200, 200**2) == 200, "equal outputs: halfway through"
    assert resident_tokens(100, 200, 2 * 200**2) == 300, "exponential outputs: inspection paradox"


@given(prefix=st.integers(0, 5000), sharers=st.integers(1, 1000), block=st.integers(1, 128))
def test_sharing_saves_whole_blocks_only(prefix: int, sharers: int, block: int) -> None:
    saved = float(shared_prefix_tokens_saved(prefix, sharers, block))
    assert 0 <= saved <= prefix
    assert float(shared_prefix_tokens_saved(prefix, 1, block)) == 0


def test_paging_holds_more_than_reservation() -> None:
    budget = _budget()
    paged = sequences_that_fit(budget, paged_need(budget, 1500))
    reserved = sequences_that_fit(budget, reserved_need(budget, 8192))
    assert paged[0] == pytest.approx(reserved[0] * 8192 / 1504, rel=1 / reserved[0]), (
        "1500 tokens round up to 94 blocks"
    )


def test_exact_lengths_agree_with_the_engine_and_sharing_adds() -> None:
    budget = _budget()
    plain = sequences_that_fit(budget, paged_need(budget, 4096))
    assert plain[0] == np.floor(budget.sequences(4096)[0])
    shared = sequences_that_fit(budget, paged_need(budget, 4096, prefix_tokens=2048, sharers=plain[0]))
    assert shared[0] > 1.9 * plain[0]


def test_headroom_for_spread_lowers_the_count() -> None:
    budget = _budget()
    need = paged_need(budget, 2000, 1500)
    mean, safe = sequences_that_fit(budget, need)[0], sequences_that_fit(budget, need, z=2.33)[0]
    assert safe < mean
    assert safe * need.mean[0] + 2.33 * np.sqrt(safe) * need.std[0] <= budget.kv[0]


def test_windows_hold_many_more_long_sequences() -> None:
    budget = _budget("gpt-oss-20b")
    assert budget.sequences(100_000)[0] > 1.8 * budget.kv_tokens[0] / 100_000


def test_nothing_fits_where_there_is_no_cache() -> None:
    budget = _budget("llama-3.1-70b")
    assert budget.kv[0] < 0
    assert sequences_that_fit(budget, paged_need(budget, 100))[0] == 0


def test_negative_spread_is_refused() -> None:
    with pytest.raises(InputError, match="std_tokens"):
        paged_need(_budget(), 100, -1)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_specs import DEEPSEEK_V3, H800, LLAMA_70B, NVL72

from planner.errors import InputError
from planner.layout.enumeration import candidate_layouts, enumerate_layouts, fill_up, stage_sizes


def rows(layouts: object) -> set[str]:
    return {layouts.describe(i) for i in range(len(layouts))}  # type: ignore[attr-defined, arg-type]


def test_deepseek_service_layouts_are_found() -> None:
    """DeepSeek day 6 (open-infra-index): EP32 on 4 nodes and EP144 on 18, 32 redundant experts each."""
    for redundant, prefill in ((0, "TP1 DP32 EP32"), (32, "TP1 DP32 EP32+32")):
        found, _ = enumerate_layouts(DEEPSEEK_V3, H800, 144, "sglang", redundant_experts=redundant)
        names = rows(found)
        assert prefill in names
        assert "TP1 DP144 EP144+32" in names
        assert "TP8 EP8" in names or redundant


def test_dense_models_split_by_tp_and_pp_only() -> None:
    found, rejected = enumerate_layouts(LLAMA_70B, H800, 16, "vllm")
    assert "TP8 PP2" in rows(found)
    assert (found.attention_dp == 1).all()
    assert (found.ep == 1).all()
    assert {r.reason for r in rejected} >= {"not_whole_nodes", "tp_leaves_the_domain"}


def test_every_candidate_is_legal_or_counted() -> None:
    found, rejected = enumerate_layouts(DEEPSEEK_V3, H800, 64, "vllm")
    everything = candidate_layouts(DEEPSEEK_V3, H800, 64)
    assert len(found) + sum(r.count for r in rejected) == len(everything)
    assert len({tuple(r.values()) for r in everything}) == len(everything)
    assert all(r.example and r.sentence and r.fix for r in rejected)


def test_rack_scale_stages() -> None:
    assert stage_sizes(NVL72, 144).tolist() == [1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32, 36, 64, 72, 144]


def test_needs_a_gpu() -> None:
    with pytest.raises(InputError, match="max_gpus_per_worker"):
        enumerate_layouts(LLAMA_70B, H800, 0, "vllm")


@given(st.integers(1, 512), st.integers(0, 128), st.integers(1, 512))
def test_fill_up_is_the_smallest(experts: int, at_least: int, ep: int) -> None:
    redundant = int(fill_up(experts, at_least, np.array([ep]))[0])
    assert redundant >= at_least
    assert (experts + redundant) % ep == 0
    assert redundant - at_least < ep

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import Catalog
from planner.errors import InputError
from planner.model.flops import (
    attention_flops,
    chunk_pairs,
    forward_flops_per_token,
    linear_flops_per_token,
    seen_pairs,
)
from planner.model.parameters import count


def test_linear_flops_are_twice_the_active_matrices(cat: Catalog) -> None:
    for model in cat.model_ids():
        spec = cat.model(model)
        counted = count(spec)
        assert sum(linear_flops_per_token(spec).values()) == pytest.approx(
            2 * counted.active_without_embedding, rel=2e-3
        )


def test_deepseek_v3_costs_about_250_gflop_a_token_in_training(cat: Catalog) -> None:
    # Insights into DeepSeek-V3 (ISCA 2025), table 2: 250 GFLOPs a token at 4K (forward and backward, causal).
    spec = cat.model("deepseek-v3")
    forward = sum(linear_flops_per_token(spec).values()) + attention_flops(spec, 4096, 0) / 4096
    assert 3 * forward / 1e9 == pytest.approx(250, rel=0.05)


def test_gqa_prefill_of_a_known_shape(cat: Catalog) -> None:
    spec = cat.model("llama-3.1-8b")  # 32 layers, 32 heads of 128
    assert attention_flops(spec, 10, 0) == 32 * 4 * 32 * 128 * 55
    assert attention_flops(spec, 1, 99, "decode") == 32 * 4 * 32 * 128 * 100


def test_mla_decode_works_on_the_latent(cat: Catalog) -> None:
    spec = cat.model("deepseek-v3")
    assert attention_flops(spec, 1, 0, "prefill") == 61 * 2 * 128 * (192 + 128)
    assert attention_flops(spec, 1, 0, "decode") == 61 * 2 * 128 * (1024 + 64)


def test_sparse_attention_stops_growing_but_for_its_indexer(cat: Catalog) -> None:
    spec = cat.model("deepseek-v3.2")
    far, further = attention_flops(spec, 1, np.array([10_000, 20_000]), "decode")
    assert further - far == pytest.approx(61 * 2 * 64 * 128 * 10_000)


def test_linear_attention_does_not_depend_on_the_past(cat: Catalog) -> None:
    spec = cat.model("qwen3-next-80b-a3b")
    full_only = 12 * 4 * 16 * 256
    near, far = attention_flops(spec, 1, np.array([0, 1000]), "decode")
    assert far - near == full_only * 1000


def test_mtp_passes_the_head_once_more(cat: Catalog) -> None:
    spec = cat.model("deepseek-v3")
    extra = linear_flops_per_token(spec, mtp=True)["head"] - linear_flops_per_token(spec)["head"]
    assert extra == 2 * (129280 * 7168 + 7168 * 2 * 7168)


def test_negative_tokens_are_refused(cat: Catalog) -> None:
    with pytest.raises(InputError):
        attention_flops(cat.model("llama-3.1-8b"), -1, 0)


def test_forward_flops_grow_with_context(cat: Catalog) -> None:
    values = forward_flops_per_token(cat.model("llama-3.1-70b"), np.array([0, 1000, 100_000]))
    assert np.all(np.diff(values) > 0)
    assert values[0] == pytest.approx(2 * 69.5e9, rel=0.01)


@given(new=st.integers(0, 300), past=st.integers(0, 300), limit=st.integers(1, 400))
def test_pairs_equal_their_sums(new: int, past: int, limit: int) -> None:
    positions = range(past, past + new)
    assert seen_pairs(new, past) == sum(p + 1 for p in positions)
    assert seen_pairs(new, past, limit) == sum(min(p + 1, limit) for p in positions)
    assert chunk_pairs(new, past, limit) == sum(p % limit + 1 for p in positions)


@given(first=st.integers(0, 500), second=st.integers(0, 500))
def test_chunked_prefill_costs_what_one_pass_costs(first: int, second: int) -> None:
    assert seen_pairs(first, 0) + seen_pairs(second, first) == seen_pairs(first + second, 0)

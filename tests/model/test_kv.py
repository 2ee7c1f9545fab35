from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import Catalog
from planner.catalog.model_spec import GqaAttention
from planner.errors import InputError
from planner.model.kv import (
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    kv_groups,
    layer_kv,
    uncompressed_mla_bytes_per_token,
)

MODELS = ["deepseek-v3", "deepseek-v3.2", "llama-3.1-405b", "gemma-3-27b", "llama-4-scout", "qwen3.5-397b-a17b"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [("deepseek-v3", 70_272), ("qwen2.5-72b", 327_680), ("llama-3.1-405b", 516_096)],
)
def test_bytes_per_token_in_bf16(cat: Catalog, model: str, expected: int) -> None:
    # Insights into DeepSeek-V3 (ISCA 2025), table 1.
    assert kv_bytes_per_token(cat.model(model), "bf16") == expected


def test_mla_compression_is_71_times_not_12(cat: Catalog) -> None:
    # 61 layers x 128 heads x (192 + 128) values x 2 bytes = 4,997,120 against 70,272.
    spec = cat.model("deepseek-v3")
    plain = uncompressed_mla_bytes_per_token(spec)
    assert plain == 61 * 128 * (192 + 128) * 2 == 4_997_120
    assert plain / kv_bytes_per_token(spec, "bf16") == pytest.approx(71.1, abs=0.05)
    with pytest.raises(InputError, match="MLA"):
        uncompressed_mla_bytes_per_token(cat.model("llama-3.1-8b"))


def test_mla_is_replicated_over_tp_and_gqa_heads_are_rounded_up(cat: Catalog) -> None:
    tp = np.array([1, 2, 3, 8, 16])
    mla = kv_bytes_per_token(cat.model("deepseek-v3"), "bf16", tp)
    assert mla.tolist() == [70_272.0] * 5
    gqa = kv_bytes_per_token(cat.model("llama-3.1-70b"), "bf16", tp)  # 8 KV heads of 128, 80 layers
    assert gqa.tolist() == [2 * 2 * 80 * 128 * heads for heads in (8, 4, 3, 1, 1)]


def test_sparse_indexer_adds_132_bytes_a_layer(cat: Catalog) -> None:
    # 128 fp8 values and one fp32 scale (memory runs of DeepSeek-V3.2 on vLLM).
    extra = kv_bytes_per_token(cat.model("deepseek-v3.2"), "bf16") - kv_bytes_per_token(
        cat.model("deepseek-v3"), "bf16"
    )
    assert extra == 61 * 132
    halved = kv_bytes_per_token(cat.model("deepseek-v3.2"), "fp8")
    assert halved == 61 * (576 + 132)  # the indexer is fp8 already


def test_quantised_cache_with_scales(cat: Catalog) -> None:
    spec = cat.model("llama-3.1-8b")
    bf16 = kv_bytes_per_token(spec, "bf16")
    assert kv_bytes_per_token(spec, "fp8") == bf16 / 2
    assert kv_bytes_per_token(spec, "nvfp4") == bf16 / 4 * (1 + 2 / 16)
    with pytest.raises(InputError, match="KV cache"):
        kv_bytes_per_token(spec, "int4_g128")
    with pytest.raises(InputError, match="bf16"):
        kv_bytes_per_token(spec, "bf17")


def test_windows_bound_the_cache(cat: Catalog) -> None:
    spec = cat.model("gemma-3-27b")  # 52 layers of window 1024, 10 full
    per_layer = 2 * 16 * 128 * 2
    short, long = kv_bytes_per_sequence(spec, "bf16", [1000, 100_000])
    assert short == 62 * 1000 * per_layer
    assert long == (52 * 1024 + 10 * 100_000) * per_layer
    chunked = cat.model("llama-4-scout")  # 36 layers of chunk 8192, 12 full
    assert kv_bytes_per_sequence(chunked, "bf16", 50_000) == (36 * 8192 + 12 * 50_000) * 2 * 8 * 128 * 2


def test_linear_layers_hold_a_constant_state(cat: Catalog) -> None:
    spec = cat.model("qwen3-next-80b-a3b")
    one, two = kv_bytes_per_sequence(spec, "bf16", [1, 2])
    per_token = 12 * 2 * 2 * 256 * 2  # 12 full layers, 2 KV heads of 256
    assert two - one == per_token
    delta = 32 * 128 * 128 * 4
    convolution = (2 * 16 * 128 + 32 * 128) * 3 * 2
    assert one - per_token == 36 * (delta + convolution)
    assert kv_bytes_per_sequence(spec, "bf16", 0) == 0
    linear = spec.attentions["linear"]
    assert layer_kv(linear, "bf16", 4).state_bytes == (delta + convolution) / 4


def test_blocks_round_up(cat: Catalog) -> None:
    spec = cat.model("llama-3.1-8b")
    token = kv_bytes_per_token(spec, "bf16")
    assert kv_bytes_per_sequence(spec, "bf16", 17, block_tokens=16) == 32 * token
    assert kv_bytes_per_sequence(spec, "bf16", [16, 17], block_tokens=[16, 1]).tolist() == [16 * token, 17 * token]


def test_mtp_block_caches_like_a_layer(cat: Catalog) -> None:
    spec = cat.model("deepseek-v3")
    assert kv_bytes_per_token(spec, "bf16", mtp=True) == 62 * 576 * 2
    assert len(kv_groups(spec, mtp=True)) == len(kv_groups(spec)) + 1


def test_impossible_inputs_are_refused(cat: Catalog) -> None:
    spec = cat.model("llama-3.1-8b")
    with pytest.raises(InputError):
        kv_bytes_per_token(spec, "bf16", 0)
    with pytest.raises(InputError):
        kv_bytes_per_sequence(spec, "bf16", -1)


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    tokens=st.integers(0, 2_000_000),
    more=st.integers(0, 1000),
    tp=st.sampled_from([1, 2, 4, 8]),
    block=st.sampled_from([1, 16, 64, 128]),
)
def test_cache_is_monotone(cat: Catalog, model: str, tokens: int, more: int, tp: int, block: int) -> None:
    spec = cat.model(model)
    here = kv_bytes_per_sequence(spec, "bf16", tokens, tp, block)
    assert kv_bytes_per_sequence(spec, "bf16", tokens + more, tp, block) >= here
    assert kv_bytes_per_sequence(spec, "bf16", tokens, tp * 2, block) <= here
    assert here >= kv_bytes_per_sequence(spec, "bf16", tokens, tp, 1)
    bound = tokens * kv_bytes_per_token(spec, "bf16", tp) + sum(
        g.layers * g.layer("bf16", tp).state_bytes for g in kv_groups(spec)
    )
    assert kv_bytes_per_sequence(spec, "bf16", tokens, tp) <= bound


@given(heads=st.integers(1, 128), tp=st.integers(1, 64))
def test_ranks_together_hold_every_head(heads: int, tp: int) -> None:
    attention = GqaAttention(heads=heads, kv_heads=heads, head_dim=64)
    whole = float(layer_kv(attention, "bf16").token_bytes)
    rank = float(layer_kv(attention, "bf16", tp).token_bytes)
    assert rank * tp >= whole
    assert rank >= 2 * 64 * 2

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import Catalog
from planner.errors import InputError, UnknownNameError
from planner.model.builder import tensors
from planner.model.precision import (
    ALIASES,
    FORMATS,
    PrecisionPlan,
    matrix_bytes,
    resolve_format,
    resolve_kv_format,
    tensor_bytes,
)
from planner.model.sensitivity import SENSITIVITY, checks_owed, class_savings


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bf16", 256 * 300 * 2),
        ("fp32", 256 * 300 * 4),
        ("fp8_tensor", 256 * 300 + 4),
        ("fp8_channel", 256 * 300 + 256 * 4),
        ("fp8_block", 256 * 300 + 2 * 3 * 4),
        ("mxfp8", 256 * 300 + 256 * 10),
        ("int8_channel", 256 * 300 + 256 * 4),
        ("nvfp4", 256 * 150 + 256 * 19 + 4),
        ("mxfp4", 256 * 150 + 256 * 10),
        ("int4_g32", 256 * 150 + 256 * 10 * 2),
        ("int4_g64", 256 * 150 + 256 * 5 * 2),
        ("int4_g128", 256 * 150 + 256 * 3 * 2),
    ],
)
def test_bytes_with_scales(name: str, expected: int) -> None:
    assert matrix_bytes(FORMATS[name], 256, 300) == expected


def test_deepseek_v3_block_scales_are_41_million(cat: Catalog) -> None:
    # The hub's 684.53B counts 41.5M fp8 block scales on top of the 684.49B tensors, MTP block included.
    spec = cat.model("deepseek-v3")
    plan = PrecisionPlan.from_checkpoint(spec)
    scales = 0.0
    for tensor in tensors(spec):
        fmt = plan.format_of(tensor.tensor_class)
        if fmt.name == "fp8_block":
            scales += float(fmt.scale_bytes(tensor.rows, tensor.cols)) / 4 * tensor.copies * tensor.layers
    assert scales == pytest.approx(684_531_386_000 - 684_489_845_504, rel=1e-3)


def test_aliases_resolve_and_unknown_names_suggest() -> None:
    assert {resolve_format(alias).name for alias in ALIASES} <= set(FORMATS)
    assert resolve_format("FP8").name == "fp8_tensor"
    with pytest.raises(UnknownNameError, match="nvfp4"):
        resolve_format("nvfp5")
    with pytest.raises(InputError, match="KV cache"):
        resolve_kv_format("mxfp4")


def test_checkpoint_formats_by_class(cat: Catalog) -> None:
    v3 = PrecisionPlan.from_checkpoint(cat.model("deepseek-v3"))
    assert (v3.attention, v3.routed_experts, v3.dense_mlp) == ("fp8_block",) * 3
    assert (v3.router, v3.norm, v3.embedding, v3.head, v3.kv, v3.combine) == ("bf16",) * 6
    assert v3.dispatch == "fp8_block"
    oss = PrecisionPlan.from_checkpoint(cat.model("gpt-oss-120b"))
    assert (oss.routed_experts, oss.attention, oss.dispatch) == ("mxfp4", "bf16", "bf16")
    kimi = PrecisionPlan.from_checkpoint(cat.model("kimi-k2.5"))
    assert (kimi.routed_experts, kimi.shared_experts, kimi.vision) == ("int4_g32", "bf16", "bf16")


def test_low_bit_default_leaves_router_norms_and_ends_high(cat: Catalog) -> None:
    plan = PrecisionPlan.from_checkpoint(cat.model("qwen3-235b-a22b"))
    low = plan.with_overrides({"default": "nvfp4", "attention": "fp8", "kv": "fp8"})
    assert (low.routed_experts, low.attention, low.kv) == ("nvfp4", "fp8_tensor", "fp8_tensor")
    assert (low.router, low.norm, low.embedding, low.head) == ("bf16",) * 4
    assert low.dispatch == "fp8_block"
    assert low.with_overrides({"default": "bf16"}).as_dict() == {**plan.as_dict(), "kv": "fp8_tensor"}
    assert plan.with_overrides({"router": "int8"}).router == "int8_channel"


def test_a_plain_fp8_dispatch_is_scaled_as_the_experts_read_it(cat: Catalog) -> None:
    """DeepEP sends fp8 tokens with a scale for each 128 values; DeepSeek-V3's checkpoint is in such blocks."""
    deepseek = PrecisionPlan.from_checkpoint(cat.model("deepseek-v3"))
    assert deepseek.with_overrides({"dispatch": "FP8"}) == deepseek
    assert deepseek.with_overrides({"dispatch": "fp8_tensor"}).dispatch == "fp8_tensor"
    assert deepseek.with_overrides({"dispatch": "fp8", "routed_experts": "bf16"}).dispatch == "fp8_tensor"
    assert FORMATS["fp8_block"].bytes_per_value == FORMATS["fp8_tensor"].bytes_per_value
    high = PrecisionPlan.from_checkpoint(cat.model("mixtral-8x7b"))
    assert high.with_overrides({"dispatch": "fp8"}).dispatch == "fp8_tensor"
    assert high.with_overrides({"dispatch": "fp8", "routed_experts": "fp8"}).dispatch == "fp8_block"


def test_wrong_overrides_are_refused(cat: Catalog) -> None:
    plan = PrecisionPlan.from_checkpoint(cat.model("llama-3.1-8b"))
    with pytest.raises(UnknownNameError, match="attention"):
        plan.with_overrides({"atention": "fp8"})
    with pytest.raises(InputError, match="16 bits"):
        plan.with_overrides({"norm": "fp8"})
    with pytest.raises(InputError, match="KV cache"):
        plan.with_overrides({"kv": "int4"})
    with pytest.raises(UnknownNameError):
        plan.format_of("experts")


def test_fp8_halves_the_bytes_of_a_405b(cat: Catalog) -> None:
    spec = cat.model("llama-3.1-405b")
    savings = {
        s.tensor_class: s
        for s in class_savings(spec, PrecisionPlan.from_checkpoint(spec).with_overrides({"default": "fp8"}))
    }
    assert savings["dense_mlp"].saved_bytes == pytest.approx(savings["dense_mlp"].bytes, rel=1e-6)
    assert savings["head"].saved_bytes == 0
    assert savings["dense_mlp"].checks_owed == ("token_divergence", "exact_match")
    assert savings["head"].checks_owed == ()


def test_published_low_bit_formats_owe_no_checks(cat: Catalog) -> None:
    spec = cat.model("deepseek-v3")
    plan = PrecisionPlan.from_checkpoint(spec)
    assert checks_owed(spec, plan) == {}
    owed = checks_owed(spec, plan.with_overrides({"routed_experts": "int4", "router": "fp8", "kv": "fp8"}))
    assert "routing_agreement" in owed["routed_experts"]
    assert "routing_agreement" in owed["router"]
    assert owed["kv"] == ("token_divergence", "long_chain")
    assert set(SENSITIVITY) == set(plan.as_dict())


@given(
    name=st.sampled_from(sorted(FORMATS)),
    rows=st.integers(1, 20_000),
    cols=st.integers(1, 20_000),
    copies=st.integers(2, 8),
)
def test_scales_never_save_bytes_and_splits_never_lose_them(name: str, rows: int, cols: int, copies: int) -> None:
    fmt = FORMATS[name]
    whole = matrix_bytes(fmt, rows * copies, cols)
    assert whole >= rows * copies * cols * fmt.bits / 8
    assert copies * matrix_bytes(fmt, rows, cols) >= whole
    broadcast = matrix_bytes(fmt, np.array([rows, rows * copies]), cols)
    assert broadcast.tolist() == [float(matrix_bytes(fmt, rows, cols)), float(whole)]


def test_tensor_bytes_counts_copies_and_layers(cat: Catalog) -> None:
    experts = next(t for t in tensors(cat.model("mixtral-8x7b")) if t.name == "experts_down_proj")
    assert tensor_bytes(experts, "bf16") == 2 * experts.parameters

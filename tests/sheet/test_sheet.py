"""Plain arguments, plain numbers; errors that say what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from planner import sheet
from planner.catalog import catalog, load_model
from planner.errors import InfeasibleError, InputError
from planner.hardware.device import device
from planner.layout.layouts import Layouts
from planner.model.precision import PrecisionPlan
from planner.search.rank_memory import rank_memory


@pytest.mark.parametrize(
    ("model", "expected"),
    # Insights into DeepSeek-V3 (ISCA 2025), table 1
    [("deepseek-v3", 70272.0), ("qwen2.5-72b", 327680.0), ("llama-3.1-405b", 516096.0)],
)
def test_published_kv_bytes(model: str, expected: float) -> None:
    assert sheet.kv_bytes_per_token(model, kv="bf16") == expected


def test_mla_is_replicated_and_gqa_is_split() -> None:
    assert sheet.kv_bytes_per_token("deepseek-v3", tp=8) == 70272.0
    assert sheet.kv_bytes_per_token("llama-3.1-405b", tp=8) == 516096.0 / 8
    assert sheet.kv_bytes_per_token("llama-3.1-405b", tp=16) == 516096.0 / 8


def test_full_windows_take_no_further_token() -> None:
    """Gemma 3 27B: 62 layers of 8,192 bytes a token, of which 10 keep more than 1,024 tokens."""
    assert sheet.kv_bytes_per_token("gemma-3-27b") == 62 * 8192
    assert sheet.kv_bytes_per_token("gemma-3-27b", context_tokens=1023) == 62 * 8192
    assert sheet.kv_bytes_per_token("gemma-3-27b", context_tokens=1024, tp=2) == 10 * 4096
    assert sheet.kv_bytes_per_token("llama-3.3-70b", context_tokens=100_000) == 327_680


@pytest.mark.parametrize(
    ("model", "engine"), [("gemma-3-27b", "vllm"), ("gpt-oss-120b", "sglang"), ("qwen3-next-80b-a3b", "vllm")]
)
@pytest.mark.parametrize("tokens", [100, 5000, 100_000])
def test_a_sequence_takes_what_the_memory_budget_counts(model: str, engine: str, tokens: int) -> None:
    spec = load_model(model)
    precision = PrecisionPlan.from_checkpoint(spec).with_overrides({"kv": "bf16"})
    chip = device(catalog().accelerator("h200-sxm"))
    budget = rank_memory(catalog(), spec, precision, Layouts.of(tp=2), chip, engine)
    found = sheet.kv_bytes_per_sequence(model, tokens, tp=2, engine=engine)
    assert found == budget.sequence_bytes(tokens)[0]
    if tokens > 5000:
        one_more = sheet.kv_bytes_per_token(model, tp=2, context_tokens=tokens)
        assert one_more == budget.kv_bytes_per_token[0]


def test_sequences_of_uniform_layers_grow_with_their_tokens() -> None:
    assert sheet.kv_bytes_per_sequence("deepseek-v3", 8192) == 8192 * 70272
    assert sheet.kv_bytes_per_sequence("deepseek-v3", 8193) == 8208 * 70272, "whole pages of 16 tokens"


def test_weights_shrink_with_ranks() -> None:
    one = sheet.weights_gib("llama-3.1-405b")
    assert one == pytest.approx(405.85e9 * 2 / 1024**3, rel=0.01)
    eight = sheet.weights_gib("llama-3.1-405b", tp=8)
    assert one / 8 <= eight < one / 7.9
    assert sheet.weights_gib("llama-3.1-405b", "fp8", tp=8) < 0.55 * eight


def test_concurrency_falls_with_length() -> None:
    short = sheet.max_concurrency("deepseek-v3", "h200-sxm", 1000, 1000, tp=8)
    assert isinstance(short, int)
    assert short > 1.8 * sheet.max_concurrency("deepseek-v3", "h200-sxm", 3000, 1000, tp=8)


def test_spreadsheet_numbers_are_whole_numbers() -> None:
    for eight in (8.0, np.int64(8), np.float64(8)):
        assert sheet.kv_bytes_per_token("deepseek-v3", tp=eight) == 70272.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sheet.kv_bytes_per_token("deepseek-v33"), "deepseek-v3"),
        (lambda: sheet.kv_bytes_per_token("deepseek-v3", kv="int3"), "int3"),
        (lambda: sheet.kv_bytes_per_token("deepseek-v3", tp=0), "tp"),
        (lambda: sheet.kv_bytes_per_token("deepseek-v3", context_tokens=0), "context_tokens"),
        (lambda: sheet.kv_bytes_per_sequence("deepseek-v3", 0.5), "tokens"),  # type: ignore[arg-type]
        (lambda: sheet.kv_bytes_per_sequence("deepseek-v3", 10, kv="int3"), "int3"),
        (lambda: sheet.weights_gib("deepseek-v3", tp=1.5), "tp"),  # type: ignore[arg-type]
        (lambda: sheet.tpot_ms("llama-3.1-8b", "dgx-h100", float("nan"), 10, 10), "concurrency: got nan"),
        (lambda: sheet.tpot_ms("llama-3.1-8b", "dgx-h100", float("inf"), 10, 10), "concurrency: got inf"),
        (lambda: sheet.weights_gib("deepseek-v3", "fp99"), "fp99"),
        (lambda: sheet.weights_gib("deepseek-v3", tp=8, ep=3), "ep"),
        (lambda: sheet.max_concurrency("deepseek-v3", "h2000", 10, 10), "h200"),
        (lambda: sheet.max_concurrency("deepseek-v3", "h200-sxm", "ten", 10), "input_tokens"),  # type: ignore[arg-type]
        (lambda: sheet.max_concurrency("deepseek-v3", "h200-sxm", 10, 10, tp=8, engine="vlm"), "vllm"),
    ],
)
def test_errors_say_what_is_wrong(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=said):
        call()


def test_what_does_not_fit_says_memory() -> None:
    with pytest.raises(InfeasibleError, match="memory"):
        sheet.max_concurrency("llama-3.1-405b", "h100-sxm", 1000, 1000)


def test_one_token_has_no_time_per_token() -> None:
    with pytest.raises(InputError, match="output_tokens: got 1; at least 2"):
        sheet.tpot_ms("llama-3.3-70b", "dgx-h100", 8, 1000, 1, tp=8)

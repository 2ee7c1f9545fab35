"""Names in measured tables resolve to one specification or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog import catalog
from planner.errors import InputError
from planner.evidence.memory_models import resolve_model, run_precision

MEASURED = Path(__file__).resolve().parents[2] / "measured"


@pytest.mark.parametrize(
    ("name", "spec_id", "attention"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", "bf16"),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite", "bf16"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama-3.1-8b", "int4_g128"),
        ("redhatai/Llama-3.3-70B-Instruct-quantized.w8a8", "llama-3.3-70b", "int8_channel"),
        ("RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic", "qwen2.5-7b", "fp8_channel"),
        ("RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8", "mistral-small-3.1-24b", "int8_channel"),
        ("mistralai-mixtral-8x7b-i", "mixtral-8x7b", "bf16"),
        ("qwen-qwen3-8b", "qwen3-8b", "bf16"),
    ],
)
def test_names(name: str, spec_id: str, attention: str) -> None:
    resolved = resolve_model(name, catalog(MEASURED))
    assert resolved.spec.id == spec_id
    plan = run_precision(resolved, {"dtype": "bfloat16"})
    assert (plan.attention, plan.embedding) == (attention, "bf16")


@pytest.mark.parametrize("name", ["redhatai-llam", "meta-llama-l", "qwen-qwen2-5", "nobody/knows-this"])
def test_names_that_fit_none_or_several(name: str) -> None:
    with pytest.raises(InputError, match="model"):
        resolve_model(name, catalog(MEASURED))


def test_options_of_a_run() -> None:
    llama = resolve_model("llama-3.1-8b", catalog())
    assert run_precision(llama, {"quantization": "fp8", "kv_cache_dtype": "fp8"}).kv == "fp8_tensor"
    assert run_precision(llama, {"quantization": "fp8"}).dense_mlp == "fp8_tensor"
    full = run_precision(llama, {"dtype": "float32"})
    assert (full.attention, full.kv, full.activations) == ("fp32", "fp32", "fp32")
    with pytest.raises(InputError, match="quantization"):
        run_precision(llama, {"quantization": "gguf"})

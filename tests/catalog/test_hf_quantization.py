from __future__ import annotations

from typing import Any

import pytest
from hf_configs import LLAMA, changed

from planner.catalog.hf_config import spec_from_hf_config
from planner.errors import UnsupportedArchitectureError

MOE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "vocab_size": 151936,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
}


def tensors(bits: int, kind: str, strategy: str, inputs: bool, **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": more.pop("group_size", None)}
    weights |= {"block_structure": more.pop("block_structure", None)}
    group = {"targets": ["Linear"], "weights": weights}
    group["input_activations"] = {"num_bits": bits, "type": kind, "dynamic": True} if inputs else None
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]} | more


def precision(config: dict[str, Any], quantization: dict[str, Any]) -> dict[str, str]:
    return spec_from_hf_config(changed(config, quantization_config=quantization)).precision


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}, "fp8_block"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_tensor"),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]}, "fp8_channel"),
        (tensors(8, "float", "channel", True), "fp8_channel"),
        (tensors(8, "float", "tensor", True), "fp8_tensor"),
        (tensors(8, "float", "block", True, block_structure=[128, 128]), "fp8_block"),
        (tensors(8, "int", "channel", True), "int8_channel"),
        (tensors(4, "int", "group", False, group_size=128), "int4_g128"),
        (tensors(4, "float", "tensor_group", True, group_size=16), "nvfp4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": False}, "int4_g64"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4_g128"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]}, "fp8_tensor"),
    ],
)
def test_schemes(quantization: dict[str, Any], expected: str) -> None:
    found = precision(LLAMA, quantization)
    assert found == {"default": "bf16", "attention": expected, "dense_mlp": expected}


@pytest.mark.parametrize(
    ("quantization", "key"),
    [
        ({"quant_method": "fp8", "weight_block_size": [64, 64]}, "weight_block_size"),
        ({"quant_method": "fp8", "fmt": "e5m2"}, "fmt"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "bits"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, "lm_head"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*": {}}}, "dynamic"),
        (tensors(8, "int", "channel", False), "config_groups.weights"),
        (tensors(4, "int", "group", True, group_size=128), "config_groups.weights"),
        (tensors(8, "float", "channel", True, config_groups={}), "config_groups"),
        (tensors(8, "float", "channel", True, kv_cache_scheme={"num_bits": 4, "type": "int"}), "kv_cache_scheme"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "INT8"}, "kv_cache_quant_algo"),
        ({"quant_method": "quark"}, "quant_method"),
        ({"bits": 4}, "quant_method"),
    ],
)
def test_unknown_schemes_are_refused(quantization: dict[str, Any], key: str) -> None:
    with pytest.raises(UnsupportedArchitectureError) as caught:
        precision(LLAMA, quantization)
    assert f"quantization_config.{key}" in caught.value.keys


def test_ignored_classes_keep_high_precision() -> None:
    by_pattern = tensors(
        4, "float", "tensor_group", True, group_size=16, ignore=["lm_head", "re:.*self_attn.*", "re:.*mlp.gate$"]
    )
    assert precision(MOE, by_pattern) == {"default": "bf16", "routed_experts": "nvfp4"}
    by_glob = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "exclude_modules": ["lm_head", *(f"model.layers.{i}.self_attn*" for i in range(48))],
        "kv_cache_quant_algo": "FP8",
    }
    assert precision(MOE, by_glob) == {"default": "bf16", "routed_experts": "nvfp4", "kv": "fp8"}
    by_name = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["lm_head", *(f"model.layers.{i}.mlp.gate" for i in range(48))],
    }
    assert set(precision(MOE, by_name)) == {"default", "attention", "routed_experts"}


def test_a_class_split_between_formats_is_refused() -> None:
    half = tensors(8, "float", "channel", True, ignore=["lm_head", *(f"model.layers.{i}.self_attn" for i in range(16))])
    with pytest.raises(UnsupportedArchitectureError, match="attention: 50 %"):
        precision(LLAMA, half)


def test_a_small_exception_is_noted() -> None:
    one = tensors(8, "float", "channel", True, ignore=["lm_head", "model.layers.0.self_attn"])
    spec = spec_from_hf_config(changed(LLAMA, quantization_config=one))
    assert spec.precision["attention"] == "fp8_channel"
    assert any("3.1 % of attention" in note for note in spec.notes)


def test_kv_scheme_of_compressed_tensors() -> None:
    scheme = tensors(8, "float", "tensor", True, kv_cache_scheme={"num_bits": 8, "type": "float"})
    assert precision(LLAMA, scheme)["kv"] == "fp8"


def test_half_precision_checkpoints_keep_their_type() -> None:
    assert spec_from_hf_config(changed(LLAMA, torch_dtype="float16")).precision == {"default": "fp16"}
    assert spec_from_hf_config(changed(LLAMA, torch_dtype=..., dtype="torch.bfloat16")).precision == {"default": "bf16"}

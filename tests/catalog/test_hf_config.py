from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hf_configs import CONFIGS, LLAMA, changed
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import Catalog
from planner.catalog.hf_config import ARCHITECTURES, spec_from_hf_config
from planner.catalog.model_spec import GqaAttention, ModelSpec
from planner.errors import InputError, UnsupportedArchitectureError
from planner.model.kv import kv_bytes_per_sequence
from planner.model.parameters import count
from planner.model.precision import PrecisionPlan

# Parameters shown by the model hub for checkpoints that are not in the catalogue (safetensors metadata).
HUB_COUNTS = {
    "phi-2": 2_779_683_840,
    "qwen-7b-chat": 7_721_324_544,
    "gemma-7b": 8_537_680_896,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-4b": 4_300_079_472,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-0.6b": 596_049_920,
    "phi-3-mini-4k": 3_821_079_552,
    "mistral-small-3.1-24b": 24_011_361_280,
    "kimi-vl-a3b": 16_407_657_776,
    "granite-3.1-8b": 8_170_848_256,
}


def test_every_collected_config_gives_the_shipped_arithmetic(cat: Catalog, shared: Path) -> None:
    paths = sorted((shared / "facts" / "models").glob("*.yaml"))
    assert len(paths) == 41
    for path in paths:
        raw = yaml.safe_load(path.read_text())
        spec, ours = spec_from_hf_config(raw["config"], raw["name"]), cat.model(raw["name"])
        if spec.id == "gemma-3-27b":  # the copy read has 262144 rows and 163840 positions, the checkpoint not
            spec = spec.model_copy(update={"vocab_size": 262208, "max_context_tokens": 131072})
        assert count(spec).total == count(ours).total, spec.id
        assert count(spec).active == count(ours).active, spec.id
        assert PrecisionPlan.from_checkpoint(spec) == PrecisionPlan.from_checkpoint(ours), spec.id
        tokens = [1, 5000, 100_000]
        assert (
            kv_bytes_per_sequence(spec, "bf16", tokens).tolist() == kv_bytes_per_sequence(ours, "bf16", tokens).tolist()
        )
        assert spec.layer_order == ours.layer_order
        assert spec.max_context_tokens == ours.max_context_tokens


@pytest.mark.parametrize("name", CONFIGS)
def test_models_outside_the_catalogue_count_as_the_hub_does(name: str) -> None:
    assert count(spec_from_hf_config(CONFIGS[name], name)).total == pytest.approx(HUB_COUNTS[name], rel=1e-6)


def test_missing_keys_take_the_defaults_of_their_class() -> None:
    spec = spec_from_hf_config(LLAMA)
    attention = spec.attentions["full"]
    assert isinstance(attention, GqaAttention)
    assert (attention.kv_heads, attention.head_dim) == (32, 128)  # MHA, hidden / heads
    assert not spec.tie_word_embeddings
    assert count(spec).total == 6_738_415_616  # Llama 2 7B
    gemma = spec_from_hf_config(CONFIGS["gemma-3-4b"])
    assert gemma.vocab_size == 262208
    assert gemma.tie_word_embeddings
    assert gemma.attentions["window"].window_tokens == 1024  # type: ignore[union-attr]


def test_names_come_from_the_caller_or_the_config() -> None:
    assert spec_from_hf_config(LLAMA, "mine").id == "mine"
    named = spec_from_hf_config(changed(LLAMA, _name_or_path="meta-llama/Llama-2-7b-hf"))
    assert (named.id, named.hf_id) == ("llama-2-7b-hf", "meta-llama/Llama-2-7b-hf")
    assert spec_from_hf_config(LLAMA).id == "llama"


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "state_size": 128}, ["mamba2", "Mamba2For"]),
        ({"model_type": "rwkv", "attention_hidden_size": 2048}, ["rwkv"]),
        ({"model_type": "jamba", "attn_layer_period": 8}, ["jamba"]),
        ({"architectures": ["Unknown"]}, ["model_type"]),
        ({"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text"}}, ["model_type", "text_config"]),
        (changed(LLAMA, num_mamba_layers=4), ["num_mamba_layers"]),
        (changed(LLAMA, kv_lora_rank=512), ["kv_lora_rank"]),
        (changed(LLAMA, layer_types=["full_attention"] * 32), ["layer_types"]),
        (changed(LLAMA, hidden_size=...), ["hidden_size"]),
        (changed(LLAMA, hidden_size="4096"), ["hidden_size"]),
        (changed(LLAMA, num_key_value_heads=5), ["num_key_value_heads"]),
        (changed(LLAMA, num_attention_heads=33), ["head_dim"]),
        (changed(LLAMA, attention_bias="yes"), ["attention_bias"]),
        (changed(LLAMA, torch_dtype="int8"), ["torch_dtype"]),
        (changed(LLAMA, quantization_config={"quant_method": "bitsandbytes"}), ["quantization_config.quant_method"]),
        (changed(LLAMA, compression_config={"quant_method": "x"}), ["compression_config"]),
        (changed(LLAMA, quantization={"bits": 4}), ["quantization"]),
        (changed(CONFIGS["phi-2"], qk_layernorm=True), ["qk_layernorm"]),
        (changed(CONFIGS["qwen-7b-chat"], no_bias=False), ["no_bias"]),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_its_keys(config: dict[str, Any], keys: list[str]) -> None:
    with pytest.raises(UnsupportedArchitectureError) as caught:
        spec_from_hf_config(config)
    for key in keys:
        assert any(key in found for found in caught.value.keys), caught.value.keys
    assert "\n" not in str(caught.value)


def facts(shared: Path, name: str) -> dict[str, Any]:
    return yaml.safe_load((shared / "facts" / "models" / f"{name}.yaml").read_text())["config"]


@pytest.mark.parametrize(
    ("model", "changes", "key"),
    [
        ("gpt-oss-20b", {"layer_types": ["mamba"] * 24}, "layer_types: mamba"),
        ("gpt-oss-20b", {"layer_types": ["full_attention"]}, "layer_types"),
        ("deepseek-v3", {"index_topk": 2048}, "index_topk"),
        ("deepseek-v3", {"attention_bias": True}, "attention_bias"),
        ("deepseek-v3", {"num_key_value_heads": 8}, "num_key_value_heads"),
        ("deepseek-v3", {"topk_method": "magic"}, "topk_method"),
        ("minimax-m2", {"attn_type_list": [0, 1] * 31}, "attn_type_list"),
        ("minimax-m2", {"shared_intermediate_size": 512}, "shared_intermediate_size"),
        ("minimax-m2", {"qk_norm_type": "per_head"}, "qk_norm_type"),
        ("qwen3-next-80b-a3b", {"mamba_ssm_dtype": "float8"}, "mamba_ssm_dtype"),
        ("qwen3-235b-a22b", {"shared_expert_intermediate_size": 1024}, "shared_expert_intermediate_size"),
        ("mixtral-8x7b", {"num_shared_experts": 1}, "num_shared_experts"),
        ("qwen2.5-7b", {"use_sliding_window": True, "layer_types": ["x"] * 28}, "layer_types: x"),
        ("llama-4-scout", {"vision_config": {"model_type": "clip_vision_model"}}, "vision_config.model_type"),
    ],
)  # fmt: skip
def test_variants_of_known_models_are_refused_not_guessed(
    shared: Path, model: str, changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(UnsupportedArchitectureError) as caught:
        spec_from_hf_config(facts(shared, model) | changes)
    assert any(key in found for found in caught.value.keys), caught.value.keys


def test_windows_of_qwen_start_at_max_window_layers(shared: Path) -> None:
    config = facts(shared, "qwen2.5-7b") | {"use_sliding_window": True, "max_window_layers": 20, "sliding_window": 4096}
    spec = spec_from_hf_config(config)
    assert [g.count for g in spec.layers] == [20, 8]
    assert spec.attentions[spec.layers[1].attention].window_tokens == 4096  # type: ignore[union-attr]


def test_a_window_as_long_as_the_context_is_full_attention(shared: Path) -> None:
    config = facts(shared, "mistral-small-24b") | {"sliding_window": 32768}
    assert set(spec_from_hf_config(config).attentions) == {"full"}
    assert set(spec_from_hf_config(config | {"sliding_window": 4096}).attentions) == {"window"}


def test_llama_4_layers_may_be_listed(shared: Path) -> None:
    config = facts(shared, "llama-4-maverick")
    text = config["text_config"]
    text |= {"no_rope_layers": [1, 1, 1, 0] * 12, "moe_layers": list(range(1, 48, 2))}
    assert (
        spec_from_hf_config(config, "x").layer_order
        == spec_from_hf_config(facts(shared, "llama-4-maverick")).layer_order
    )
    text["no_rope_layers"] = [1, 0]
    with pytest.raises(UnsupportedArchitectureError, match="no_rope_layers"):
        spec_from_hf_config(config)


def test_minimax_says_why_no_mtp_is_counted(shared: Path) -> None:
    spec = spec_from_hf_config(facts(shared, "minimax-m2"))
    assert spec.mtp is None
    assert any("3 MTP modules" in note for note in spec.notes)


def test_every_architecture_has_defaults() -> None:
    from planner.catalog.hf_config import _defaults

    assert set(ARCHITECTURES) <= set(_defaults())


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), st.text(max_size=3),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(CONFIGS)), junk=JUNK)
def test_a_broken_config_is_refused_or_understood(data: st.DataObject, name: str, junk: object) -> None:
    config = copy.deepcopy(CONFIGS[name])
    part = data.draw(st.sampled_from([config, *(v for v in config.values() if isinstance(v, dict))]))
    part[data.draw(st.sampled_from(sorted(part)))] = junk
    with contextlib.suppress(InputError):
        count(spec_from_hf_config(config))


def test_importer_never_returns_an_unvalidated_specification() -> None:
    assert isinstance(spec_from_hf_config(LLAMA), ModelSpec)
    with pytest.raises(Exception, match="vocab_size"):
        spec_from_hf_config(changed(LLAMA, vocab_size=-1))


def test_code_that_comes_with_a_checkpoint_is_noticed() -> None:
    assert spec_from_hf_config(LLAMA).remote_code is None
    own = {"AutoConfig": "configuration_a.A", "AutoModelForCausalLM": "modeling_a.A", "AutoTokenizer": ["t.T", None]}
    found = spec_from_hf_config(changed(LLAMA, auto_map=own)).remote_code
    assert found is not None
    assert found.parts == ("config", "model", "tokenizer")

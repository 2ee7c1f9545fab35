"""What import-model says about a config.json, without network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.catalog import Catalog, load_model
from planner.cli import run
from planner.cli.catalog_cmd import attention_text

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}


def test_import_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, spec = tmp_path / "mine.json", tmp_path / "mine.yaml"
    config.write_text(json.dumps(LLAMA))
    assert run(["import-model", str(config), "--out", str(spec), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"]["total"] == facts["parameters"]["active"] == 8_030_261_248
    assert facts["attention"] == "gqa"
    assert facts["kv_bytes_per_token_bf16"] == 131072
    again = load_model(spec)
    assert again == load_model(config)
    assert run(["import-model", str(spec)]) == 0
    assert "8.03 B" in capsys.readouterr().out


def test_the_cache_of_a_windowed_model_is_told_for_both_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(Path(__file__).resolve().parents[2] / "model_specs" / "gemma-3-27b.yaml")
    assert run(["import-model", spec]) == 0
    assert "507,904 bytes per token, 81,920 once windows are full" in capsys.readouterr().out
    assert run(["import-model", spec, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kv_bytes_per_token_bf16_beyond_windows"] == 81920


def test_a_specification_is_written_under_the_ending_by_which_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, spec = tmp_path / "mine.json", tmp_path / "mine.txt"
    config.write_text(json.dumps(LLAMA))
    assert run(["import-model", str(config), "--out", str(spec)]) == 2
    assert "a file that ends in .yaml or .yml" in capsys.readouterr().err
    assert not spec.exists()


def test_an_unknown_architecture_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, spec = tmp_path / "config.json", tmp_path / "spec.yaml"
    config.write_text(json.dumps(LLAMA | {"architectures": ["RetNetForCausalLM"], "model_type": "retnet"}))
    assert run(["import-model", str(config), "--out", str(spec)]) == 2
    assert "retnet" in capsys.readouterr().err.lower()
    assert not spec.exists()


def test_attention_in_words(cat: Catalog) -> None:
    assert attention_text(cat.model("deepseek-v3")) == "mla"
    assert attention_text(cat.model("deepseek-v3.2")) == "mla (sparse)"
    assert attention_text(cat.model("qwen3-next-80b-a3b")) == "gqa+linear"
    assert attention_text(cat.model("gpt-oss-120b")) == "gqa+gqa (local)"


def test_an_overlay_folder_adds_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "nodes", "dgx-h100", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["entry"]
    from planner.scenario.safe_yaml import dump_yaml

    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "my-h100.yaml").write_text(dump_yaml(entry | {"id": "my-h100", "gpus": 4}))
    assert run(["catalog", "nodes", "my-h100", "--catalog", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["origin"] == "user"

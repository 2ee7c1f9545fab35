"""The budget from the command line, for a model or for a scenario."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def document(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict:
    assert run(["memory", *args, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_terms_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "deepseek-v3", "--accelerator", "h200-sxm", "--tp", "8")
    gib = found["memory_gib"]
    terms = ("weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin")
    assert sum(gib[t] for t in terms) == pytest.approx(gib["total"])
    assert gib["total"] == pytest.approx(gib["capacity"])
    assert found["kv_bytes_per_token"] == 70272
    assert found["fits"] is True


def test_what_does_not_fit_is_3_and_says_memory(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["memory", "llama-3.1-405b", "--accelerator", "h100-sxm"]
    assert run(args) == 3
    printed = capsys.readouterr()
    assert "does not fit" in printed.out
    assert "memory: llama-3.1-405b needs" in printed.err
    found = document(capsys, *args[1:], code=3)
    assert found["fits"] is False
    assert found["shortfall_gib"] == pytest.approx(found["memory_gib"]["total"] - found["memory_gib"]["capacity"])
    assert found["max_concurrency"] == 0


def test_a_scenario_brings_its_own_settings(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, str(EXAMPLES / "gpt-oss-120b-h100.yaml"), "--tp", "2")
    assert (found["model"], found["accelerator"], found["engine"]) == ("gpt-oss-120b", "h100-sxm", "vllm")
    other = document(capsys, str(EXAMPLES / "gpt-oss-120b-h100.yaml"), "--tp", "2", "--accelerator", "h200-sxm")
    assert other["memory_gib"]["capacity"] > found["memory_gib"]["capacity"]


def test_options_change_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    base = ("qwen3-32b", "--accelerator", "h100-sxm")
    plain = document(capsys, *base)
    small = document(capsys, *base, "--max-num-seqs", "16", "--max-num-batched-tokens", "2048")
    assert small["memory_gib"]["workspace"] < plain["memory_gib"]["workspace"]
    less = document(capsys, *base, "--gpu-memory-utilization", "0.9")
    assert less["memory_gib"]["kv"] < plain["memory_gib"]["kv"]
    halved = document(capsys, *base, "--kv", "fp8")
    assert halved["kv_bytes_per_token"] == pytest.approx(plain["kv_bytes_per_token"] / 2)
    quantised = document(capsys, *base, "--precision", "fp8")
    assert quantised["memory_gib"]["weights"] < 0.7 * plain["memory_gib"]["weights"]


@pytest.mark.parametrize(
    "args",
    [
        ("llama-3.1-405b", "--accelerator", "h100-sxm"),  # weights alone do not fit
        ("kimi-k2", "--accelerator", "h100-sxm", "--tp", "4", "--precision", "int4"),
        ("llama-3.3-70b", "--accelerator", "h100-sxm", "--tp", "2", "--tokens", "131072"),  # the cache does not fit
    ],
)
def test_what_is_needed_adds_up_where_it_does_not_fit(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, *args, code=3)
    gib = found["memory_gib"]
    terms = ("weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin")
    assert sum(gib[t] for t in terms) == pytest.approx(gib["total"])
    assert gib["total"] - gib["capacity"] == pytest.approx(found["shortfall_gib"])
    assert min(gib.values()) >= 0
    assert gib["kv"] * 2**30 == pytest.approx(found["kv_bytes_per_token"] * found["sequence_tokens"], rel=0.01)
    assert found["kv_tokens"] >= 0
    assert run(["memory", *args]) == 3
    printed = capsys.readouterr().out
    assert "missing" in printed
    assert "-" not in printed.split("missing")[1].split("KV cache")[0]


def test_a_sequence_longer_than_the_context_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["memory", "llama-3.3-70b", "--accelerator", "h100-sxm", "--tp", "8", "--tokens"]
    assert run([*args, "131072"]) == 0
    assert run([*args, "131073"]) == 2
    assert "at most 131,072" in capsys.readouterr().err


def test_the_length_is_the_models_longest_where_that_is_shorter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "gpt-oss-120b-h100.yaml").read_text()
    path = tmp_path / "short.yaml"
    path.write_text(text.replace("{name: vllm}", "{name: vllm, options: {max_model_len: 4096}}"))
    assert document(capsys, str(path), "--tp", "2")["sequence_tokens"] == 4096

"""The budget from the command line, for a model or for a scenario."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner import sheet
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


def test_tokens_of_a_windowed_model_do_not_contradict_its_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    """Gemma 3: 52 of 62 layers keep 1,024 tokens, so that ten long sequences fit where 149,000 tokens would in all."""
    args = ("gemma-3-27b", "--accelerator", "h100-sxm", "--tp", "2", "--tokens", "100000")
    found = document(capsys, *args)
    assert (found["kv_bytes_per_token"], found["kv_window_tokens"]) == (40960, 1024)
    room = found["max_concurrency"] * found["kv_bytes_per_sequence"]
    assert room == pytest.approx(found["memory_gib"]["kv"] * 2**30, rel=0.01)
    assert found["kv_bytes_per_sequence"] == sheet.kv_bytes_per_sequence("gemma-3-27b", 100000, tp=2)
    assert run(["memory", *args]) == 0
    (said,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("KV cache"))
    assert "40,960 bytes per token and rank beyond windows of 1,024 tokens; 9.8 sequences of 100,000 tokens" in said
    assert "If every layer kept every token, which is how vLLM counts, 149,000 tokens would have room." in said


def test_a_share_that_leaves_too_little_is_named_and_one_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """The cache would hold 160 of the sequences asked for: it is the rest that lacks room."""
    args = ["deepseek-r1", "--accelerator", "mi300x", "--engine", "sglang", "--attention-dp", "8"]
    asked = [*args, "--gpu-memory-utilization", "0.95"]
    assert run(["memory", *asked]) == 3
    printed = capsys.readouterr()
    assert "one sequence of 8,192 tokens would take 0.536 GiB" in " ".join(printed.out.split())
    assert "a share of 0.95 gives the KV cache 86.7 GiB" in printed.err
    assert "--gpu-memory-utilization 0.82 (mem_fraction_static) in place of 0.95 fits" in printed.err
    fitting = document(capsys, *asked, code=3)["share_that_fits"]
    assert document(capsys, *args, "--gpu-memory-utilization", str(fitting))["fits"]
    assert not document(capsys, *args, "--gpu-memory-utilization", str(fitting + 0.01), code=3)["fits"]


def test_a_share_too_small_for_the_sequence_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["llama-3.3-70b", "--accelerator", "h200-sxm", "--tp", "2", "--tokens", "100000"]
    assert run(["memory", *args, "--gpu-memory-utilization", "0.6"]) == 3
    said = capsys.readouterr().err
    assert "2.75 GiB are missing for one sequence of 100,000 tokens; --gpu-memory-utilization 0.62 in place of" in said
    assert document(capsys, *args, "--gpu-memory-utilization", "0.62")["fits"]
    assert document(capsys, *args, "--gpu-memory-utilization", "0.61", code=3)["share_that_fits"] == 0.62


def test_no_share_is_named_where_none_fits(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("llama-3.1-405b", "--accelerator", "h100-sxm")
    assert document(capsys, *args, code=3)["share_that_fits"] is None
    assert run(["memory", *args]) == 3
    assert "--gpu-memory-utilization" not in capsys.readouterr().err

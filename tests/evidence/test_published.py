"""Published points: stated with their layout or refused with the reason; the ratio stands beside each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.catalog import Catalog
from planner.errors import InputError
from planner.evidence.published import (
    FILES,
    command,
    compare_points,
    is_published,
    main,
    read_points,
    validate_published,
)
from planner.evidence.published_state import Statement, Unstated, state

FOLDER = Path(__file__).resolve().parents[2] / "measured" / "published"

DECODE: dict[str, Any] = {
    "id": "p",
    "source": "s",
    "model": "DeepSeek-V3",
    "weights_dtype": "fp8",
    "gpu": "H800",
    "gpus": 128,
    "nodes": 16,
    "engine": "DeepSeek in-house",
    "phase": "decode",
    "layout": {"tp": 1, "ep": 128},
    "isl": 4096,
    "batch_per_gpu": 128,
    "metrics": {"output_tok_per_s_per_node": 18598},
}


def test_a_point_is_stated_per_gpu() -> None:
    found = state(DECODE)
    assert isinstance(found, Statement)
    assert found.layout == {"tp": 1, "pp": 1, "attention_dp": 128, "moe_tp": 1, "ep": 128}
    assert found.figures == {"tok_per_s_per_gpu": 18598 / 8}
    assert found.two_batch
    assert found.notes


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"phase": "op"}, "operator"),
        ({"layout": {}}, "layout"),
        ({"gpu": "Abacus"}, "accelerator"),
        ({"weights_dtype": "int3"}, "precision"),
        ({"mtp": "1"}, "multi-token"),
        ({"isl": None}, "lengths"),
        ({"batch_per_gpu": None}, "batch"),
        ({"notes": "THEORETICAL bound"}, "not measured"),
        ({"metrics": {"gain_x": 2}}, "no figure"),
    ],
)
def test_what_cannot_be_stated_says_why(change: dict[str, Any], reason: str) -> None:
    found = state(DECODE | change)
    assert isinstance(found, Unstated)
    assert reason in found.reason


def test_tensorrt_counts_gpus_as_tp() -> None:
    entry = DECODE | {
        "gpu": "H200",
        "gpus": 8,
        "engine": "TensorRT-LLM",
        "phase": "agg",
        "layout": {"tp": 8, "ep": 8, "dp": 8},
        "osl": 2048,
        "concurrency": 1024,
        "metrics": {"output_tok_per_s_total": 11489},
    }
    found = state(entry)
    assert isinstance(found, Statement)
    assert (found.layout["tp"], found.layout["attention_dp"], found.layout["ep"]) == (1, 8, 8)


@pytest.mark.parametrize(
    ("source", "notes", "bench"),
    [
        ("https://github.com/SemiAnalysisAI/InferenceX/issues/870", "", "inferencex"),
        ("a blog", "150 requests, lengths +-15%", "mixed"),
        ("a blog", "", "other"),
    ],
)
def test_the_client_is_read_from_source_and_notes(source: str, notes: str, bench: str) -> None:
    agg = {"phase": "agg", "engine": "vLLM", "gpu": "H100", "layout": {}, "gpus": 1, "nodes": 1, "osl": 100}
    entry = DECODE | agg | {"concurrency": 8, "metrics": {"ttft_ms": 1.0}, "source": source, "notes": notes}
    found = state(entry)
    assert isinstance(found, Statement)
    assert found.bench == bench


def test_prompts_of_mixed_lengths_do_not_wait_for_each_other(cat: Catalog) -> None:
    """vLLM's FP8 cache post (Llama-3.1-8B, 20,000 tokens, 8 in flight): 764 ms is what one prompt takes."""
    ratios = {
        p["id"]: p["ratio"]
        for p in validate_published(read_points(FOLDER / "e2e_vllm.yaml"), cat)["points"]
        if p["figure"] == "ttft_ms"
    }
    assert 0.7 <= ratios["vllm_fp8kv_Llama-3.1-8B_bf1"] <= 1.5
    assert 0.7 <= ratios["vllm_fp8kv_gpt-oss-20b_bf1"] <= 1.6


@pytest.mark.parametrize("name", FILES)
def test_every_point_is_predicted_or_counted(cat: Catalog, name: str) -> None:
    points = read_points(FOLDER / name)
    found, left = compare_points(points, cat)
    assert {c.id for c in found} | {u.id for u in left} == {p["id"] for p in points}
    assert all(c.predicted > 0 for c in found)


def test_deepseek_is_near(cat: Catalog) -> None:
    """DeepSeek's own profile: decode EP128 at 2,325 and prefill EP32 at 7,839 tokens/s per GPU."""
    report = validate_published(read_points(FOLDER / "e2e_deepseek.yaml"), cat)
    ratios = {p["id"]: p["ratio"] for p in report["points"]}
    assert 0.6 <= ratios["ds_profile_decode"] <= 1.5
    assert 0.5 <= ratios["ds_profile_prefill"] <= 1.6


def test_recognition_and_page(tmp_path: Path) -> None:
    assert is_published((FOLDER / "e2e_vllm.yaml").read_text())
    assert not is_published("- id: x\n  colour: red\n")
    path = tmp_path / "e2e_deepseek.yaml"
    path.write_text("- id: x\n  phase: decode\n  metrics: {}\n")
    assert "0 of 1 points stated" in main(tmp_path)
    path.write_text("a: 1\n")
    with pytest.raises(InputError, match="list of points"):
        read_points(path)
    with pytest.raises(InputError, match="folder"):
        main(tmp_path / "none")


def test_deepseeks_day_6_decode_is_stated_with_its_mean_context(cat: Catalog) -> None:
    points = [p for p in read_points(FOLDER / "e2e_deepseek.yaml") if p["id"].startswith("ds_day6")]
    found, left = compare_points(points, cat)
    by_id = {c.id: c for c in found}
    decode = by_id["ds_day6_decode"]
    assert "EP144 +32, 4989 tokens, 88 seq/GPU" in decode.subject
    assert decode.published == 14800 / 8
    assert 0.5 < decode.ratio < 2.0
    assert any("mean KV length" in note for note in decode.notes)
    assert "EP32 +32" in by_id["ds_day6_prefill"].subject
    assert [u.id for u in left] == ["ds_day6_fleet"]


def test_experts_that_do_not_divide_are_filled_up_aloud(cat: Catalog) -> None:
    wide = DECODE | {"gpus": 72, "nodes": 9, "layout": {"ep": 72, "dp": 72}}
    (filled,), _ = compare_points([wide], cat)
    assert "EP72 +32" in filled.subject
    assert "32 redundant experts, so that 256 divide over EP72" in filled.notes
    (even,), _ = compare_points([DECODE], cat)
    assert "+" not in even.subject


def test_two_pools_with_a_known_layout_are_a_loop_of_their_own(cat: Catalog) -> None:
    point = next(p for p in read_points(FOLDER / "e2e_sglang.yaml") if p["id"] == "sgl5490_r1_1p1d")
    found, _ = compare_points([point], cat)
    assert {c.figure for c in found} == {"ttft_ms", "tpot_ms", "output_tok_per_s"}
    assert "1 prefill + 1 decode" in found[0].subject


@pytest.mark.parametrize(
    ("notes", "reason"),
    [("1000 prompts at once", "one wave of prompts"), ("decode context parallel 8", "decode context parallelism")],
)
def test_what_a_steady_state_cannot_say_has_a_reason(notes: str, reason: str) -> None:
    found = state(DECODE | {"phase": "agg", "osl": 100, "concurrency": 8, "notes": notes})
    assert isinstance(found, Unstated)
    assert found.reason.startswith(reason)


def test_every_point_with_a_layout_is_predicted_or_says_why_not(cat: Catalog) -> None:
    for name in FILES:
        points = read_points(FOLDER / name)
        found, left = compare_points(points, cat)
        assert {c.id for c in found} | {u.id for u in left} == {p["id"] for p in points}
        assert all(u.reason for u in left)


def test_a_folder_without_points_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command([str(tmp_path / "none")]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("folder: got")
    assert told.err.count("\n") == 1


def test_a_narrow_cache_is_predicted_as_one(cat: Catalog) -> None:
    points = {p["id"]: p for p in read_points(FOLDER / "e2e_vllm.yaml")}
    pair = [points["vllm_fp8kv_Llama-3.1-8B_bf1"], points["vllm_fp8kv_Llama-3.1-8B_fp8"]]
    found, _ = compare_points(pair, cat)
    wide, narrow = (c.predicted for c in found if c.figure == "output_tok_per_s")
    assert 1.02 < narrow / wide < 1.4


def test_a_queue_that_grew_is_not_a_steady_loop(cat: Catalog) -> None:
    point = next(p for p in read_points(FOLDER / "e2e_vllm.yaml") if p["id"] == "recipes_k2_h800_tp8pp2")
    found, (left,) = compare_points([point], cat)
    assert not found
    assert "warm-up" in left.reason
    assert "steady" in left.reason

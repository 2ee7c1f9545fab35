"""Rules by which rows of runs are read: formats, kernels of a version, requests beyond the batch."""

from __future__ import annotations

import numpy as np

from planner.catalog import catalog
from planner.evidence.e2e_calibrate import shipped_coefficients
from planner.evidence.run_predict import EXPERTS, decode_step_s, predict
from planner.evidence.run_reading import precision_of, reading_rules
from planner.evidence.run_terms import run_terms
from planner.evidence.runs import runs_from_rows

ROW: dict[str, str | float | None] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "h100-sxm",
    "engine": "trtllm",
    "bench": "other",
    "input_tokens": 1024.0,
    "output_tokens": 512.0,
    "concurrency": 8.0,
    "tp": 1.0,
    "ttft_ms": 550.0,
    "tpot_ms": 7.4,
}


def test_an_fp8_run_of_a_block_scaled_checkpoint_is_block_scaled() -> None:
    rules, spec = reading_rules(), catalog().model("qwen3-235b-a22b")
    named = precision_of(spec, "fp8", "fp8", "bf16", rules, "Qwen/Qwen3-235B-A22B-FP8")
    assert (named.attention, named.routed_experts) == ("fp8_block", "fp8_block")
    plain = precision_of(spec, "fp8", "fp8", "bf16", rules, "Qwen/Qwen3-235B-A22B")
    assert plain.routed_experts == "fp8_channel"


def test_versions_with_other_expert_kernels_are_told_apart() -> None:
    rules = reading_rules()
    assert rules.expert_kernel("vllm", "0.12.0", "hopper", "fp8_block") == "moe_deepep_prefill"
    assert rules.expert_kernel("vllm", "0.18.0", "hopper", "fp8_block") == "moe"
    assert rules.expert_kernel("vllm", "0.12.0", "blackwell", "fp8_block") == "moe"
    assert rules.expert_kernel("sglang", "0.12.0", "hopper", "fp8_block") == "moe"


def test_a_run_without_a_format_has_one_request_waiting_and_no_groups() -> None:
    unstated, stated = (run_terms(runs_from_rows([ROW | {"linear_precision": p}]), catalog())[0] for p in ("", "bf16"))
    assert unstated.concurrency[0] - unstated.slots[0] == 1.0
    assert stated.concurrency[0] == stated.slots[0] == 8.0
    assert unstated.group_prompts[0] < stated.group_prompts[0]


def test_contiguous_experts_of_old_versions_carry_no_factor() -> None:
    row = ROW | {
        "model": "Qwen/Qwen3-235B-A22B-FP8",
        "gpu": "h200-sxm",
        "engine": "vllm",
        "tp": 4.0,
        "linear_precision": "fp8",
        "moe_precision": "fp8",
    }
    old, new = (run_terms(runs_from_rows([row | {"engine_version": v}]), catalog())[0] for v in ("0.12.0", "0.24.0"))
    assert np.all(old.decode.operators[:, EXPERTS] == 0.0)
    assert old.decode.other[0] > new.decode.other[0]
    assert np.any(new.decode.operators[:, EXPERTS] > 0.0)
    assert new.decode.expert_stream[0] > 0.0


def test_vendor_runs_of_vllm_show_decode_steps_alone() -> None:
    row = ROW | {
        "engine": "vllm",
        "bench": "vendor",
        "gpu": "h200-sxm",
        "linear_precision": "fp8",
        "input_tokens": 4000.0,
    }
    runs = runs_from_rows([row | {"output_tokens": tokens} for tokens in (100.0, 2000.0)])
    terms, _ = run_terms(runs, catalog())
    coefficients = shipped_coefficients(terms)
    loop = predict(terms, coefficients)
    np.testing.assert_allclose(loop.tpot_s, decode_step_s(terms.decode, coefficients))
    assert np.all(terms.disaggregated)
    mixed, _ = run_terms(runs_from_rows([row | {"bench": "inferencex", "output_tokens": 100.0}]), catalog())
    assert not mixed.disaggregated[0]
    assert predict(mixed, shipped_coefficients(mixed)).tpot_s[0] > loop.tpot_s[0]

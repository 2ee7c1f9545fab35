"""Records become runs; what is missing is named; what is not comparable says why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from evidence.importers import samples

from planner.catalog import Catalog
from planner.errors import InputError, UnknownNameError
from planner.evidence.importers import read_results, results_of
from planner.evidence.importers.names import gpu_id, precision_word
from planner.evidence.importers.report import validate_results
from planner.evidence.importers.to_runs import Given, to_runs


def test_missing_facts_are_named_with_their_options(cat: Catalog) -> None:
    records = results_of(samples.text(samples.INFERENCE_PERF)).records
    with pytest.raises(InputError) as caught:
        to_runs(records, Given(), cat)
    for option in ("--model", "--gpu", "--engine", "--tp"):
        assert option in str(caught.value)


def test_options_complete_a_run(cat: Catalog) -> None:
    records = results_of(samples.text(samples.VLLM)).records
    runs = to_runs(records, Given(gpu="H200", tp=4), cat).runs
    assert (runs.text["gpu"], runs.text["engine"], runs.text["speculative"]) == (["h200-sxm"], ["vllm"], ["none"])
    assert (runs["tp"][0], runs["moe_tp"][0], runs["concurrency"][0]) == (4, 4, 16)
    assert runs["ttft_ms"][0] == pytest.approx(200.0)


def test_throughput_is_compared_where_the_client_kept_requests_in_flight(cat: Catalog) -> None:
    record = samples.VLLM | {"output_throughput": 777.0}
    converted = to_runs(results_of(samples.text(record)).records, Given(gpu="H200", tp=4), cat)
    assert converted.runs["output_tokens_per_s"][0] == 777.0
    assert any("start and end" in note for note in converted.assumptions)
    # At a given rate the throughput says how many asked.
    converted = to_runs(results_of(samples.LLMD).records, Given(gpu="h200", tp=4), cat)
    assert np.isnan(converted.runs["output_tokens_per_s"][0])


def test_the_file_is_overruled_aloud(cat: Catalog) -> None:
    records = results_of(samples.text(samples.INFERENCEX)).records
    converted = to_runs(records, Given(gpu="h100-sxm"), cat)
    assert converted.runs.text["gpu"] == ["h100-sxm"]
    assert "in place of the file's h200-cw" in converted.assumptions[0]


def test_a_rate_gives_no_closed_loop_ttft(cat: Catalog) -> None:
    records = results_of(samples.LLMD).records
    converted = to_runs(records, Given(gpu="h200", tp=4), cat)
    assert np.isnan(converted.runs["ttft_ms"][0])
    assert converted.runs["concurrency"][0] == pytest.approx(10.0)
    assert any("Little" in note for note in converted.assumptions)


def test_reused_prefixes_are_not_compared(cat: Catalog) -> None:
    agents = samples.INFERENCEX | {"scenario_type": "agentic-coding"}
    cached = samples.INFERENCEX | {"theoretical_cache_hit_rate": 0.9}
    converted = to_runs(results_of(samples.text([agents, cached, samples.INFERENCEX])).records, Given(), cat)
    assert converted.positions == (None, None, 0)
    assert "agentic-coding" in converted.reasons[0]
    assert "prefix cache" in converted.reasons[1]


def test_precisions(cat: Catalog) -> None:
    runs = to_runs(results_of(samples.text(samples.INFERENCEX | {"precision": "mxfp4"})).records, Given(), cat).runs
    assert (runs.text["linear_precision"], runs.text["moe_precision"]) == ([""], ["mxfp4"])
    assert precision_word(None, "nvidia/Kimi-K2.5-NVFP4") == "nvfp4"
    assert precision_word(None, "meta-llama/Llama-3.1-8B") == ""
    with pytest.raises(UnknownNameError):
        precision_word("fp3", None)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("b200-RUNNER", "b200-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("A100-40GB", "a100-40g-sxm"),
        ("AMD Instinct MI355X", "mi355x"),
        ("h20-96g", "h20-96g"),
    ],
)
def test_accelerator_names(cat: Catalog, name: str, found: str) -> None:
    assert gpu_id(name, cat.accelerator_ids()) == found


def test_accelerator_names_that_fit_several_or_none(cat: Catalog) -> None:
    with pytest.raises(InputError, match="h20-141g, h20-96g"):
        gpu_id("NVIDIA H20", cat.accelerator_ids())
    with pytest.raises(UnknownNameError):
        gpu_id("abacus", cat.accelerator_ids())


def test_report_keeps_every_record(cat: Catalog) -> None:
    agents = samples.INFERENCEX | {"scenario_type": "agentic-coding"}
    report = validate_results(results_of(samples.text([agents, samples.INFERENCEX])), Given(), cat)
    assert (report["rows"], report["predicted"], len(report["predictions"])) == (2, 1, 2)
    assert report["predictions"][0]["reason"]
    assert report["predictions"][1]["predicted_tpot_ms"] > 0
    nothing = validate_results(results_of(samples.text(agents)), Given(), cat)
    assert (nothing["predicted"], nothing["metrics"]) == (0, {})


REAL = {
    "aiperf": ("GenAI-Perf / AIPerf", 1),
    "genai_perf": ("GenAI-Perf / AIPerf", 1),
    "guidellm_v0.3": ("GuideLLM", 1),
    "guidellm_v0.8": ("GuideLLM", 2),
    "inference_perf": ("inference-perf", 1),
    "inferencex": ("InferenceX", 22),
    "llmd": ("llm-d-benchmark", 1),
    "sglang": ("sglang.bench_serving", 1),
    "trtllm": ("trtllm-bench", 1),
    "vllm_bench_console": ("vllm bench serve (printed table)", 1),
    "vllm_bench_serve": ("vllm bench serve", 1),
}


@pytest.mark.parametrize("start", REAL)
def test_real_files_load(shared: Path, start: str) -> None:
    (path,) = [p for p in (shared / "cases" / "bench").iterdir() if p.name.startswith(start)]
    found = read_results(path)
    assert (found.format, len(found.evidence)) == REAL[start]
    assert all(r.latency for r in found.evidence)
    told = " ".join(w for r in found.records for w in r.warnings)
    expected = {
        "genai_perf": "2566 output tokens were counted where 500 were asked for",
        "llmd": "281 output tokens were counted where 250",
        "sglang": "the tag says 1 prefill and 4 decode",
        "inference_perf": "contradicts request time",
        "guidellm_v0.3": "hardly varies",
        "vllm_bench_console": "offered 1 requests/s, served 0.06",
    }
    assert expected.get(start, "") in told


def test_no_file_of_the_collection_is_left_out(shared: Path) -> None:
    names = [p.name for p in (shared / "cases" / "bench").iterdir()]
    assert all(any(n.startswith(start) for start in REAL) for n in names)


def test_ttft_is_compared_only_where_requests_were_kept_in_flight(cat: Catalog) -> None:
    given = Given(model="openai/gpt-oss-120b", gpu="h200", engine="vllm", tp=1)
    converted = to_runs(results_of(samples.text(samples.INFERENCE_PERF)).records, given, cat)
    assert np.isnan(converted.runs["ttft_ms"][0])
    assert any("does not say how many requests were kept in flight" in note for note in converted.assumptions)
    at_once = samples.VLLM | {"max_concurrency": None, "request_rate": "inf"}
    converted = to_runs(results_of(samples.text(at_once)).records, given, cat)
    assert np.isnan(converted.runs["ttft_ms"][0])
    assert any(note.startswith("all requests came at once") for note in converted.assumptions)


def test_one_worker_cannot_stand_for_two_pools(cat: Catalog, shared: Path) -> None:
    (path,) = (shared / "cases" / "bench").glob("llmd_benchmark_report_pd_*.yaml")
    imported = read_results(path)
    converted = to_runs(imported.records, Given(gpu="h200", tp=1), cat)
    assert len(converted.runs) == 0
    assert "both pools" in converted.reasons[0]
    assert any("two pools" in w for w in imported.records[0].warnings)


def test_what_a_table_does_not_say_is_told_once(cat: Catalog) -> None:
    header = "model,gpu,engine,input_tokens,output_tokens,concurrency,tp,kv_precision,ttft_ms,tpot_ms\n"
    imported = results_of(header + "Qwen/Qwen3-32B,h200-sxm,vllm,1000,500,4,2,fp8,90,nan\n")
    report = validate_results(imported, Given(gpu="h200-sxm"), cat)
    assert [a for a in report["assumptions"] if "precision" in a] == [
        "precision taken as the checkpoint's in 1 of 1 rows that do not say"
    ]
    assert report["warnings"] == {"tpot_ms of nan: read as not measured": 1}
    assert to_runs(imported.records, Given(), cat).runs.text["kv_precision"] == ["fp8"]

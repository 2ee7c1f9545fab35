"""Start-up logs: the engine is recognised, its terms are read, the budget stands beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog import Catalog
from planner.errors import InputError, UnknownNameError
from planner.evidence.importers.to_runs import Given
from planner.evidence.log_report import lines, validate_log
from planner.evidence.logs import log_engine, parse_log, read_log

VLLM = """(APIServer pid=1) INFO [utils.py:278] non-default args: {'model': 'Qwen/Qwen3-32B', 'tensor_parallel_size': 2,
(APIServer pid=1) INFO [scheduler.py:239] Chunked prefill is enabled with max_num_batched_tokens=8192.
(EngineCore pid=2) INFO [core.py:112] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-32B', \
dtype=torch.bfloat16, max_seq_len=40960, tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, \
quantization=None, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda
(Worker_TP0 pid=3) INFO [gpu_model_runner.py:1] Model loading took 30.59 GiB memory and 10.0 seconds
(Worker_TP1 pid=4) INFO [gpu_model_runner.py:1] Model loading took 30.59 GiB memory and 10.0 seconds
(Worker_TP0 pid=3) INFO [gpu_worker.py:466] Available KV cache memory: 36.50 GiB
(Worker_TP1 pid=4) INFO [gpu_worker.py:466] Available KV cache memory: 36.40 GiB
(EngineCore pid=2) INFO [kv_cache_utils.py:1733] GPU KV cache size: 298,144 tokens
(EngineCore pid=2) INFO [kv_cache_utils.py:1734] Maximum concurrency for 40,960 tokens per request: 7.28x
(Worker_TP0 pid=3) INFO [gpu_model_runner.py:2] Graph capturing finished in 20 secs, took 0.80 GiB
"""

OLD_VLLM = """INFO vLLM API server version 0.6.4
INFO worker.py] the current vLLM instance can use total_gpu_memory (23.69GiB) x gpu_memory_utilization (0.90) = 21.32GiB
model weights take 14.99GiB; non_torch_memory takes 0.07GiB; PyTorch activation peak memory takes 2.45GiB; the rest of \
the memory reserved for KV Cache is 3.81GiB.
"""

REFUSED = VLLM.split("(Worker_TP0 pid=3) INFO [gpu_worker")[0] + (
    "ValueError: To serve at least one request with the models's max seq len (262144), (62.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (48.66 GiB). Based on the available memory, the estimated "
    "maximum model length is 205728.\n"
)

SGLANG = """[2026] server_args=ServerArgs(model_path='Qwen/Qwen3-32B', quantization=None, kv_cache_dtype='auto', \
mem_fraction_static=0.88, tp_size=2, pp_size=1, dp_size=1, chunked_prefill_size=8192)
[2026 TP0] Load weight begin. avail mem=78.50 GB
[2026 TP0] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=47.80 GB, mem usage=30.70 GB.
[2026 TP0] KV Cache is allocated. #tokens: 313000, K size: 19.10 GB, V size: 19.10 GB
[2026 TP0] Capture cuda graph end. Time elapsed: 20 s. mem usage=0.50 GB. avail mem=8.00 GB.
[2026 TP0] max_total_num_tokens=313000, chunked_prefill_size=8192, max_running_requests=512, context_len=40960
"""

TRTLLM = """[TensorRT-LLM] TensorRT LLM version: 1.1.0
/cache/models--Qwen--Qwen3-32B/snapshots/abc
[TRT-LLM] [I] Use 61.03 GB for model weights.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 2.00 GiB for max tokens in paged KV cache (8192).
[TRT-LLM] [I] max_seq_len=8192, max_num_requests=256, max_num_tokens=8192, max_batch_size=256
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 60.00 GiB for max tokens in paged KV cache (245760).
"""


def test_vllm_terms_of_the_tightest_rank() -> None:
    log = parse_log(VLLM, "a.log")
    assert log.engine == "vllm"
    assert log.terms_gib == {"weights": 30.59, "kv": 36.4, "graphs": 0.8}
    assert (log.row["model"], log.row["tp"], log.row["engine_version"]) == ("Qwen/Qwen3-32B", "2", "0.19.0")
    assert (log.row["kv_cache_tokens"], log.row["failed"], log.refusal) == ("298144.0", "false", "")


def test_older_vllm_states_all_its_terms() -> None:
    log = parse_log(OLD_VLLM, "a.log")
    assert log.terms_gib == {"weights": 14.99, "activation": 2.45, "non_torch": 0.07, "kv": 3.81}
    assert (log.row["gpu_mem_gib"], log.row["gpu_memory_utilization"]) == ("23.69", "0.90")


def test_a_refusal_is_recognised_with_what_was_needed() -> None:
    log = parse_log(REFUSED, "a.log")
    assert log.refusal.startswith("To serve at least one request")
    assert (log.terms_gib["kv_needed"], log.terms_gib["kv"]) == (62.0, 48.66)
    assert log.row["failed"] == "true"


def test_sglang_and_its_own_rule() -> None:
    log = parse_log(SGLANG, "a.log")
    assert log.terms_gib["kv"] == pytest.approx(38.2)
    assert log.row["gpu_memory_utilization"] == "0.88"
    assert "gives 38.38 GiB" in log.notes[0]


def test_trtllm_counts_the_last_cache() -> None:
    log = parse_log(TRTLLM, "a.log")
    assert (log.terms_gib["kv"], log.row["kv_cache_tokens"]) == (60.0, "245760")
    assert log.row["model"] == "Qwen/Qwen3-32B"
    assert "was for profiling" in log.notes[0]


@pytest.mark.parametrize("text", ["", "hello", "INFO starting\n"])
def test_other_texts_are_no_logs(text: str) -> None:
    assert log_engine(text) is None
    with pytest.raises(InputError):
        parse_log(text, "a.log")


def test_a_log_that_stops_early_says_so() -> None:
    with pytest.raises(InputError, match="reaches"):
        parse_log("(APIServer pid=1) INFO hello", "a.log")


@pytest.mark.parametrize("text", [VLLM, SGLANG])
def test_budget_beside_the_log(cat: Catalog, text: str) -> None:
    report = validate_log(parse_log(text, "a.log"), Given(gpu="h100"), cat)
    assert report["predicted"] == 1
    terms = {t["term"]: t for t in report["terms"]}
    assert abs(terms["weights"]["difference"]) < 0.5
    assert abs(terms["KV cache"]["difference"]) < 3.0
    assert any(line[0] == "KV tokens" for line in lines(report))


def test_without_the_accelerator_only_weights_are_compared(cat: Catalog) -> None:
    report = validate_log(parse_log(VLLM, "a.log"), Given(), cat)
    terms = {t["term"]: t for t in report["terms"]}
    assert terms["weights"]["predicted"] is not None
    assert "KV cache" not in terms
    assert "--gpu" in report["notes"][0]
    with pytest.raises(UnknownNameError):
        validate_log(parse_log(VLLM, "a.log"), Given(gpu="abacus"), cat)


def test_real_logs(shared: Path, cat: Catalog) -> None:
    logs = {p.name.split("_")[0] + p.name.split("_")[1]: read_log(p) for p in (shared / "cases" / "logs").iterdir()}
    assert {k: v.engine for k, v in logs.items()} == {
        "sglangglm5.1": "sglang",
        "trtllm1.1.0": "trtllm",
        "vllm0.22.0": "vllm",
        "vllm0.25.1": "vllm",
    }
    assert logs["trtllm1.1.0"].terms_gib["kv"] == 39.26
    assert any("gives 39.26 GiB" in n for n in logs["trtllm1.1.0"].notes)
    assert any("gives 37.74 GiB" in n for n in logs["sglangglm5.1"].notes)
    assert logs["vllm0.25.1"].refusal == "No available memory for the cache blocks"
    report = validate_log(logs["vllm0.22.0"], Given(gpu="b200"), cat)
    terms = {t["term"]: t for t in report["terms"]}
    assert terms["weights"]["predicted"] == pytest.approx(139.53, rel=0.01)
    assert terms["KV cache"]["predicted"] == pytest.approx(17.16, rel=0.05)
    assert report["tokens"]["predicted"] == pytest.approx(524_480, rel=0.05)

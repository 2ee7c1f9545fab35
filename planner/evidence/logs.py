"""Start-up logs of vLLM, SGLang and TensorRT-LLM as rows of a memory table, each figure with its line.

The engines print their memory terms once per rank; the rank with the least cache decides. Sources: the wording of
vLLM 0.6 to 0.25 (gpu_worker.py, kv_cache_utils.py), SGLang 0.4 to 0.5 (model_runner.py, memory pools) and TensorRT-LLM
0.17 to 1.2 (py_executor creation, KV cache manager). SGLang's GB are 2^30 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.errors import InputError
from planner.scenario.load import read_text
from planner.units import MIB

MAX_LOG_BYTES = 64 * MIB
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"


@dataclass(frozen=True)
class StartupLog:
    """``row`` has the columns of measured/memory_runs.csv; ``terms_gib`` everything the log states in GiB."""

    engine: str
    row: Mapping[str, str]
    terms_gib: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: str = ""
    """The engine's own words where it did not start for lack of memory."""


@dataclass
class _Found:
    """What a parser collects: facts about the launch, terms in GiB, remarks."""

    facts: dict[str, Any] = field(default_factory=dict)
    terms: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refusal: str = ""


def read_log(path: Path) -> StartupLog:
    """The memory profile in a log file. Raises InputError where it is no start-up log of a known engine."""
    return parse_log(read_text(path, MAX_LOG_BYTES), path.name)


def log_engine(text: str) -> str | None:
    """Which engine wrote a log, by words that only it prints; None where none did."""
    return next((name for name, (pattern, _) in PARSERS.items() if pattern.search(text)), None)


def parse_log(text: str, name: str) -> StartupLog:
    """The memory profile in a log's text."""
    engine = log_engine(text)
    if engine is None:
        raise InputError(name, text[:40], f"a start-up log of {', '.join(PARSERS)}")
    found = PARSERS[engine][1](text)
    if not found.terms and not found.refusal:
        raise InputError(name, engine, "a log that reaches the engine's memory figures")
    row = {"run_id": name, **found.facts, **_columns(found)}
    return StartupLog(
        engine,
        {k: str(v) for k, v in row.items() if v is not None},
        found.terms,
        tuple(found.notes),
        found.refusal,
    )


def _columns(found: _Found) -> dict[str, Any]:
    """Terms that a memory table has, under its names."""
    names = {
        "weights": "weights_gib",
        "activation": "peak_activation_gib",
        "non_torch": "non_torch_gib",
        "kv": "available_kv_gib",
    }
    out: dict[str, Any] = {column: found.terms.get(term) for term, column in names.items()}
    out["failed"] = "true" if found.refusal else "false"
    out["failure_reason"] = found.refusal and f"no KV room: {found.refusal}"
    return out


def numbers(pattern: str, text: str) -> list[float]:
    """All numbers that a pattern with :data:`NUMBER` in it captures, in order."""
    return [float(m.replace(",", "")) for m in re.findall(pattern, text)]


def _largest(pattern: str, text: str) -> float | None:
    return max(numbers(pattern, text), default=None)


def _smallest(pattern: str, text: str) -> float | None:
    return min(numbers(pattern, text), default=None)


def _word(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


def _put(store: dict[str, float], name: str, value: float | None) -> None:
    if value is not None:
        store[name] = value


_VLLM_REFUSALS = (
    r"(No available memory for the cache blocks)",
    r"(To serve at least one request with the models?'s max seq len[^\n]*)",
    r"(The model's max seq len[^\n]*is larger than the maximum number of tokens that can be stored[^\n]*)",
    r"(CUDA out of memory[^\n]{0,160})",
)


def _vllm(text: str) -> _Found:
    out = _Found()
    given = _word(r"non-default args: (\{.*\})", text) or ""
    config = _word(r"Initializing a V\d LLM engine \([^)]*\) with config: (.*)", text) or text
    option = lambda name: _word(rf"'{name}': ([^,}}]+)", given)  # noqa: E731
    setting = lambda name: _word(rf"\b{name}=([^,\s]+)", config)  # noqa: E731
    path = _word(r"config: model='([^']+)'", text) or _word(r"'model': '([^']+)'", given)
    kv = setting("kv_cache_dtype")
    out.facts = {
        "model": _checkpoint(path),
        "engine_version": _word(r"LLM engine \(v([\d.]+)", text) or _word(r"vLLM API server version ([\d.]+)", text),
        "tp": setting("tensor_parallel_size") or option("tensor_parallel_size"),
        "pp": setting("pipeline_parallel_size"),
        "dp": setting("data_parallel_size"),
        "max_model_len": setting("max_seq_len"),
        "dtype": (setting("dtype") or "").removeprefix("torch.") or None,
        "kv_cache_dtype": kv.strip("'") if kv else None,
        "quantization": _quantisation(setting("quantization")),
        "gpu_memory_utilization": option("gpu_memory_utilization")
        or _word(rf"gpu_memory_utilization \({NUMBER}\)", text),
        "max_num_seqs": option("max_num_seqs"),
        "max_num_batched_tokens": _word(r"max_num_batched_tokens=(\d+)", text),
        "enforce_eager": (setting("enforce_eager") or "").lower() or None,
        "gpu_mem_gib": _word(rf"total_gpu_memory \({NUMBER}GiB\)", text),
    }
    _put(
        out.terms,
        "weights",
        _largest(rf"(?:Model loading took|model weights took|model weights take) {NUMBER} ?Gi?B", text),
    )
    _put(out.terms, "activation", _largest(rf"activation peak memory takes {NUMBER}GiB", text))
    _put(out.terms, "non_torch", _largest(rf"non_torch_memory takes {NUMBER}GiB", text))
    _put(out.terms, "kv", _smallest(rf"Available KV cache memory: {NUMBER} GiB", text))
    _put(out.terms, "kv", _smallest(rf"reserved for KV Cache is {NUMBER}GiB", text) if "kv" not in out.terms else None)
    _put(out.terms, "graphs", _largest(rf"Graph capturing finished in [\d.]+ secs?, took {NUMBER} Gi?B", text))
    _put(out.terms, "graphs_estimated", _largest(rf"Estimated CUDA graph memory: {NUMBER} GiB", text))
    out.facts["kv_cache_tokens"] = _smallest(rf"GPU KV cache size: {NUMBER} tokens", text)
    out.facts["max_concurrency"] = _smallest(rf"Maximum concurrency for [\d,]+ tokens per request: {NUMBER}x", text)
    if "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0" in text:
        out.facts["graphs_outside"] = "true"
        out.notes.append("CUDA graphs were kept out of the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0)")
    if re.search(r"cpu_worker\.py|CPU_ATTN", text):
        out.facts["backend"] = "cpu"
        out.notes.append("the CPU backend wrote this log: no accelerator's memory was shared out")
    out.refusal = next((m[1] for p in _VLLM_REFUSALS if (m := re.search(p, text))), "")
    needed = re.search(rf"{NUMBER} GiB KV cache is needed[^\n]*available KV cache memory \({NUMBER} GiB\)", text)
    if needed:
        out.terms |= {"kv_needed": float(needed[1].replace(",", "")), "kv": float(needed[2].replace(",", ""))}
    return out


def _sglang(text: str) -> _Found:
    out = _Found()
    arguments = _word(r"server_args=ServerArgs\((.*)", text) or ""
    option = lambda name: (_word(rf"\b{name}=('[^']*'|[^,)\s]+)", arguments) or "").strip("'")  # noqa: E731
    given = lambda name: option(name) if option(name) not in ("", "None", "auto") else None  # noqa: E731
    out.facts = {
        "model": _checkpoint(given("model_path")),
        "engine_version": _word(r"sglang(?:==| version:? ?|-)v?(\d+\.\d+\.\d+)", text),
        "tp": given("tp_size"),
        "pp": given("pp_size"),
        "dp": given("dp_size") if given("enable_dp_attention") == "True" else None,
        "gpu_memory_utilization": given("mem_fraction_static"),
        "max_num_seqs": _word(r"max_running_requests=(\d+)", text),
        "max_num_batched_tokens": given("chunked_prefill_size"),
        "max_model_len": _word(r"context_len=(\d+)", text),
        "kv_cache_dtype": "fp8" if "fp8" in (given("kv_cache_dtype") or "") else "auto",
        "quantization": _quantisation(given("quantization")),
        "kv_cache_tokens": _smallest(r"max_total_num_tokens=(\d+)", text) or _smallest(rf"#tokens: {NUMBER}", text),
    }
    _put(out.terms, "weights", _largest(rf"Load weight end.*mem usage={NUMBER} GB", text))
    _put(out.terms, "free_before_load", _smallest(rf"Load weight begin\. avail mem={NUMBER} GB", text))
    halves = re.findall(rf"K size: {NUMBER} GB, V size: {NUMBER} GB", text)
    sizes = [float(k) + float(v) for k, v in halves] or numbers(rf"KV size: {NUMBER} GB", text)
    _put(out.terms, "kv", min(sizes, default=None))
    _put(out.terms, "graphs", _largest(rf"Capture cuda graph end.*mem usage={NUMBER} GB", text))
    _put(out.terms, "free_after_start", _smallest(rf"available_gpu_mem={NUMBER} GB", text))
    before, share = out.terms.get("free_before_load"), out.facts["gpu_memory_utilization"]
    if before is not None and share is not None and "weights" in out.terms:
        rule = float(share) * before - out.terms["weights"]
        out.notes.append(
            f"its own rule, {share} x {before:.2f} free before loading - weights, gives {rule:.2f} GiB of cache"
        )
    out.refusal = (
        _word(r"(Not enough memory\. Please try[^\n]*)", text) or _word(r"(out of memory[^\n]{0,120})", text) or ""
    )
    return out


def _trtllm(text: str) -> _Found:
    out = _Found()
    versions = re.findall(r"TensorRT[- ]LLM version: (\d[\w.]*)", text)
    slug = _word(r"models--([\w.-]+?)/snapshots", text)
    pools = re.findall(rf"Allocated {NUMBER} GiB for max tokens in paged KV cache \((\d+)\)", text)
    peak = re.search(
        rf"Peak memory during memory usage profiling \(torch \+ non-torch\): {NUMBER} GiB, available KV cache memory "
        rf"when calculating max tokens: {NUMBER} GiB, fraction is set {NUMBER}, kv size is (\d+)\.? ?device "
        rf"total memory {NUMBER} GiB",
        text,
    )
    out.facts = {
        "model": slug.replace("--", "/", 1) if slug else None,
        "engine_version": versions[-1] if versions else None,
        "tp": _word(r"tensor_parallel_size['\"]?[=:] ?(\d+)", text) or "1",
        "max_num_seqs": _word(r"max_batch_size=(\d+)", text),
        "max_num_batched_tokens": _word(r"max_num_tokens=(\d+)", text),
        "max_model_len": _word(r"max_seq_len=(\d+)", text),
    }
    _put(out.terms, "weights", _largest(rf"Use {NUMBER} GB for model weights", text))
    _put(
        out.terms,
        "loaded_inside_torch",
        _largest(rf"after loading model weights \(inside torch\)[^\n]*: {NUMBER} GiB", text),
    )
    _put(
        out.terms,
        "activation",
        _largest(rf"dynamically allocated during inference \(inside torch\)[^\n]*: {NUMBER} GiB", text),
    )
    _put(out.terms, "outside_torch", _largest(rf"Memory used outside torch[^\n]*: {NUMBER} GiB", text))
    if pools:
        size, tokens = pools[-1]
        out.terms["kv"] = float(size)
        out.facts["kv_cache_tokens"] = tokens
    if len(pools) > 1:
        out.notes.append(
            f"the first cache of {pools[0][0]} GiB ({int(pools[0][1]):,} tokens) was for profiling; the last counts"
        )
    if peak:
        out.terms["peak"] = float(peak[1])
        share = round(float(peak[3]), 6)
        total, kept = float(peak[5]), float(peak[1])
        # One token's cache stands in the log exactly; the pool's GiB are rounded to two digits.
        out.facts |= {"gpu_memory_utilization": share, "kv_bytes_per_token": peak[4], "gpu_mem_gib": total}
        temporary = re.search(rf"tmp kv_mem {NUMBER} GiB", text)
        held = float(temporary[1]) if temporary else 0.0
        rule = share * (total - kept + held)
        out.notes.append(
            f"its own rule, {share:g} x ({total} total - {kept} peak + {held} temporary cache), gives {rule:.2f} GiB"
        )
    out.refusal = (
        _word(r"(\[TensorRT-LLM\]\[ERROR\][^\n]*out of memory[^\n]*)", text)
        or _word(r"(torch\.OutOfMemoryError[^\n]{0,160})", text)
        or ""
    )
    return out


def _checkpoint(path: str | None) -> str | None:
    """A model's name: a Hugging Face id as it is, the last part of a path on disk."""
    return path.rstrip("/").rsplit("/", 1)[-1] if path and path.startswith(("/", ".")) else path


def _quantisation(name: str | None) -> str | None:
    """The option as memory tables spell it; formats that the checkpoint itself carries are no option."""
    return None if name in (None, "None", "compressed-tensors", "modelopt_mixed", "quark", "mxfp4") else name


PARSERS: Mapping[str, tuple[re.Pattern[str], Callable[[str], _Found]]] = {
    "trtllm": (re.compile(r"\[TRT-LLM\]|\[TensorRT-LLM\]"), _trtllm),
    "sglang": (re.compile(r"server_args=ServerArgs\(|Load weight (begin|end)\."), _sglang),
    "vllm": (
        re.compile(
            r"Initializing a V\d LLM engine|vLLM API server version|\(APIServer pid=|gpu_worker\.py:\d+"
            r"|Model loading took"
        ),
        _vllm,
    ),
}
"""Engine -> words that only its log has, and what reads it; in order of how sure the words are."""

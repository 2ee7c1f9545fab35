"""``vllm bench serve``: the JSON of --save-result, and the table it prints.

Source: vLLM documentation, API reference of vllm.benchmarks.serve (BenchmarkMetrics; versions 0.9 to 0.15 and the
0.25 file format): latencies end in ``_ms``, counts are ``completed`` and ``failed`` (absent before 0.11),
``request_rate`` is the text "inf" without a limit. TensorRT-LLM's and SGLang-derived forks of the script write the
same keys.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from planner.evidence.importers.document import CONSOLE_TITLE, Document
from planner.evidence.importers.record import BenchRecord, Latency
from planner.evidence.importers.values import count, finite, flat_latency, mapping, number, present, text
from planner.units import MILLISECOND

NAME = "vllm bench serve"
_KEYS = {"completed", "total_input_tokens", "total_output_tokens"}
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "sglang-native": "sglang", "trt": "trtllm", "tensorrt-llm": "trtllm"}

_LINE = re.compile(r"^([A-Za-z][^:]*?)\s*(\([^)]*\))?:\s+([-\d.,eE+]+|inf|nan)\s*$", re.MULTILINE)
_STATISTIC = re.compile(r"^(Mean|Median|Std|P\d+(?:\.\d+)?) (TTFT|TPOT|ITL|E2EL)$")


def recognise(document: Document) -> bool:
    """JSON records with the script's counts and no server_info; or its printed table."""
    if document.syntax == "console":
        return True
    return document.syntax == "json" and all(
        mapping(r).keys() >= _KEYS and "model_id" in mapping(r) for r in document.records
    )


def read(document: Document) -> list[BenchRecord]:
    """One record a JSON document; one a printed table."""
    if document.syntax == "console":
        return _tables(document)
    return [_record(r, f"record {i}") for i, r in enumerate(document.records, start=1)]


def _record(r: Mapping[str, Any], where: str) -> BenchRecord:
    completed = count(r.get("completed"), "completed")
    failed = count(r.get("failed"), "failed")
    prompts = count(r.get("num_prompts"), "num_prompts")
    rate = number(r.get("request_rate"), "request_rate")
    requested = next((finite(r[k], k) for k in ("random_output_len", "output_len") if r.get(k) is not None), None)
    return BenchRecord(
        format=NAME,
        where=where,
        model=text(r.get("model_id")),
        engine=_ENGINES.get(str(r.get("backend", "")).lower()),
        input_tokens=per_request(r.get("total_input_tokens"), completed),
        output_tokens=per_request(r.get("total_output_tokens"), completed),
        requested_output_tokens=requested,
        concurrency=finite(r.get("max_concurrency"), "max_concurrency"),
        rate_rps=rate,
        requests=prompts,
        completed=completed,
        failed=prompts - completed if failed is None and prompts is not None and completed is not None else failed,
        duration_s=finite(r.get("duration"), "duration"),
        latency=present(
            ttft=flat_latency(r, "ttft", MILLISECOND, "_ms"),
            tpot=flat_latency(r, "tpot", MILLISECOND, "_ms"),
            itl=flat_latency(r, "itl", MILLISECOND, "_ms"),
            e2e=flat_latency(r, "e2el", MILLISECOND, "_ms"),
        ),
        request_rps=finite(r.get("request_throughput"), "request_throughput"),
        output_tokens_per_s=finite(r.get("output_throughput"), "output_throughput"),
        total_tokens_per_s=finite(r.get("total_token_throughput"), "total_token_throughput"),
    )


def per_request(total: Any, completed: int | None) -> float | None:
    """Tokens of a request from the total over completed ones."""
    tokens = finite(total, "total tokens")
    return tokens / completed if tokens is not None and completed else None


def _tables(document: Document) -> list[BenchRecord]:
    """Each printed table, with the command line before it where the text holds one."""
    parts = CONSOLE_TITLE.split(document.text)
    records = []
    for i, body in enumerate(parts[1:], start=1):
        records.append(_table(body, _options(parts[i - 1]), f"table {i}"))
    return records


def _table(body: str, options: Mapping[str, str], where: str) -> BenchRecord:
    values: dict[str, float | None] = {}
    stats: dict[str, dict[str, float | None]] = {}
    for label, _, value in _LINE.findall(body):
        match = _STATISTIC.match(label.strip())
        if match:
            stats.setdefault(match[2], {})[match[1].lower()] = finite(value, label)
        else:
            values[label.strip().lower()] = finite(value, label)
    completed = count(values.get("successful requests"))
    prompts = count(options.get("num-prompts"))
    failed = count(values.get("failed requests"))
    return BenchRecord(
        format=NAME + " (printed table)",
        where=where,
        model=options.get("model"),
        engine=_ENGINES.get(options.get("backend", "")),
        input_tokens=per_request(values.get("total input tokens"), completed),
        output_tokens=per_request(values.get("total generated tokens"), completed),
        requested_output_tokens=finite(options.get("random-output-len")),
        concurrency=values.get("maximum request concurrency") or finite(options.get("max-concurrency")),
        rate_rps=values.get("request rate configured") or number(options.get("request-rate")),
        requests=prompts,
        completed=completed,
        failed=prompts - completed if failed is None and prompts is not None and completed is not None else failed,
        duration_s=values.get("benchmark duration"),
        latency=present(**{_METRICS[m]: _stats(found) for m, found in stats.items()}),
        request_rps=values.get("request throughput"),
        output_tokens_per_s=values.get("output token throughput"),
        total_tokens_per_s=values.get("total token throughput"),
    )


_METRICS = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "E2EL": "e2e"}


def _stats(found: Mapping[str, float | None]) -> Latency | None:
    return flat_latency({f"{k}_x": v for k, v in found.items()}, "x", MILLISECOND)


def _options(before: str) -> dict[str, str]:
    """Long options of a benchmark command in the text before a table; empty without one."""
    start = max(before.rfind("bench serve"), before.rfind("benchmark_serving"))
    if start < 0:
        return {}
    command = re.sub(r"\\\s*\n", " ", before[start:]).split("\n\n")[0]
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = value or ("" if following.startswith("--") else following)
    return found

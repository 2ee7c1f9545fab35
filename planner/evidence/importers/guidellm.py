"""GuideLLM reports, from 0.2 to 0.8: several benchmarks in one file, each metric by the fate of its requests.

Source: GuideLLM documentation, guides "Metrics" and "Analyze Results" (blog.vllm.ai/guidellm): request_latency is in
seconds, the other times carry ``_ms``; only ``successful`` requests count. Its time_per_output_token divides by all
output tokens (and from 0.4 on includes the first), so the time per token after the first is inter_token_latency.
JSON, YAML and CSV reports of 0.8.1 were written by the tool itself (tests/evidence/data).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planner.evidence.importers.document import Document
from planner.evidence.importers.record import BenchRecord
from planner.evidence.importers.values import count, finite, latency, mapping, present, text, truth
from planner.units import MILLISECOND

NAME = "GuideLLM"


def recognise(document: Document) -> bool:
    """One JSON or YAML document whose ``benchmarks`` have metrics by ``successful``; CSV with three lines of header."""
    if document.syntax == "csv":
        return len(document.rows) > _HEADERS and {"Request Counts", "Request Latency"} <= set(document.rows[0])
    if document.syntax not in ("json", "yaml") or len(document.records) != 1:
        return False
    found = mapping(document.records[0]).get("benchmarks")
    return isinstance(found, list) and bool(found) and all("metrics" in mapping(b) for b in found)


def read(document: Document) -> list[BenchRecord]:
    """One record a benchmark."""
    if document.syntax == "csv":
        lines = document.rows[_HEADERS:]
        return [_record(_columns(document, line), {}, f"benchmark {i}") for i, line in enumerate(lines, start=1)]
    report = mapping(document.records[0])
    backend = mapping(mapping(mapping(report.get("config")).get("spec")).get("backend"))
    return [_record(mapping(b), backend, f"benchmark {i}") for i, b in enumerate(report["benchmarks"], start=1)]


def _record(b: Mapping[str, Any], backend: Mapping[str, Any], where: str) -> BenchRecord:
    metrics = mapping(b["metrics"])
    config = mapping(b.get("config"))
    arguments = mapping(b.get("args"))
    strategy = mapping(config.get("strategy")) or mapping(arguments.get("strategy"))
    own = mapping(config.get("backend")) or mapping(b.get("worker")) or backend
    totals = mapping(b.get("request_totals")) or mapping(metrics.get("request_totals"))
    kind = str(strategy.get("type_") or strategy.get("kind") or "")
    good = {name: mapping(mapping(v).get("successful")) for name, v in metrics.items()}
    output = finite(good.get("output_token_count", {}).get("mean"))
    return BenchRecord(
        format=NAME,
        where=where,
        model=text(own.get("model")) or text(own.get("backend_model")),
        input_tokens=finite(good.get("prompt_token_count", {}).get("mean")),
        output_tokens=output,
        requested_output_tokens=_requested(b, config),
        concurrency=_streams(kind, strategy),
        mean_concurrency=finite(mapping(mapping(metrics.get("request_concurrency")).get("total")).get("mean"))
        or finite(good.get("request_concurrency", {}).get("mean")),
        rate_rps=finite(strategy.get("rate")) if kind in ("constant", "poisson", "async") else None,
        requests=count(totals.get("total")),
        completed=count(totals.get("successful")),
        failed=count(totals.get("errored")),
        duration_s=finite(b.get("duration")),
        streaming=truth(own.get("stream")),
        latency=present(
            ttft=_times(good, "time_to_first_token_ms", MILLISECOND),
            tpot=_times(good, "inter_token_latency_ms", MILLISECOND),
            itl=_times(good, "inter_token_latency_ms", MILLISECOND),
            e2e=_times(good, "request_latency", 1.0),
        ),
        request_rps=finite(good.get("requests_per_second", {}).get("mean")),
        output_tokens_per_s=finite(good.get("output_tokens_per_second", {}).get("mean")),
        total_tokens_per_s=finite(good.get("tokens_per_second", {}).get("mean")),
    )


_HEADERS = 3
_PERCENTILES = ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999")
"""Order of a percentile cell's values (guidellm.schemas Percentiles)."""
_CSV_METRICS = {
    ("Request Latency", "Sec"): "request_latency",
    ("Time to First Token", "ms"): "time_to_first_token_ms",
    ("Inter Token Latency", "ms"): "inter_token_latency_ms",
    ("Server Throughput", "Requests/Sec"): "requests_per_second",
    ("Server Throughput", "Concurrency"): "request_concurrency",
    ("Token Metrics", "Input Tokens"): "prompt_token_count",
    ("Token Metrics", "Output Tokens"): "output_token_count",
    ("Token Throughput", "Output Tokens/Sec"): "output_tokens_per_second",
    ("Token Throughput", "Total Tokens/Sec"): "tokens_per_second",
}


def _columns(document: Document, line: tuple[str, ...]) -> dict[str, Any]:
    """A line of the CSV as the JSON report has it."""
    metrics: dict[str, dict[str, Any]] = {}
    single: dict[tuple[str, str], str] = {}
    for group, name, stat, cell in zip(*document.rows[:_HEADERS], line, strict=False):
        key = _CSV_METRICS.get((group, name.removeprefix("Successful ")))
        if key is None or not name.startswith("Successful "):
            single[group, name] = cell
            continue
        stats = metrics.setdefault(key, {})
        if stat == "Percentiles":
            stats["percentiles"] = dict(zip(_PERCENTILES, _list(cell), strict=False))
        else:
            stats[stat.lower().replace(" ", "_")] = cell
    totals = {k.lower(): single.get(("Request Counts", k)) for k in ("Successful", "Errored", "Total")}
    kind, _, number = single.get(("Benchmark", "Strategy"), "").partition("@")
    return {
        "config": {
            "strategy": {"type_": kind, "streams": number, "rate": number},
            "backend": _mapping(single.get(("Run Info", "Backend"))),
            "data": _mapping(single.get(("Run Info", "Data"))),
        },
        "duration": single.get(("Timings", "Duration")),
        "metrics": {k: {"successful": {"count": totals["successful"]} | stats} for k, stats in metrics.items()},
        "request_totals": totals,
    }


def _list(cell: str) -> list[Any]:
    found = _parsed(cell)
    return found if isinstance(found, list) else []


def _mapping(cell: str | None) -> Mapping[str, Any]:
    return mapping(_parsed(cell or ""))


def _parsed(cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return None


def _times(good: Mapping[str, Mapping[str, Any]], name: str, unit: float) -> Any:
    stats = good.get(name, {})
    return latency(stats, unit, name) if count(stats.get("count")) else None


def _streams(kind: str, strategy: Mapping[str, Any]) -> float | None:
    if kind == "synchronous":
        return 1.0
    if kind == "concurrent":
        return finite(strategy.get("streams")) or finite(strategy.get("max_concurrency"))
    return finite(strategy.get("max_concurrency")) if kind == "throughput" else None


def _requested(b: Mapping[str, Any], config: Mapping[str, Any]) -> float | None:
    """Output tokens of synthetic data: ``prompt_tokens=..,output_tokens=..`` text, or a mapping."""
    data: Any = mapping(b.get("request_loader")).get("data")
    if isinstance(data, str):
        pairs = dict(p.partition("=")[::2] for p in data.split(","))
        return finite(pairs["output_tokens"]) if pairs.get("output_tokens", "").isdigit() else None
    listed = config.get("data")
    first = mapping(listed[0]) if isinstance(listed, list) and listed else mapping(listed)
    return finite(first.get("output_tokens")) if first.get("output_tokens_stdev") is None else None

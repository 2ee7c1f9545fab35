"""GenAI-Perf and AIPerf: JSON and CSV exports; every metric says its unit.

Source: AIPerf documentation, "profile_export_aiperf.json Schema" (docs.nvidia.com/aiperf/reference/json-export-schema)
and its metrics reference: a metric is {unit, avg, p1 .. p99, std}; fields that are unset are left out; derived metrics
have only ``avg``. From schema 1.4 on (AIPerf 0.13, files in tests/evidence/data) ``input_config`` is what a
configuration file holds: models, datasets and phases, of which the one of kind profiling is measured. The CSV has one
table of distributions and one of single values, the unit in the metric's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.errors import InputError
from planner.evidence.importers.document import Document
from planner.evidence.importers.record import BenchRecord, Latency
from planner.evidence.importers.values import finite, latency, mapping, number, present, text, truth, unit_s

NAME = "GenAI-Perf / AIPerf"
_METRIC = {"time_to_first_token": "ttft", "inter_token_latency": "itl", "request_latency": "e2e"}
_CSV_NAME = re.compile(r"^(.*?)\s*\(([^()]*)\)$")
_CSV_KEYS = {
    "Time To First Token": "time_to_first_token",
    "Inter Token Latency": "inter_token_latency",
    "Request Latency": "request_latency",
    "Input Sequence Length": "input_sequence_length",
    "Output Sequence Length": "output_sequence_length",
    "Requested OSL": "requested_osl",
    "Request Throughput": "request_throughput",
    "Output Token Throughput": "output_token_throughput",
    "Total Token Throughput": "total_token_throughput",
    "Request Count": "request_count",
    "Error Request Count": "error_request_count",
    "Effective Concurrency": "effective_concurrency",
    "Theoretical Prefix Cache Hit": "prefix_cache_hit",
}
_ENGINES = {"vllm": "vllm", "tensorrtllm": "trtllm", "sglang": "sglang"}


def recognise(document: Document) -> bool:
    """JSON with {unit, avg} metrics and input_config; or CSV whose first table is ``Metric, avg, ...``."""
    if document.syntax == "json":
        return len(document.records) == 1 and all(
            "unit" in mapping(mapping(document.records[0]).get(k)) for k in ("request_latency", "request_throughput")
        )
    return document.syntax == "csv" and len(document.rows) > 1 and tuple(document.rows[0][:2]) == ("Metric", "avg")


def is_per_request(document: Document) -> bool:
    """Whether these are AIPerf's records of single requests (profile_export.jsonl)."""
    first = mapping(document.records[0]) if document.syntax == "json" and document.records else {}
    return "x_request_id" in mapping(first.get("metadata")) or {"metadata", "metrics"} <= first.keys()


def read(document: Document) -> list[BenchRecord]:
    """The file's one record."""
    if document.syntax == "csv":
        return [_record(_csv(document), {}, "CSV")]
    report = mapping(document.records[0])
    return [_record(report, mapping(report.get("input_config")), "JSON")]


def _record(metrics: Mapping[str, Any], config: Mapping[str, Any], where: str) -> BenchRecord:
    times = {m: _times(metrics, key) for key, m in _METRIC.items()}
    endpoint, load = mapping(config.get("endpoint")), mapping(config.get("loadgen")) or _phase(config)
    models = config.get("model") or endpoint.get("model_names") or _named(config.get("models"))
    completed, failed = (_single(metrics, k) for k in ("request_count", "error_request_count"))
    errors = metrics.get("error_summary")
    if failed is None and isinstance(errors, list):
        failed = sum(finite(mapping(e).get("count")) or 0.0 for e in errors)
    hits = _single(metrics, "prefix_cache_hit")
    return BenchRecord(
        format=NAME,
        where=where,
        model=_model(models),
        engine=_ENGINES.get(str(config.get("backend") or "").lower()),
        input_tokens=_single(metrics, "input_sequence_length"),
        output_tokens=_single(metrics, "output_sequence_length"),
        requested_output_tokens=_requested(metrics, config),
        concurrency=finite(config.get("concurrency")) or finite(load.get("concurrency")),
        mean_concurrency=_single(metrics, "effective_concurrency"),
        rate_rps=number(config.get("request_rate")) or number(load.get("request_rate")) or number(load.get("rate")),
        requests=None if completed is None else round(completed + (failed or 0.0)),
        completed=None if completed is None else round(completed),
        failed=None if failed is None else round(failed),
        streaming=_streaming(config, endpoint),
        # The tools' inter token latency is the mean of a request after its first token: what others call TPOT.
        latency=present(ttft=times["ttft"], tpot=times["itl"], itl=times["itl"], e2e=times["e2e"]),
        request_rps=_single(metrics, "request_throughput"),
        output_tokens_per_s=_single(metrics, "output_token_throughput"),
        total_tokens_per_s=_single(metrics, "total_token_throughput"),
        cache_hit_rate=None if hits is None else hits / 100.0,
    )


def _times(metrics: Mapping[str, Any], key: str) -> Latency | None:
    stats = mapping(metrics.get(key))
    return latency(stats, unit_s(stats.get("unit"), key), key) if stats else None


def _single(metrics: Mapping[str, Any], key: str) -> float | None:
    value = metrics.get(key)
    return finite(mapping(value).get("avg") if isinstance(value, Mapping) else value, key)


def _model(models: Any) -> str | None:
    if isinstance(models, list):
        return text(models[0]) if len(models) == 1 else None
    return text(models)


def _requested(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> float | None:
    """Output the client asked for; GenAI-Perf writes -1 where it did not ask."""
    told = _single(metrics, "requested_osl")
    if told is not None:
        return told
    prompt = mapping(mapping(mapping(config.get("input")).get("prompt")).get("output_tokens")) or _dataset(config)
    spread = finite(config.get("output_tokens_stddev")) or finite(prompt.get("stddev"))
    mean = finite(config.get("output_tokens_mean")) or finite(prompt.get("mean"))
    return mean if mean is not None and mean > 0 and not spread else None


def _phase(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one measured phase; empty where there are none or several."""
    phases = config.get("phases")
    measured = [p for p in map(mapping, phases if isinstance(phases, list) else ()) if p.get("kind") == "profiling"]
    return measured[0] if len(measured) == 1 else {}


def _named(models: Any) -> list[Any]:
    items = mapping(models).get("items")
    return [mapping(m).get("name") for m in items] if isinstance(items, list) else []


def _dataset(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Output lengths of the one dataset of prompts; empty where there are none or several."""
    datasets = config.get("datasets")
    prompts = [mapping(mapping(d).get("prompts")) for d in datasets] if isinstance(datasets, list) else []
    return mapping(prompts[0].get("osl")) if len(prompts) == 1 else {}


def _streaming(config: Mapping[str, Any], endpoint: Mapping[str, Any]) -> bool | None:
    given = config.get("streaming") if config.get("streaming") is not None else endpoint.get("streaming")
    # A configuration leaves out what is at its default, which is off.
    return False if given is None and "phases" in config else truth(given)


def _csv(document: Document) -> dict[str, Any]:
    """The two tables as the JSON export has them. Tables of GPU telemetry after them are left out."""
    header: tuple[str, ...] = ()
    metrics: dict[str, Any] = {}
    for i, row in enumerate(document.rows):
        cells = tuple(c.strip() for c in row)
        if not cells or not cells[0]:
            header = ()
            continue
        if cells[0] == "Metric":
            header = cells
            continue
        if not header:
            if cells[0] == "Endpoint":
                break
            raise InputError(f"{document.name} line {i + 1}", cells[0], "a line under a header 'Metric'")
        match = _CSV_NAME.match(cells[0])
        name, unit = (match[1], match[2]) if match else (cells[0], "")
        key = _CSV_KEYS.get(_title(name))
        if key is not None:
            stats = dict(zip(header[1:], cells[1:], strict=False))
            if "Value" in stats:
                stats["avg"] = stats.pop("Value")
            metrics[key] = {"unit": unit, **stats}
    return metrics


def _title(name: str) -> str:
    """'Time to First Token' as the table of keys spells it."""
    return " ".join(w if w.isupper() else w.capitalize() for w in name.split())

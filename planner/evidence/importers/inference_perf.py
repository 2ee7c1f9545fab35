"""inference-perf's lifecycle metrics (JSON), and llm-d-benchmark's report (YAML) made from them.

Sources: kubernetes-sigs/inference-perf, docs/reports: ``load_summary``, ``successes`` with latency in seconds,
``failures``; llm-d-benchmark's benchmark report v0.1: ``metrics`` whose statistics carry ``units``, ``scenario`` with
the load generator's own configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.evidence.importers.document import Document
from planner.evidence.importers.record import BenchRecord, Latency
from planner.evidence.importers.values import count, finite, latency, mapping, present, text, truth, unit_s

NAME = "inference-perf"
REPORT_NAME = "llm-d-benchmark"
_METRICS = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}


def recognise(document: Document) -> bool:
    """JSON with load_summary and successes; or a YAML report with metrics.latency and metrics.requests."""
    if document.syntax not in ("json", "yaml"):
        return False
    return all(_lifecycle(mapping(r)) or _report(mapping(r)) for r in document.records)


def _lifecycle(r: Mapping[str, Any]) -> bool:
    return r.keys() >= {"load_summary", "successes", "failures"}


def _report(r: Mapping[str, Any]) -> bool:
    return mapping(r.get("metrics")).keys() >= {"latency", "requests"} and "scenario" in r


def read(document: Document) -> list[BenchRecord]:
    """One record a document."""
    return [
        _from_lifecycle(r, f"record {i}") if _lifecycle(r) else _split(_from_report(r, f"record {i}"), r, document.name)
        for i, r in enumerate(document.records, start=1)
    ]


def _split(record: BenchRecord, r: Mapping[str, Any], name: str) -> BenchRecord:
    """The record as one of prefill and decode workers where its hosts say so, or else where it was named so."""
    scenario = mapping(r["scenario"])
    kinds = mapping(scenario.get("host")).get("type")
    roles = {str(k).lower() for k in kinds} if isinstance(kinds, list) else {str(kinds).lower()}
    if roles & {"prefill", "decode"}:
        return replace(record, serving="disagg")
    storage = mapping(mapping(mapping(mapping(scenario.get("load")).get("args")).get("storage")).get("local_storage"))
    for named in (name, str(storage.get("path") or "")):
        if "pd" in re.split(r"[^a-z0-9]+", named.lower()):
            told = f"{named!r} names prefill and decode workers (pd): taken as two pools, which the file does not list"
            return replace(record, serving="disagg").warn(told)
    return record


def _from_lifecycle(r: Mapping[str, Any], where: str) -> BenchRecord:
    done, lost, load = mapping(r["successes"]), mapping(r["failures"]), mapping(r["load_summary"])
    speed = mapping(done.get("throughput"))
    times = mapping(done.get("latency"))
    completed, failed = count(done.get("count")), count(lost.get("count"))
    return BenchRecord(
        format=NAME,
        where=where,
        input_tokens=finite(mapping(done.get("prompt_len")).get("mean")),
        output_tokens=finite(mapping(done.get("output_len")).get("mean")),
        rate_rps=finite(load.get("requested_rate")),
        requests=count(load.get("count")),
        completed=completed,
        failed=failed,
        duration_s=finite(load.get("send_duration")),
        latency=present(**{m: latency(times.get(key), 1.0, key) for m, key in _METRICS.items()}),
        request_rps=finite(speed.get("requests_per_sec")),
        output_tokens_per_s=finite(speed.get("output_tokens_per_sec")),
        total_tokens_per_s=finite(speed.get("total_tokens_per_sec")),
        warnings=_late(load),
    )


def _late(load: Mapping[str, Any]) -> tuple[str, ...]:
    """Requests that the client itself sent late: they waited where no latency counts them."""
    late = finite(mapping(load.get("schedule_delay")).get("mean"))
    if late is None or late < LATE_S:
        return ()
    return (f"the client sent requests {late:.1f} s late on average: the offered rate was not reached",)


LATE_S = 1.0


def _from_report(r: Mapping[str, Any], where: str) -> BenchRecord:
    metrics, scenario = mapping(r["metrics"]), mapping(r["scenario"])
    requests, speed = mapping(metrics["requests"]), mapping(metrics.get("throughput"))
    arguments = mapping(mapping(scenario.get("load")).get("args"))
    server, load = mapping(arguments.get("server")), mapping(arguments.get("load"))
    stage = _stage(load, mapping(mapping(scenario.get("load")).get("metadata")))
    total, failed = count(requests.get("total")), count(requests.get("failures"))
    named = text(mapping(scenario.get("model")).get("name"))
    wanted = mapping(mapping(arguments.get("data")).get("output_distribution"))
    hosts = mapping(scenario.get("host"))
    return BenchRecord(
        format=REPORT_NAME,
        where=where,
        model=text(server.get("model_name")) if named in (None, "unknown") else named,
        gpu=_gpu(hosts),
        engine=text(server.get("type")),
        input_tokens=finite(mapping(requests.get("input_length")).get("mean")),
        output_tokens=finite(mapping(requests.get("output_length")).get("mean")),
        requested_output_tokens=finite(wanted.get("mean")) if finite(wanted.get("std_dev")) == 0 else None,
        concurrency=finite(stage.get("concurrency_level")),
        rate_rps=finite(stage.get("rate")),
        requests=total,
        completed=total - failed if total is not None and failed is not None else total,
        failed=failed,
        duration_s=finite(mapping(metrics.get("time")).get("duration")),
        streaming=truth(mapping(arguments.get("api")).get("streaming")),
        latency=present(**{m: _with_units(mapping(metrics["latency"]).get(key), key) for m, key in _METRICS.items()}),
        request_rps=finite(speed.get("requests_per_sec")),
        output_tokens_per_s=finite(speed.get("output_tokens_per_sec")),
        total_tokens_per_s=finite(speed.get("total_tokens_per_sec")),
    )


def _with_units(stats: Any, field: str) -> Latency | None:
    given = mapping(stats)
    return latency(given, unit_s(given.get("units"), field), field) if given else None


def _stage(load: Mapping[str, Any], metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    stages = load.get("stages")
    index = count(metadata.get("stage")) or 0
    return mapping(stages[index]) if isinstance(stages, list) and 0 <= index < len(stages) else {}


def _gpu(host: Mapping[str, Any]) -> str | None:
    accelerators = host.get("accelerator")
    first = accelerators[0] if isinstance(accelerators, list) and accelerators else accelerators
    return text(mapping(first).get("model"))

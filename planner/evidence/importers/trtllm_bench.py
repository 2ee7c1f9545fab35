"""``trtllm-bench``: the JSON of --report_json for throughput and latency runs.

Source: TensorRT-LLM documentation, trtllm-bench (nvidia.github.io/TensorRT-LLM/commands/trtllm-bench.html) and the
keys of its 1.x reports: ``engine``, ``world_info``, ``request_info``, ``performance`` and, only with --streaming,
``streaming_metrics``. All times are in milliseconds; requests go straight to the engine, without a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.evidence.importers.document import Document
from planner.evidence.importers.record import BenchRecord
from planner.evidence.importers.values import count, finite, latency, mapping, present, text
from planner.units import MILLISECOND

NAME = "trtllm-bench"
_KEYS = {"engine", "performance", "request_info"}


def recognise(document: Document) -> bool:
    """JSON records with engine, performance and request_info."""
    return document.syntax == "json" and all(mapping(r).keys() >= _KEYS for r in document.records)


def read(document: Document) -> list[BenchRecord]:
    """One record a document."""
    return [_record(r, f"record {i}") for i, r in enumerate(document.records, start=1)]


def _record(r: Mapping[str, Any], where: str) -> BenchRecord:
    engine, world, requests, speed = (mapping(r[k]) for k in ("engine", "world_info", "request_info", "performance"))
    streaming, data = mapping(r.get("streaming_metrics")), mapping(r.get("dataset"))
    served = count(requests.get("num_requests"), "num_requests")
    tp, pp, ep = (count(world.get(f"{k}_size")) for k in ("tp", "pp", "ep"))
    layout = (
        {} if tp is None else {"tp": tp, "pp": pp or 1, "attention_dp": 1, "moe_tp": tp // (ep or 1), "ep": ep or 1}
    )
    wanted = finite(data.get("max_osl"))
    latencies = present(
        ttft=latency(
            {**mapping(streaming.get("ttft_percentiles")), "mean": streaming.get("avg_ttft_ms")}, MILLISECOND, "ttft"
        ),
        tpot=latency(
            {**mapping(streaming.get("tpot_percentiles")), "mean": streaming.get("avg_tpot_ms")}, MILLISECOND, "tpot"
        ),
        e2e=latency(
            {**mapping(speed.get("request_latency_percentiles_ms")), "mean": speed.get("avg_request_latency_ms")},
            MILLISECOND,
            "request_latency",
        ),
    )
    total = finite(speed.get("total_latency_ms"))
    return BenchRecord(
        format=NAME,
        where=where,
        model=text(engine.get("model")),
        gpu=text(mapping(r.get("machine")).get("name")),
        gpus=count(world.get("world_size")),
        engine="trtllm",
        engine_version=text(engine.get("version")),
        precision=_precision(engine),
        layout=layout,
        speculative="on" if mapping(r.get("decoding_stats")) else "none",
        input_tokens=finite(requests.get("avg_input_length")),
        output_tokens=finite(requests.get("avg_output_length")),
        requested_output_tokens=wanted if wanted == finite(data.get("avg_osl")) else None,
        # The tool submits everything at once or keeps --concurrency in flight; the report has the mean it saw.
        concurrency=finite(requests.get("avg_num_concurrent_requests")),
        mean_concurrency=finite(requests.get("avg_num_concurrent_requests")),
        requests=count(data.get("num_requests")) or served,
        completed=served,
        duration_s=None if total is None else total * MILLISECOND,
        streaming=bool(streaming),
        latency=latencies,
        request_rps=finite(speed.get("request_throughput_req_s")),
        output_tokens_per_s=finite(speed.get("system_output_throughput_tok_s")),
        total_tokens_per_s=finite(speed.get("system_total_throughput_tok_s")),
    )


def _precision(engine: Mapping[str, Any]) -> str | None:
    quantised = text(engine.get("quantization"))
    plain = {"bfloat16": "bf16", "float16": "bf16"}
    return quantised.lower() if quantised else plain.get(str(engine.get("dtype")), text(engine.get("dtype")))

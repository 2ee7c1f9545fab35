"""``sglang.bench_serving``: one JSON document a line, appended run after run.

Source: SGLang documentation, bench_serving guide (--output-file appends JSONL), and the keys of its 0.5 releases:
``backend``, ``max_concurrency``, ``mean_ttft_ms``, ``mean_e2e_latency_ms``, ``total_output_tokens_retokenized``,
``server_info`` with the server's arguments in ``internal_states``, ``prefill`` and ``decode``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.evidence.importers.document import Document
from planner.evidence.importers.record import BenchRecord
from planner.evidence.importers.values import count, finite, flat_latency, mapping, number, present, text, truth
from planner.evidence.importers.vllm_bench import per_request
from planner.units import MILLISECOND

NAME = "sglang.bench_serving"
_KEYS = {"completed", "total_output_tokens", "dataset_name", "backend"}


def recognise(document: Document) -> bool:
    """JSON records with the script's counts and its own keys."""
    return document.syntax == "json" and all(
        mapping(r).keys() >= _KEYS and bool(mapping(r).keys() & {"server_info", "random_range_ratio", "accept_length"})
        for r in document.records
    )


def read(document: Document) -> list[BenchRecord]:
    """One record a line."""
    return [_record(r, f"line {i}") for i, r in enumerate(document.records, start=1)]


def _record(r: Mapping[str, Any], where: str) -> BenchRecord:
    completed = count(r.get("completed"), "completed")
    server = _server(r.get("server_info"))
    arguments = server[0] if server else {}
    accepted = finite(r.get("accept_length"), "accept_length")
    speculative = None if not server else "on" if arguments.get("speculative_algorithm") else "none"
    if accepted is not None and accepted > 1.0:
        speculative = "on"
    record = BenchRecord(
        format=NAME,
        where=where,
        model=text(arguments.get("served_model_name")) or text(arguments.get("model_path")) or text(r.get("model")),
        engine="sglang" if str(r.get("backend", "")).startswith("sglang") else None,
        engine_version=text(arguments.get("version")) or text(mapping(r.get("server_info")).get("version")),
        precision=text(arguments.get("quantization")),
        speculative=speculative,
        input_tokens=per_request(r.get("total_input_tokens"), completed),
        output_tokens=per_request(r.get("total_output_tokens"), completed),
        requested_output_tokens=_requested(r),
        concurrency=finite(r.get("max_concurrency"), "max_concurrency"),
        mean_concurrency=finite(r.get("concurrency"), "concurrency"),
        rate_rps=number(r.get("request_rate"), "request_rate"),
        requests=count(r.get("num_prompts"), "num_prompts"),
        completed=completed,
        failed=count(r.get("failed"), "failed"),
        duration_s=finite(r.get("duration"), "duration"),
        latency=present(
            ttft=flat_latency(r, "ttft", MILLISECOND, "_ms"),
            tpot=flat_latency(r, "tpot", MILLISECOND, "_ms"),
            itl=flat_latency(r, "itl", MILLISECOND, "_ms"),
            e2e=flat_latency(r, "e2e_latency", MILLISECOND, "_ms"),
        ),
        request_rps=finite(r.get("request_throughput"), "request_throughput"),
        output_tokens_per_s=finite(r.get("output_throughput"), "output_throughput"),
        total_tokens_per_s=finite(r.get("total_throughput"), "total_throughput"),
        **_layout(r.get("server_info")),
    )
    record = _tagged(record, str(r.get("tag") or ""))
    retokenised = finite(r.get("total_output_tokens_retokenized"), "total_output_tokens_retokenized")
    total = finite(r.get("total_output_tokens"), "total_output_tokens")
    if retokenised and total and abs(retokenised / total - 1.0) > RETOKENISED_TOLERANCE:
        record = record.warn(
            f"the server counted {total:,.0f} output tokens, the text holds {retokenised:,.0f}: speed per token is as "
            "uncertain as that"
        )
    return record


RETOKENISED_TOLERANCE = 0.05
_TAG = re.compile(r"(?<![0-9a-z])(\d+)p(\d+)d(?![0-9a-z])")


def _tagged(record: BenchRecord, tag: str) -> BenchRecord:
    """A router answers for one worker of each kind: a tag like 1p4d that says otherwise leaves the layout open."""
    match = _TAG.search(tag.lower())
    workers = (record.layout.get("prefill_workers"), record.layout.get("decode_workers"))
    if match is None or None in workers or (int(match[1]), int(match[2])) == workers:
        return record
    return replace(record, layout={}).warn(
        f"the tag says {match[1]} prefill and {match[2]} decode workers, the server names {workers[0]} and "
        f"{workers[1]}: layout left open"
    )


def _requested(r: Mapping[str, Any]) -> float | None:
    """Requested output where every request asks for the same: a range ratio below 1 draws lengths up to it."""
    longest = finite(r.get("random_output_len"), "random_output_len")
    ratio = finite(r.get("random_range_ratio"), "random_range_ratio")
    return longest if ratio == 1.0 else None


def _server(info: Any) -> Sequence[Mapping[str, Any]]:
    states = mapping(info).get("internal_states")
    found = [mapping(s) for s in states] if isinstance(states, list) else []
    flat = mapping(info)
    return [s for s in found if s] or ([flat] if "model_path" in flat else [])


def _layout(info: Any) -> dict[str, Any]:
    """Layout columns from the server's arguments: one worker kind, or prefill and decode workers."""
    pools = {p: mapping(info).get(p) for p in ("prefill", "decode")}
    if all(isinstance(v, list) and v for v in pools.values()):
        columns: dict[str, int] = {}
        for pool, workers in pools.items():
            shapes = [_ranks(_server(w)[0] if _server(w) else mapping(w)) for w in workers or []]
            if not shapes[0] or any(s != shapes[0] for s in shapes):
                return {"serving": "disagg"}
            columns[f"{pool}_workers"] = len(shapes)
            columns |= {f"{pool}_{name}": value for name, value in shapes[0].items()}
        return {"serving": "disagg", "layout": columns}
    servers = _server(info)
    if not servers:
        return {}
    if str(servers[0].get("disaggregation_mode") or "null") not in ("null", "none", "None"):
        return {"serving": "disagg"}
    return {"layout": _ranks(servers[0])}


def _ranks(arguments: Mapping[str, Any]) -> dict[str, int]:
    """tp_size counts all GPUs of a pipeline stage; with attention data parallelism they split over dp_size replicas."""
    tp, pp = (count(arguments.get(k), k) for k in ("tp_size", "pp_size"))
    if tp is None:
        return {}
    dp = (count(arguments.get("dp_size"), "dp_size") or 1) if truth(arguments.get("enable_dp_attention")) else 1
    ep = count(arguments.get("ep_size"), "ep_size") or 1
    return {"tp": tp // dp, "pp": pp or 1, "attention_dp": dp, "moe_tp": tp // ep, "ep": ep}

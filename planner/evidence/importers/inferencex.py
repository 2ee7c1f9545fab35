"""InferenceX (InferenceMAX) aggregate records: one JSON document, or a list of them.

Source: SemiAnalysisAI/InferenceX, utils/process_result.py: keys of the vLLM-style result that ended in ``_ms`` are
divided by 1000 and lose the suffix, so times are in seconds without saying so; ``dp_attention`` is the text of a shell
variable ("true", "false"); ``intvty`` is 1/tpot. A run that did not finish keeps its record with nulls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.errors import InputError
from planner.evidence.importers.document import Document
from planner.evidence.importers.record import BenchRecord
from planner.evidence.importers.values import count, finite, flat_latency, mapping, present, text, truth

NAME = "InferenceX"
_KEYS = {"hw", "framework", "precision", "model"}
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trt": "trtllm", "trtllm": "trtllm", "tensorrt-llm": "trtllm"}
_PLAIN = frozenset({"fixed-seq-len", "fixed_seq_len", ""})


def recognise(document: Document) -> bool:
    """JSON records with hw, framework, precision and model, some with times; runs that broke off have none."""
    if document.syntax != "json" or not all(mapping(r).keys() >= _KEYS for r in document.records):
        return False
    return any("mean_ttft" in mapping(r) for r in document.records)


def read(document: Document) -> list[BenchRecord]:
    """One record each."""
    return [_record(mapping(r), f"record {i}") for i, r in enumerate(document.records, start=1)]


def _record(r: Mapping[str, Any], where: str) -> BenchRecord:
    split = truth(r.get("disagg"), f"{where} disagg") or False
    engine, _, transport = str(r["framework"]).lower().partition("-")
    if engine == "dynamo":
        engine = transport
    version = re.search(r":v?(\d+\.\d+[\w.]*)", str(r.get("image") or ""))
    completed = count(r.get("num_requests_successful"))
    total = count(r.get("num_requests_total"))
    label = r.get("spec_decoding", r.get("mtp"))
    scenario = text(r.get("scenario_type")) or ""
    return BenchRecord(
        format=NAME,
        where=where,
        model=_model(text(r["model"])),
        gpu=text(r["hw"]),
        engine=_ENGINES.get(engine),
        engine_version=version[1] if version else None,
        precision=text(r["precision"]),
        serving="disagg" if split else "agg",
        layout=_pools(r, where) if split else _layout(r, "", where),
        speculative=None if label is None else "none" if str(label).lower() in ("none", "off") else "on",
        scenario=None if scenario in _PLAIN else scenario,
        input_tokens=finite(r.get("isl")) or finite(r.get("mean_input_tokens")),
        output_tokens=finite(r.get("osl")) or finite(r.get("mean_output_tokens_actual")),
        concurrency=finite(r.get("conc")),
        requests=total,
        completed=completed,
        failed=total - completed if total is not None and completed is not None else None,
        duration_s=finite(r.get("duration_seconds")),
        latency=present(**{m: flat_latency(r, key, 1.0) for m, key in _METRICS.items()}),
        request_rps=finite(r.get("mean_qps")),
        output_tokens_per_s=finite(r.get("output_tput_tps")),
        total_tokens_per_s=finite(r.get("total_tput_tps")),
        cache_hit_rate=finite(r.get("theoretical_cache_hit_rate")),
    )


_METRICS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}


def _model(name: str | None) -> str | None:
    """A path on the runner's disk ends in the checkpoint's name."""
    return name.rsplit("/", 1)[-1] if name and name.startswith("/") else name


def _layout(r: Mapping[str, Any], pool: str, where: str) -> dict[str, int]:
    """``tp`` counts the GPUs; data-parallel attention runs a replica on each."""
    gpus = count(r.get(f"{pool}tp"))
    if gpus is None:
        return {}
    ep = count(r.get(f"{pool}ep")) or 1
    if gpus % ep:
        raise InputError(f"{where} {pool}ep", ep, f"a divisor of {pool}tp = {gpus}")
    spread = truth(r.get(f"{pool}dp_attention"), f"{where} {pool}dp_attention")
    tp, dp = (1, gpus) if spread else (gpus, 1)
    return {f"{pool}tp": tp, f"{pool}pp": 1, f"{pool}attention_dp": dp, f"{pool}moe_tp": gpus // ep, f"{pool}ep": ep}


def _pools(r: Mapping[str, Any], where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for pool in ("prefill_", "decode_"):
        workers = count(r.get(f"{pool}num_workers"))
        shape = _layout(r, pool, where)
        if workers is None or not shape:
            return {}
        found |= {f"{pool}workers": workers, **shape}
    return found

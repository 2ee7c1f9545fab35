"""Published points (measured/published/*.yaml) stated for the planner: names resolved, or the reason why not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.catalog.files import read_yaml

NAMES_FILE = Path(__file__).with_name("published_names.yaml")

Entry = Mapping[str, Any]

DECODE_RATES = (
    "output_tok_per_s_per_gpu",
    "output_tok_per_s_per_gpu_derived",
    "output_tok_per_s_per_npu",
    "output_tok_per_s_per_rank",
    "output_tok_per_s_per_node",
    "output_tok_per_s_per_node_third_party",
    "output_tok_per_s_total",
    "output_tok_per_s_per_gpu_read_off_bar",
)
PREFILL_RATES = (
    "input_tok_per_s_per_gpu",
    "input_tok_per_s_per_gpu_derived",
    "input_tok_per_s_per_npu",
    "input_tok_per_s_per_node",
    "input_tok_per_s_per_node_excl_hits_derived",
    "input_tok_per_s_per_node_third_party",
    "input_tok_per_s_total",
    "input_tok_per_s_per_gpu_read_off_bar",
    "total_tok_per_s_per_gpu",
)
NO_MTP = ("no MTP", "overlap scheduler, no MTP")
LOOP_FIGURES = {
    "ttft_ms": ("ttft_ms_mean", "ttft_ms_median", "ttft_ms"),
    "tpot_ms": ("tpot_ms_mean", "tpot_ms"),
    "output_tok_per_s": ("output_tok_per_s_total", "output_tok_per_s"),
}
"""Figure of a closed loop -> keys that may hold it, the first one counts."""


@dataclass(frozen=True)
class Statement:
    """A point in the planner's words. Lengths in tokens; rates per GPU."""

    id: str
    source: str
    phase: str
    """prefill, decode, or agg for a closed loop (with ``workers``: of two pools)."""
    model: str
    accelerator: str
    node: str
    engine: str
    linear_precision: str
    moe_precision: str
    kv: str
    """Format of the KV cache, fp8 or bf16; empty where the point does not say."""
    layout: Mapping[str, int]
    input_tokens: float
    output_tokens: float
    bench: str
    batch: float
    """Sequences per GPU in decode, prompt tokens per GPU in prefill, requests in flight in agg."""
    cache_hit_rate: float
    two_batch: bool
    balanced: bool
    workers: tuple[int, int] | None
    """Prefill and decode workers of ``layout`` each; None where prompts and outputs share workers."""
    redundant_experts: int | None
    """Replicas of hot experts over the EP group; None where the point does not say."""
    figures: Mapping[str, float]
    """Published values: tok_per_s_per_gpu, or those of LOOP_FIGURES."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Unstated:
    """A point that cannot be stated, and why."""

    id: str
    reason: str


@lru_cache(maxsize=1)
def names() -> Mapping[str, Any]:
    """planner/evidence/published_names.yaml."""
    return read_yaml(NAMES_FILE)


def is_entry(value: Any) -> bool:
    """Whether a value is a published point: it has an id, a phase and metrics."""
    return isinstance(value, Mapping) and {"id", "phase", "metrics"} <= value.keys()


def state(entry: Entry) -> Statement | Unstated:
    """One point in the planner's words."""
    known = names()
    text = f"{entry.get('notes', '')} {entry.get('engine', '')} {entry.get('mtp', '')}"
    phase = str(entry.get("phase"))
    identity = str(entry["id"])
    added = known["stated_elsewhere"].get(identity, {})
    workers = (int(added["prefill_workers"]), int(added["decode_workers"])) if "prefill_workers" in added else None
    if workers is not None:
        phase = "agg"
    reason = _reason(entry, phase, text, known)
    if reason:
        return Unstated(identity, reason)
    stated = {**entry, **{k: v for k, v in added.items() if k != "note"}}
    gpu, engine = known["gpus"][str(entry["gpu"])], known["engines"][str(entry["engine"])]
    words = known["precisions"][str(entry.get("weights_dtype"))]
    notes = [n for n in (added.get("note"), engine.get("note")) if n]
    layout = _layout(entry, phase if workers is None else "disagg")
    if isinstance(layout, str):
        return Unstated(identity, layout)
    load = _load(stated, phase, known, notes)
    if isinstance(load, str):
        return Unstated(identity, load)
    figures = _figures(entry, phase, layout)
    if not figures:
        return Unstated(identity, "no figure that the planner predicts")
    tokens_in, tokens_out, batch = load
    return Statement(
        id=identity,
        source=str(entry.get("source", "")),
        phase=phase,
        model=known["models"].get(str(entry["model"]), str(entry["model"])),
        accelerator=gpu["accelerator"],
        node=gpu["node"],
        engine=engine["engine"],
        linear_precision=words["linear"],
        moe_precision=words["moe"],
        kv=next((word for word in ("fp8", "bf16") if re.search(rf"\b{word}", str(entry.get("kv_dtype", "")))), ""),
        layout=layout,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        batch=batch,
        bench=_bench(str(entry.get("source")), text, known),
        # DeepSeek's prefill rate is given without the tokens found in the cache.
        cache_hit_rate=float(entry.get("cache_hit_rate") or 0.0),
        two_batch=_any(known["two_batch_words"], text) and not _any(known["no_overlap_words"], text),
        balanced=_any(known["balanced_words"], text),
        workers=workers,
        redundant_experts=_redundant(text),
        figures=figures,
        notes=tuple(notes),
    )


def _bench(source: str, text: str, known: Mapping[str, Any]) -> str:
    """Kind of benchmark (hardware_db/efficiency/runs.yaml): whose client, else whether all lengths are alike."""
    if _any(known["inferencex_words"], source):
        return "inferencex"
    return "mixed" if _any(known["mixed_length_words"], text) else "other"


def _redundant(text: str) -> int | None:
    match = re.search(r"(\d+) redundant experts", text)
    return int(match[1]) if match else None


def _reason(entry: Entry, phase: str, text: str, known: Mapping[str, Any]) -> str:
    """Why a point cannot be stated, by the first thing that is missing."""
    if phase == "op":
        return "an operator, a fact or arithmetic: no serving figure"
    if phase == "disagg":
        return "a fleet of two pools without both layouts and the load"
    if _any(known["not_measured_words"], text):
        return "not measured: a bound, a projection or quoted from another row"
    if _any(known["context_parallel_words"], text):
        return "decode context parallelism: not part of the layouts"
    if phase == "agg" and _any(known["finite_words"], text):
        return "one wave of prompts: no steady state"
    if phase == "agg" and _any(known["warm_up_words"], text):
        return "a few prompts with the engine's warm-up among them, waiting in a queue that grew: no steady state"
    if entry.get("mtp") and not str(entry["mtp"]).startswith(NO_MTP):
        return "multi-token prediction: steps of several tokens are not part of the step time"
    gpu = str(entry.get("gpu"))
    if gpu not in known["gpus"]:
        return "accelerator not stated or not in the catalogue"
    if str(entry.get("engine")) not in known["engines"]:
        return "engine not stated or not modelled"
    if str(entry.get("weights_dtype")) not in known["precisions"]:
        return "precision not stated"
    return ""


def _layout(entry: Entry, phase: str) -> dict[str, int] | str:
    """Layout columns; a point with ``ep`` and without ``tp`` runs data-parallel attention on every GPU."""
    given = {k: int(v) for k, v in (entry.get("layout") or {}).items()}
    gpus = int(entry.get("gpus") or 0)
    if not given and gpus != 1:
        return "layout not stated"
    tp, pp, ep = given.get("tp", 1), given.get("pp", 1), given.get("ep", 1)
    if "dp" in given or "tp" not in given or ep > tp:
        dp = given.get("dp", max(ep // tp, 1))
        if tp * dp * pp > gpus > 0 and tp * pp == gpus and tp % dp == 0:
            tp //= dp  # TensorRT-LLM's tp counts all GPUs, its attention data parallelism splits them
        if str(entry.get("gpu")) == "Ascend 910C" and gpus and dp == 2 * gpus:
            dp, ep = gpus, ep // 2  # the source counts dies, the catalogue packages of two
    else:
        dp = 1
    ranks = tp * dp
    if phase == "agg" and gpus and gpus % (ranks * pp) == 0 and gpus > ranks * pp and ep == 1:
        return "replicas behind one figure" if entry.get("concurrency") else "layout smaller than its GPUs"
    if ranks % ep:
        return f"ep {ep} does not divide tp x dp = {ranks}"
    return {"tp": tp, "pp": pp, "attention_dp": dp, "moe_tp": ranks // ep, "ep": ep}


def _load(entry: Entry, phase: str, known: Mapping[str, Any], notes: list[str]) -> tuple[float, float, float] | str:
    """Input and output tokens and batch, or what is missing."""
    if entry.get("isl") is None:
        return "lengths not stated"
    tokens_in, tokens_out = float(entry["isl"]), float(entry.get("osl") or 0.0)
    if phase == "prefill":
        if entry.get("concurrency") == 1 and entry.get("batch_per_gpu") is None:
            return "one prompt's time to first token, not a rate"
        batch = entry.get("batch_per_gpu")
        if batch is None:
            batch = known["prefill_tokens_per_gpu"]
            notes.append(f"{batch:,} prompt tokens per GPU and step assumed")
        return tokens_in, tokens_out, float(batch)
    if phase == "decode":
        return (
            (tokens_in, tokens_out, float(entry["batch_per_gpu"])) if entry.get("batch_per_gpu") else "batch not stated"
        )
    if not tokens_out:
        return "lengths not stated"
    if entry["metrics"].get("arrival_rate_req_per_s") or entry["metrics"].get("request_rate_per_s"):
        return "a finite run at an offered rate: no steady state"
    if entry.get("concurrency"):
        return tokens_in, tokens_out, float(entry["concurrency"])
    if str(entry.get("engine")) == "TensorRT-LLM":
        notes.append("offline: all requests given at once")
        return tokens_in, tokens_out, float(known["offline_concurrency"])
    return "load not stated"


def _figures(entry: Entry, phase: str, layout: Mapping[str, int]) -> dict[str, float]:
    metrics = entry["metrics"]
    if phase == "agg":
        found = {name: next((metrics[k] for k in keys if k in metrics), None) for name, keys in LOOP_FIGURES.items()}
        offline = not entry.get("concurrency")
        return {
            name: float(value)
            for name, value in found.items()
            if isinstance(value, int | float) and not (offline and name != "output_tok_per_s")
        }
    gpus = float(entry.get("gpus") or layout["tp"] * layout["attention_dp"] * layout["pp"])
    for key in DECODE_RATES if phase == "decode" else PREFILL_RATES:
        if isinstance(metrics.get(key), int | float):
            per_node = gpus / float(entry.get("nodes") or 1)
            share = per_node if "_per_node" in key else gpus if key.endswith("_total") else 1.0
            return {"tok_per_s_per_gpu": float(metrics[key]) / share}
    return {}


def _any(words: list[str], text: str) -> bool:
    low = text.lower()
    return any(w.lower() in low for w in words)

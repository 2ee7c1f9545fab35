"""A scenario with every key, and a way to spoil one of them."""

from __future__ import annotations

import copy
from typing import Any

VALID: dict[str, Any] = {
    "schema": "planner.scenario/1",
    "name": "chat",
    "description": "a test",
    "model": "deepseek-v3",
    "precision": {"kv": "bf16"},
    "hardware": {
        "candidates": [{"node": "dgx-h200", "min_nodes": 1, "max_nodes": 2, "gpus": 8}],
        "pools": {"prefill": [{"node": "dgx-h200"}], "decode": [{"node": "dgx-h100"}]},
        "max_gpus_per_worker": 16,
    },
    "engine": {
        "name": "vllm",
        "version": "0.11.0",
        "options": {
            "gpu_memory_utilization": 0.9,
            "max_num_seqs": 256,
            "max_num_batched_tokens": 8192,
            "max_model_len": 16384,
            "chunked_prefill": True,
            "cuda_graphs": True,
            "two_batch_overlap": False,
            "redundant_experts": 0,
            "expert_skew": 0.5,
        },
    },
    "workload": {
        "input_tokens": {"kind": "lognormal", "mean_tokens": 1000, "p95_tokens": 3000},
        "output_tokens": {"kind": "uniform", "min_tokens": 10, "max_tokens": 500},
        "arrival": {"kind": "gamma", "rate_rps": 3.0, "cv": 1.5},
        "prefix_hit_rate": 0.25,
        "max_new_tokens": 1000,
        "tokenizer": "deepseek-ai/DeepSeek-V3",
        "sampling": {"temperature": 0.6, "top_p": 0.95, "ignore_eos": False},
        "priority_classes": [{"name": "all", "share": 1.0, "priority": 0}],
    },
    "slo": {
        "ttft_ms": {"p95": 2000, "mean": 900},
        "tbt_ms": {"p99": 100},
        "tpot_ms": {"mean": 50},
        "e2e_ms": {"p50": 30000},
        "completion_rate": 0.99,
    },
    "objective": "lowest_cost",
    "economics": {"usd_per_gpu_hour": {"dgx-h200": 3.5}},
    "reliability": {"spare_nodes": 1},
    "search": {"serving": ["agg", "disagg"], "concurrency_per_worker": [1, 8, 64]},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The valid scenario with the dotted ``path`` set to ``value`` (``...`` removes it)."""
    data = copy.deepcopy(VALID)
    *parents, last = path.split(".")
    at: Any = data
    for key in parents:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if value is ...:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return data

"""Small reports in each tool's shape, written for these tests."""

from __future__ import annotations

import json
from typing import Any

VLLM: dict[str, Any] = {
    "backend": "vllm",
    "model_id": "openai/gpt-oss-120b",
    "num_prompts": 160,
    "completed": 160,
    "failed": 0,
    "request_rate": "inf",
    "max_concurrency": 16,
    "duration": 100.0,
    "total_input_tokens": 160_000,
    "total_output_tokens": 80_000,
    "request_throughput": 1.6,
    "output_throughput": 800.0,
    "total_token_throughput": 2400.0,
    "mean_ttft_ms": 200.0,
    "median_ttft_ms": 180.0,
    "p99_ttft_ms": 900.0,
    "std_ttft_ms": 100.0,
    "mean_tpot_ms": 19.5,
    "median_tpot_ms": 19.4,
    "p99_tpot_ms": 22.0,
    "mean_itl_ms": 19.5,
}

SGLANG: dict[str, Any] = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": float("inf"),
    "max_concurrency": 4,
    "random_output_len": 100,
    "random_range_ratio": 1.0,
    "duration": 50.0,
    "completed": 40,
    "total_input_tokens": 40_000,
    "total_output_tokens": 4_000,
    "total_output_tokens_retokenized": 3_990,
    "request_throughput": 0.8,
    "output_throughput": 80.0,
    "total_throughput": 880.0,
    "mean_ttft_ms": 500.0,
    "std_ttft_ms": 200.0,
    "mean_e2e_latency_ms": 4_995.0,
    "mean_tpot_ms": 45.4,
    "p99_tpot_ms": 50.0,
    "concurrency": 4.0,
    "accept_length": None,
    "server_info": {
        "version": "0.5.6",
        "internal_states": [
            {
                "model_path": "Qwen/Qwen3-32B",
                "tp_size": 8,
                "dp_size": 4,
                "ep_size": 8,
                "pp_size": 1,
                "enable_dp_attention": True,
                "disaggregation_mode": "null",
                "speculative_algorithm": None,
            }
        ],
    },
}


def guidellm(kind: str = "concurrent", completed: int = 50, errored: int = 0, version: str = "0.3") -> dict[str, Any]:
    def stats(mean: float) -> dict[str, Any]:
        zero = {"mean": 0.0, "median": 0.0, "std_dev": 0.0, "count": 0, "percentiles": {"p50": 0.0, "p99": 0.0}}
        good = {
            "mean": mean,
            "median": mean,
            "std_dev": 0.3 * mean,
            "count": completed,
            "percentiles": {"p50": mean, "p99": 2.0 * mean, "p999": 2.1 * mean},
        }
        return {"successful": good if completed else zero, "errored": zero, "incomplete": zero}

    metrics = {
        "request_latency": stats(2.58),
        "prompt_token_count": stats(1000.0),
        "output_token_count": stats(100.0),
        "time_to_first_token_ms": stats(600.0),
        "time_per_output_token_ms": stats(25.8),
        "inter_token_latency_ms": stats(20.0),
        "requests_per_second": stats(3.1),
        "output_tokens_per_second": stats(310.0),
        "tokens_per_second": stats(3410.0),
        "request_concurrency": stats(8.0),
    }
    totals = {"successful": completed, "errored": errored, "incomplete": 0, "total": completed + errored}
    strategy = {"type_": kind, "streams": 8} if kind == "concurrent" else {"type_": kind, "rate": 3.2}
    if version == "0.3":
        benchmark = {
            "args": {"strategy": strategy},
            "worker": {"backend_model": "Qwen/Qwen3-32B"},
            "request_loader": {"data": "prompt_tokens=1000,output_tokens=100"},
            "request_totals": totals,
            "metrics": metrics,
            "duration": 16.0,
        }
        return {"benchmarks": [benchmark]}
    benchmark = {
        "config": {"strategy": strategy, "backend": {"model": "Qwen/Qwen3-32B", "stream": True}},
        "metrics": {**metrics, "request_totals": totals},
        "duration": 16.0,
    }
    return {"metadata": {"version": 2}, "config": {"spec": {}}, "benchmarks": [benchmark, benchmark]}


AIPERF: dict[str, Any] = {
    "request_throughput": {"unit": "requests/sec", "avg": 4.0},
    "request_latency": {"unit": "ms", "avg": 2000.0, "p50": 1990.0, "p99": 2500.0, "std": 100.0},
    "time_to_first_token": {"unit": "ms", "avg": 100.0, "p50": 95.0, "p99": 300.0, "std": 60.0},
    "inter_token_latency": {"unit": "ms", "avg": 19.19, "p50": 19.0, "p99": 21.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 400.0},
    "output_sequence_length": {"unit": "tokens", "avg": 100.0},
    "input_sequence_length": {"unit": "tokens", "avg": 800.0},
    "request_count": {"unit": "requests", "avg": 200.0},
    "input_config": {
        "endpoint": {"model_names": ["Qwen/Qwen3-32B"], "streaming": True},
        "loadgen": {"concurrency": 8},
    },
}

AIPERF_CSV = """Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std
Time to First Token (ms),100.0,50,400,,51,52,53,70,95,120,180,220,300,60
Inter Token Latency (ms),19.19,18,22,,18,18,18,19,19,19,20,20,21,1
Request Latency (ms),2000.0,1900,2600,,1901,1902,1903,1950,1990,2100,2200,2300,2500,100
Input Sequence Length (tokens),800,800,800,,800,800,800,800,800,800,800,800,800,0
Output Sequence Length (tokens),100,100,100,,100,100,100,100,100,100,100,100,100,0

Metric,Value
Request Count,200.00
Request Throughput (requests/sec),4.0
Output Token Throughput (tokens/sec),400.0

Endpoint,GPU_Index,Metric,avg
x,0,power,400
"""

TRTLLM: dict[str, Any] = {
    "engine": {"model": "Qwen/Qwen3-32B", "version": "1.2.0", "backend": "pytorch", "dtype": "bfloat16"},
    "machine": {"name": "NVIDIA H200"},
    "world_info": {"tp_size": 4, "pp_size": 1, "ep_size": 1, "world_size": 4},
    "request_info": {
        "num_requests": 100,
        "avg_num_concurrent_requests": 32.0,
        "avg_input_length": 1024.0,
        "avg_output_length": 128.0,
    },
    "performance": {
        "total_latency_ms": 10_000.0,
        "avg_request_latency_ms": 3_200.0,
        "request_throughput_req_s": 10.0,
        "system_output_throughput_tok_s": 1280.0,
        "request_latency_percentiles_ms": {"p50": 3_100.0, "p99": 4_000.0, "minimum": 3_000.0},
    },
}

INFERENCE_PERF: dict[str, Any] = {
    "load_summary": {"count": 100, "schedule_delay": {"mean": 0.001}},
    "successes": {
        "count": 100,
        "latency": {
            "request_latency": {"mean": 2.0, "median": 1.9, "p99": 3.0},
            "time_per_output_token": {"mean": 0.018, "median": 0.018},
            "time_to_first_token": {"mean": 0.2, "median": 0.15, "p99.9": 0.9},
            "inter_token_latency": {"mean": 0.018},
        },
        "throughput": {"requests_per_sec": 5.0, "output_tokens_per_sec": 505.0, "total_tokens_per_sec": 5505.0},
        "prompt_len": {"mean": 1000.0},
        "output_len": {"mean": 101.0},
    },
    "failures": {"count": 0, "request_latency": None, "prompt_len": None},
}

LLMD = """metrics:
  latency:
    request_latency: {mean: 2.0, p50: 1.9, p99p9: 3.0, units: s}
    time_to_first_token: {mean: 200.0, p50: 150.0, units: ms}
    time_per_output_token: {mean: 0.018, units: s/token}
  requests:
    failures: 0
    input_length: {mean: 1000.0, units: count}
    output_length: {mean: 101.0, units: count}
    total: 100
  throughput: {output_tokens_per_sec: 505.0, requests_per_sec: 5.0, total_tokens_per_sec: 5505.0}
  time: {duration: 20.0}
scenario:
  load:
    args:
      api: {streaming: true}
      load: {stages: [{rate: 5.0, concurrency_level: null}]}
      server: {model_name: openai/gpt-oss-120b, type: vllm}
    metadata: {stage: 0}
  model: {name: unknown}
version: '0.1'
"""

INFERENCEX: dict[str, Any] = {
    "hw": "h200-cw",
    "conc": 16,
    "image": "vllm/vllm-openai:v0.11.2",
    "model": "openai/gpt-oss-120b",
    "framework": "vllm",
    "precision": "fp4",
    "spec_decoding": "none",
    "disagg": False,
    "isl": 1024,
    "osl": 1024,
    "tp": 4,
    "ep": 1,
    "dp_attention": "false",
    "mean_ttft": 0.08,
    "p99_ttft": 0.2,
    "mean_tpot": 0.0056,
    "mean_e2el": 5.8,
    "tput_per_gpu": 1100.0,
}

CONSOLE = """vllm bench serve \\
  --model openai/gpt-oss-120b --dataset-name random \\
  --random-input-len 1000 --random-output-len=500 \\
  --max-concurrency 16 --num-prompts 160

============ Serving Benchmark Result ============
Successful requests:                     160
Maximum request concurrency:             16
Benchmark duration (s):                  100.00
Total input tokens:                      160000
Total generated tokens:                  80000
Request throughput (req/s):              1.60
Output token throughput (tok/s):         800.00
Total Token throughput (tok/s):          2400.00
---------------Time to First Token----------------
Mean TTFT (ms):                          200.00
Median TTFT (ms):                        180.00
P99 TTFT (ms):                           900.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          19.50
P99 TPOT (ms):                           22.00
==================================================
"""

PLAIN = """model,gpu,engine,input_tokens,output_tokens,concurrency,tp,mean_ttft_ms,p99_ttft_ms,tpot_ms,colour
openai/gpt-oss-120b,h200-sxm,vllm,1000,500,16,4,200,900,19.5,red
"""


def text(data: Any) -> str:
    return json.dumps(data)


ALL: dict[str, str] = {
    "vllm bench serve": text(VLLM),
    "vllm bench serve (printed table)": CONSOLE,
    "sglang.bench_serving": text(SGLANG) + "\n" + text(SGLANG) + "\n",
    "GuideLLM": text(guidellm()),
    "GenAI-Perf / AIPerf": text(AIPERF),
    "trtllm-bench": text(TRTLLM),
    "inference-perf": text(INFERENCE_PERF),
    "llm-d-benchmark": LLMD,
    "InferenceX": text([INFERENCEX, INFERENCEX]),
    "CSV of runs": PLAIN,
}
"""Format -> a report in it."""

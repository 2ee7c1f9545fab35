"""Speed of the replay: ``python benchmarks/replay.py`` replays 100,000 requests of a conversation trace on one core.

The trace has the lengths of the fixed trace of long documents (Mooncake's conversation trace, prefix blocks included)
or of short questions; Llama-3.3-70B on H100 nodes, TP4, vLLM-like scheduling. Prints seconds and requests per second,
one line a trace; ``--requests N`` replays fewer.
"""

from __future__ import annotations

import argparse
import time

CASES = (("long_document_qa", 16, 8.0), ("short_qa", 4, 40.0))
"""Trace, workers, requests per second."""


def scenario(rate_rps: float) -> dict[str, object]:
    return {
        "schema": "planner.scenario/1",
        "name": "replay benchmark",
        "model": "llama-3.3-70b",
        "hardware": {"candidates": [{"node": "dgx-h100"}]},
        "engine": {"name": "vllm"},
        "workload": {
            "input_tokens": {"kind": "lognormal", "mean_tokens": 12035, "p95_tokens": 40000},
            "output_tokens": {"kind": "lognormal", "mean_tokens": 343, "p95_tokens": 900},
            "arrival": {"kind": "poisson", "rate_rps": rate_rps},
        },
        "slo": {},
    }


def main() -> None:
    """Prints one line a trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    requests = parser.parse_args().requests
    from planner.layout.layouts import Layouts
    from planner.replay.generate import fixed_trace
    from planner.scenario.schema import Scenario
    from planner.search.planning import estimate
    from planner.search.replays import replay_scenario

    for name, workers, rate in CASES:
        trace = fixed_trace(name, requests, seed=0, rate_rps=rate)
        asked = Scenario.from_dict(scenario(rate))
        found = estimate(asked, Layouts.of(tp=4), concurrency=64).candidate
        candidate = found.model_copy(update={"replicas": workers, "gpus": 4 * workers})
        start = time.perf_counter()
        answer = replay_scenario(asked, trace=trace, candidate=candidate)
        seconds = time.perf_counter() - start
        found_rate = answer.replayed.throughput_rps
        print(
            f"{name}: {len(answer.trace):,} requests on {workers} workers in {seconds:.1f} s, "
            f"{len(answer.trace) / seconds:,.0f} requests/s ({found_rate:.2f} of {rate:g} requests/s served)"
        )


if __name__ == "__main__":
    main()

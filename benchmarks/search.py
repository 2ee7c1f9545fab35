"""Speed and memory of the search: ``python benchmarks/search.py`` prints five numbers, one to a line.

* ``points_per_s``: (layout x operating point) estimates per second, each with its memory budget, both step breakdowns
  and the closed loop; DeepSeek-V3 on H200 nodes, two threads.
* ``plan_s``: the median of five plans of DeepSeek-V3 on every node type of the catalogue, workers of up to 64 GPUs,
  aggregated and disaggregated, for an offered rate under an SLO; modules and catalogue already loaded.
* ``peak_mib``: most resident memory of the process that evaluated the points.
* ``import_s``: ``import planner`` in a fresh process, the fastest of five.
* ``loaded_points_per_s``: the same points with the occupancy and the percentiles of an offered rate on top.

``--points N`` evaluates fewer points and plans once. Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

POINTS = 1_000_000
DIGITS = {"points_per_s": 0, "plan_s": 3, "peak_mib": 0, "import_s": 3, "loaded_points_per_s": 0}
MAX_GPUS = 64

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def scenario(nodes: list[str], concurrency: list[int] | None = None) -> Any:
    """DeepSeek-V3 under a chat load, on ``nodes``."""
    from planner.scenario.schema import Scenario

    return Scenario.model_validate(
        {
            "schema": "planner.scenario/1",
            "name": "benchmark",
            "model": "deepseek-v3",
            "hardware": {"candidates": [{"node": n} for n in nodes], "max_gpus_per_worker": MAX_GPUS},
            "engine": {"name": "sglang"},
            "workload": {
                "input_tokens": {"kind": "fixed", "tokens": 2000},
                "output_tokens": {"kind": "fixed", "tokens": 500},
                "prefix_hit_rate": 0.3,
                "arrival": {"kind": "poisson", "rate_rps": 200.0},
            },
            "slo": {"ttft_ms": {"mean": 2000.0}, "tpot_ms": {"mean": 50.0}},
            "objective": "lowest_cost",
            "search": {"serving": ["agg", "disagg"], "concurrency_per_worker": concurrency},
        }
    )


def measure_points(wanted: int, under_rate: bool) -> dict[str, float]:
    """Evaluates ``wanted`` points in one piece, as a plan does; with the percentiles of an offered rate if asked."""
    import numpy as np

    from planner.catalog import catalog
    from planner.search.aggregated import fitting_layouts, points
    from planner.search.counting import sized
    from planner.search.evaluation import evaluate, under_load
    from planner.search.loaded import Loaded, slopes, worker_load
    from planner.search.setup import setup

    s = setup(scenario(["dgx-h200"], list(range(1, 3000, 6))), catalog())
    hw = s.hardware(s.scenario.hardware.candidates[0])
    fitting = fitting_layouts(s, hw, MAX_GPUS)
    every = points(s, hw, fitting.layouts, fitting.limit)
    rows = np.linspace(0, len(every) - 1, wanted).astype(np.int64)  # of every layout, settings and concurrency
    workers = every.take(rows)
    del every
    evaluate(s, workers.take(np.arange(min(1000, wanted))))  # curves and coefficients, read once
    start = time.perf_counter()
    loop, _, stage = evaluate(s, workers)
    if under_rate:
        slope = slopes(s, workers, stage.decode_s, 1)
        result = under_load(s, Loaded(worker_load(s, sized(workers, s.rate_rps or 1.0, loop), stage, slope)))
        assert result.stable.size == wanted
    seconds = time.perf_counter() - start
    assert np.isfinite(loop.tpot_s).all()
    assert loop.tpot_s.size == wanted
    if under_rate:
        return {"loaded_points_per_s": wanted / seconds}
    return {"points_per_s": wanted / seconds, "peak_mib": _peak_mib()}


def measure_plan(repeat: int) -> dict[str, float]:
    """Plans on every node type of the catalogue."""
    from planner.catalog import catalog
    from planner.search.planning import plan

    known = catalog()
    everything = scenario(list(known.node_ids()))
    plan(scenario(["dgx-h200"]), known)
    return {"plan_s": median(_seconds(lambda: plan(everything, known)) for _ in range(repeat))}


def measure_import() -> dict[str, float]:
    code = "import time; a = time.perf_counter(); import planner; print(time.perf_counter() - a)"
    found = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)]
    for _ in range(4):
        found.append(float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout))
    return {"import_s": min(found)}


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _peak_mib() -> float:
    """Most resident memory so far; Linux counts KiB, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024.0 if sys.platform != "darwin" else 1024.0**2)


def _in_own_process(part: str, points: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--part", part, "--points", str(points)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--part", choices=("points", "plan", "loaded"))
    given = parser.parse_args()
    if given.part:
        plans = 5 if given.points >= POINTS else 1
        found = measure_plan(plans) if given.part == "plan" else measure_points(given.points, given.part == "loaded")
        print(json.dumps(found))
        return
    found = measure_import()
    for part in ("points", "plan", "loaded"):
        found |= _in_own_process(part, given.points)
    for name, digits in DIGITS.items():
        print(f"{name}={found[name]:.{digits}f}")


if __name__ == "__main__":
    main()

"""``import planner`` stays fast and light; the benchmark of the search runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("pandas", "plotly", "streamlit", "scipy", "openpyxl", "typer", "numpy", "pydantic")
MOST_S = 0.3


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, planner; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name for name in done.stdout.split() if name.partition(".")[0] in HEAVY}


def test_planning_does_not_load_the_interface() -> None:
    code = "import sys, planner; planner.plan, planner.sheet; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {n for n in done.stdout.split() if n.partition(".")[0] in ("pandas", "plotly", "streamlit", "openpyxl")}


def test_importing_is_fast() -> None:
    """The fastest of a few: a busy machine must not fail it."""
    code = "import time; a = time.perf_counter(); import planner; print(time.perf_counter() - a)"
    found = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(found) < MOST_S


def test_the_benchmark_prints_its_numbers() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "search.py"), "--points", "50000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    values = dict(line.split("=") for line in done.stdout.split())
    assert list(values) == ["points_per_s", "plan_s", "peak_mib", "import_s", "loaded_points_per_s"]
    assert all(float(value) > 0 for value in values.values())  # how fast is read, not tested: machines are busy
    assert float(values["peak_mib"]) < 1024

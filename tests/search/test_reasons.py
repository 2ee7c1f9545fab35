"""Fixes that hardly anybody can pay say how large they are."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from planner.search.fixes import VAST_GPUS
from planner.search.planning import plan
from planner.search.reasons import _with_size
from planner.ui import gallery, phrases


def test_a_vast_fix_says_how_many_gpus_it_takes() -> None:
    table = SimpleNamespace(gpus=np.array([8, VAST_GPUS, 12_800]), describe=lambda i: "TP8 on dgx-h100")
    named = _with_size(cast(Any, table))
    assert [named(i) for i in range(2)] == ["TP8 on dgx-h100"] * 2
    assert named(2) == "TP8 on dgx-h100, 12,800 GPUs in all"
    assert phrases.known(f"1,600 nodes instead of 4 ({named(2)})")


def test_the_example_plan_names_no_vast_fleet() -> None:
    """Aggregated serving of the first example takes 15,280 GPUs and more to keep the limit on TPOT."""
    fixes = [r.fix for r in plan(gallery.example(gallery.FIRST).scenario).rejected if r.reason.startswith("slo_")]
    assert fixes
    assert not any("in all" in fix for fix in fixes if fix)

"""Fixes that hardly anybody can pay say how large they are; sentences about room say what memory holds."""

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


def test_the_largest_number_of_requests_is_what_memory_holds() -> None:
    """Where nothing larger was evaluated though memory would hold more, the sentence says so with the number."""
    said = 0
    for c in plan(gallery.example("llama-3.3-70b-mi300x").scenario).candidates:
        if c.max_concurrency is None or c.concurrency_per_worker is None or c.prefill_pool is not None:
            continue
        most = c.max_concurrency / c.replicas
        for text in c.explanation:
            if text.startswith("Memory holds no more than"):
                assert c.concurrency_per_worker + 1.0 > most
            elif text.startswith("More requests per worker were not evaluated"):
                assert c.concurrency_per_worker + 1.0 <= most
                assert text.endswith(f"memory would hold {most:,.0f}.")
                said += 1
    assert said

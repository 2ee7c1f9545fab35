"""Fixes that hardly anybody can pay say how large they are."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from planner.catalog import catalog
from planner.scenario.schema import Scenario
from planner.search.aggregated import aggregated_deployments, fitting_layouts
from planner.search.fixes import VAST_GPUS
from planner.search.planning import plan
from planner.search.reasons import _with_size, rejections
from planner.search.setup import setup
from planner.ui import draft, gallery, phrases


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


def test_what_reaches_one_limit_is_no_way_out_where_it_breaks_another() -> None:
    """Fewer and fuller workers keep a limit on the gaps between tokens and break the one on the first token."""
    lengths = {"input_tokens": (3000, 9000), "output_tokens": (600, 1800)}
    scenario = Scenario.from_dict(
        {
            "schema": "planner.scenario/1",
            "name": "bursts",
            "model": "qwen3-235b-a22b",
            "hardware": {"candidates": [{"node": "dgx-h100", "max_nodes": 32}], "max_gpus_per_worker": 16},
            "engine": {"name": "vllm"},
            "workload": {
                **{k: {"kind": "lognormal", "mean_tokens": m, "p95_tokens": p} for k, (m, p) in lengths.items()},
                "arrival": {"kind": "gamma", "rate_rps": 20, "cv": 2},
            },
            "slo": {"ttft_ms": {"p99": 3000}, "tbt_ms": {"p99": 120}},
        }
    )
    s = setup(scenario, catalog())
    hw = s.hardware(scenario.hardware.candidates[0])
    table = aggregated_deployments(s, hw, fitting_layouts(s, hw, 16))
    assert table is not None
    serving = {table.describe(int(i)) for i in np.flatnonzero(table.rejections.feasible)}
    fixes = {r.reason: r.fix for r in rejections(s, [table], (), ()) if r.reason in ("slo_ttft", "slo_tbt")}
    assert len(fixes) == 2
    for fix in fixes.values():
        assert fix is not None
        assert fix.partition(" reaches")[0] in serving, fix


def test_what_serves_in_separate_pools_is_named_where_no_single_kind_of_worker_does() -> None:
    """Within one rack no aggregated worker keeps the limit on TPOT; the plan does, with pools."""
    made = plan(draft.build(gallery.example("kimi-k2-gb200").scenario, {"max_nodes.gb200-nvl72": 1}))
    assert {c.serving for c in made.candidates} == {"disagg"}
    fixes = [r.fix for r in made.rejected if r.reason in ("slo_tpot", "slo_ttft")]
    assert len(fixes) == 2
    for fix in fixes:
        assert fix is not None
        assert fix.startswith("prefill ")
        assert ", but " not in fix
        assert phrases.known(fix)

"""The questions that spreadsheet cells ask of planning and estimating, with both replaced by hand-made answers."""

from __future__ import annotations

import sys
import types
from typing import Any

import plan_data
import pytest

from planner import sheet
from planner.errors import InfeasibleError, InputError
from planner.layout.layouts import Layouts
from planner.search.plan_schema import Estimate, Plan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Records what is asked; whatever serves more than 100 requests per second is not feasible."""
    calls: list[dict[str, Any]] = []

    def plan(scenario: Any, catalog: Any = None) -> Plan:
        calls.append({"scenario": scenario})
        return plan_data.plan((scenario.workload.arrival.rate() or 0) <= 100, scenario=scenario)

    def estimate(scenario: Any, layout: Layouts, *, node: str, concurrency: float, catalog: Any = None) -> Estimate:
        calls.append({"scenario": scenario, "layout": layout, "node": node, "concurrency": concurrency})
        whole = plan_data.plan()
        return Estimate(
            scenario=scenario,
            identity=whole.identity,
            candidate=whole.candidates[0],
            feasible=concurrency <= 100,
            rejected=() if concurrency <= 100 else whole.rejected[:1],
            versions=whole.versions,
        )

    module = types.ModuleType("planner.search.planning")
    module.plan, module.estimate = plan, estimate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planner.search.planning", module)
    return calls


def test_times_come_from_a_closed_loop(asked: list[dict[str, Any]]) -> None:
    assert sheet.tpot_ms("deepseek-v3", "dgx-h200", 64, 1000, 500, attention_dp=8, ep=8, kv="fp8") == 43.1
    assert sheet.ttft_ms("deepseek-v3", "dgx-h200", 64.0, 1000, 500, attention_dp=8, ep=8, kv="fp8") == 812.0
    for call in asked:
        scenario = call["scenario"]
        assert scenario.workload.arrival.concurrency == 64
        assert scenario.precision.given() == {"kv": "fp8"}
        assert call["layout"].row(0) == Layouts.of(attention_dp=8, ep=8).row(0)
        assert call["node"] == "dgx-h200"


def test_sizing_asks_for_the_load(asked: list[dict[str, Any]]) -> None:
    assert sheet.min_gpus("deepseek-v3", "dgx-h200", 5, 1000, 500, tpot_limit_ms=50) == 16
    assert sheet.usd_per_mtok("deepseek-v3", "dgx-h200", 3.5, 5, 1000, 500, ttft_limit_ms=2000) == 6.27
    first, second = (call["scenario"] for call in asked)
    assert first.objective == "fewest_gpus"
    assert first.slo.limits() == (("tpot_ms", "mean", 50.0),)
    assert first.workload.arrival.rate() == 5
    assert second.economics.usd_per_gpu_hour == {"dgx-h200": 3.5}
    assert second.objective == "lowest_cost"


def test_what_does_not_fit_says_why(asked: list[dict[str, Any]]) -> None:
    with pytest.raises(InfeasibleError, match="memory"):
        sheet.min_gpus("deepseek-v3", "dgx-h200", 500, 1000, 500)
    with pytest.raises(InfeasibleError, match="160"):
        sheet.tpot_ms("deepseek-v3", "dgx-h200", 500, 1000, 500)


def test_bad_arguments_are_named(asked: list[dict[str, Any]]) -> None:
    for call, said in (
        (lambda: sheet.min_gpus("deepseek-v3", "dgx-h200", -5, 1000, 500), "rate_rps"),
        (lambda: sheet.min_gpus("deepseek-v3", "dgx-h200", 5, 1000, 500, tpot_limit_ms=-1), "tpot_limit_ms: got -1"),
        (lambda: sheet.min_gpus("deepseek-v3", "dgx-h200", 5, 1000, 500, engine="vlm"), "vllm"),
        (lambda: sheet.min_gpus("deepseek-v3", "dgx-h200", 5, 1000, 500, serving="both"), "serving"),
        (lambda: sheet.min_gpus("deepseek-v3", "dgx-h200", 5, 0, 500), "input_tokens"),
        (lambda: sheet.usd_per_mtok("deepseek-v3", "dgx-h200", -3, 5, 10, 500), "usd_per_gpu_hour"),
        (lambda: sheet.tpot_ms("deepseek-v3", "dgx-h200", 0, 1000, 500), "concurrency"),
        (lambda: sheet.tpot_ms("deepseek-v3", "dgx-h200", 8, 10, 500, prefix_hit_rate=1.0), "prefix_hit_rate"),
    ):
        with pytest.raises(InputError, match=said):
            call()
    assert asked == []

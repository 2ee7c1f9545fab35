"""Plans of the examples, made once; layouts that no example chooses, made by hand from them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import planner
from planner.search.plan_schema import Layout, Plan, Pool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FEASIBLE = ("deepseek-v3-h800", "deepseek-r1-h200", "kimi-k2-gb200", "llama-3.3-70b-mi300x", "gpt-oss-120b-h100")


@cache
def example(name: str) -> Plan:
    """The plan of examples/NAME.yaml."""
    return planner.plan(planner.load_scenario(EXAMPLES / f"{name}.yaml"))


def with_layout(plan: Plan, serving: str = "agg", engine: str | None = None, **layout: int) -> Plan:
    """The plan with its first candidate in another layout (disagg: in both pools)."""
    first = plan.candidates[0]
    one = Layout(**layout)
    changes: dict[str, Any] = {"layout": one, "serving": serving, "prefill_pool": None, "decode_pool": None}
    if serving == "disagg":
        pool = Pool(node=first.node, layout=one, workers=2, gpus=2 * one.gpus, nodes=2, memory_gib=first.memory_gib)
        changes |= {"prefill_pool": pool, "decode_pool": pool}
    candidate = first.model_copy(update=changes)
    scenario = plan.scenario
    if engine is not None:
        scenario = scenario.model_copy(update={"engine": scenario.engine.model_copy(update={"name": engine})})
    return plan.model_copy(update={"candidates": (candidate,), "scenario": scenario})


def renamed(plan: Plan, text: str) -> Plan:
    """The plan of a scenario and checkpoint called ``text``."""
    return plan.model_copy(
        update={
            "identity": plan.identity.model_copy(update={"checkpoint": text}),
            "scenario": plan.scenario.model_copy(update={"name": text, "description": text}),
        }
    )

"""Capacity planning for LLM inference in closed form: which GPUs, how many, in which layout, at what cost.

    import planner

    scenario = planner.load_scenario("examples/deepseek-v3-h800.yaml")
    plan = planner.plan(scenario)

Names are imported on first use, so that ``import planner`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import planner.catalog as catalog
    import planner.sheet as sheet
    from planner.catalog import load_model
    from planner.errors import InfeasibleError, InputError, PlannerError
    from planner.layout.experts import place_experts
    from planner.memory.budget import MemoryBudget, memory_budget
    from planner.scenario.load import load_scenario
    from planner.scenario.schema import Scenario
    from planner.search.plan_schema import Candidate, Estimate, Plan
    from planner.search.planning import estimate, plan
    from planner.sweeps.run import sweep

__version__ = "0.1.0"

_EXPORTS = {
    "Candidate": "planner.search.plan_schema",
    "Estimate": "planner.search.plan_schema",
    "InfeasibleError": "planner.errors",
    "InputError": "planner.errors",
    "MemoryBudget": "planner.memory.budget",
    "Plan": "planner.search.plan_schema",
    "PlannerError": "planner.errors",
    "Scenario": "planner.scenario.schema",
    "estimate": "planner.search.planning",
    "load_model": "planner.catalog",
    "load_scenario": "planner.scenario.load",
    "memory_budget": "planner.memory.budget",
    "place_experts": "planner.layout.experts",
    "plan": "planner.search.planning",
    "sweep": "planner.sweeps.run",
}

_SUBMODULES = ("catalog", "sheet")

__all__ = [
    "Candidate",
    "Estimate",
    "InfeasibleError",
    "InputError",
    "MemoryBudget",
    "Plan",
    "PlannerError",
    "Scenario",
    "catalog",
    "estimate",
    "load_model",
    "load_scenario",
    "memory_budget",
    "place_experts",
    "plan",
    "sheet",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"planner.{name}")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    module = importlib.import_module(_EXPORTS[name])
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_SUBMODULES})

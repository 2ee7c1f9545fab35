"""How an engine schedules steps: token budgets, policy, expert dispatch. One YAML per engine,
hardware_db/engines/scheduler/."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from planner.catalog.loader import Catalog
from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate
from planner.errors import InputError
from planner.units import GIB


class TokenBudget(Strict):
    """Default tokens of one step for accelerators with at least ``min_memory_gib`` of memory."""

    min_memory_gib: float
    tokens: PositiveInt


class SchedulerSpec(Strict):
    id: str
    name: str
    policy: Literal["mixed", "prefill_first"]
    "mixed: prefill chunks ride in the same step as decodes; prefill_first: decodes pause while a prefill batch runs."
    token_budget: tuple[TokenBudget, ...] = Field(min_length=1)
    "Prefill tokens (plus decodes when mixed) per step and per attention-DP rank."
    max_num_seqs: PositiveInt
    "Most sequences decoding at once, per attention-DP rank."
    dispatch_in_domain: Literal["gather", "deepep"]
    "How tokens reach experts of other attention-DP ranks inside one scale-up domain."
    dispatch_across: Literal["gather", "deepep"]
    "The same across domains."
    versions: tuple[str, ...] = ()
    sources: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def default_token_budget(self, memory_bytes: float) -> int:
        """Tokens per step the engine takes by itself on an accelerator with ``memory_bytes``."""
        gib = memory_bytes / GIB
        fitting = [b for b in self.token_budget if gib >= b.min_memory_gib]
        return max(fitting, key=lambda b: b.min_memory_gib).tokens


def scheduler_spec(catalog: Catalog, engine: str) -> SchedulerSpec:
    """The scheduler part of an engine. Raises UnknownNameError for an engine that is not known."""
    part = catalog.engine(engine).get("scheduler")
    if part is None:
        raise InputError(f"engine {engine}", None, f"a file hardware_db/engines/scheduler/{engine}.yaml")
    return validate(SchedulerSpec, part, f"engines/scheduler/{engine}.yaml")

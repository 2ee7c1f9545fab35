"""Which layouts a model, a node and an engine allow, and for the others which rule stops them.

The first of :data:`planner.layout.rules.RULES` that a layout breaks is its reason.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError
from planner.layout.engine_rules import DraftMethod, EngineLayoutRules, WorkerRole, engine_rules
from planner.layout.layouts import IntArray, Layouts
from planner.layout.node_shape import NodeShape, node_shape
from planner.layout.rules import ARITHMETIC_RULES, RULES, Context, Rule

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class LayoutReasons:
    """Why layouts are not legal; arrays of shape (n,)."""

    rule: IntArray
    """Index into ``RULES``, -1 where the layout is legal."""
    needed: IntArray
    available: IntArray

    def rule_of(self, i: int) -> Rule | None:
        return None if self.rule[i] < 0 else RULES[int(self.rule[i])]

    def sentence(self, i: int) -> str:
        """Why layout ``i`` is not legal; empty where it is."""
        rule = self.rule_of(i)
        if rule is None:
            return ""
        return rule.sentence.format(needed=int(self.needed[i]), available=int(self.available[i]))

    def counts(self) -> dict[str, int]:
        """Rule id -> number of layouts stopped by it."""
        found = np.bincount(self.rule[self.rule >= 0], minlength=len(RULES))
        return {r.id: int(c) for r, c in zip(RULES, found, strict=True) if c}


def legal(
    spec: ModelSpec,
    layouts: Layouts,
    node: Any,
    engine: str | EngineLayoutRules,
    precision: Any = None,
    *,
    tp_across_nodes: bool = False,
    dispatch_backend: str | None = None,
    drafts: DraftMethod | None = None,
    role: WorkerRole = "serve",
    only: Collection[str] | None = None,
) -> tuple[BoolArray, LayoutReasons]:
    """Which layouts are legal, (n,), and the first rule that each of the others breaks.

    ``precision`` is a precision plan, a mapping of tensor class to format, or None for the checkpoint's own.
    ``tp_across_nodes`` lets tensor parallelism leave the node where the engine can. ``dispatch_backend`` is
    the engine's name of the expert dispatch (``deepep``...). ``drafts`` is how workers draft, None that they do not,
    and ``role`` what they do. ``only`` are the rules to apply, by id; None is all.
    Raises InputError for a node without a known domain, UnknownNameError for an engine without rules.
    """
    rules, shape = engine_rules(engine), node_shape(node)
    context = Context(spec, shape, rules, precision, tp_across_nodes, dispatch_backend, drafts, role)
    n = len(layouts)
    first = np.full(n, -1, dtype=np.int64)
    needed_of, available_of = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for index, rule in enumerate(RULES):
        if only is not None and rule.id not in only:
            continue
        for broken, needed, available in rule.find(layouts, context):
            new = broken & (first < 0)
            first[new] = index
            needed_of[new] = np.broadcast_to(needed, (n,))[new]
            available_of[new] = np.broadcast_to(available, (n,))[new]
    return first < 0, LayoutReasons(first, needed_of, available_of)


def require_possible(spec: ModelSpec, layouts: Layouts, engine: str) -> None:
    """Raises InputError for a layout of a run that the model's shape rules out.

    Rules of an engine's version, of padding and of a node are not asked: where a run was measured, they allowed it.
    """
    possible, why = legal(spec, layouts, NodeShape("any", 1, 1), engine, only=ARITHMETIC_RULES)
    if not possible.all():
        i = int(np.argmin(possible))
        raise InputError("layout", layouts.describe(i), why.sentence(i))

"""Changes of the scenario that answer a refusal, as values of the form: one click applies them, none is ever applied
unasked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import PlannerError
from planner.scenario.schema import NodeChoice, Scenario
from planner.search.better import is_better
from planner.search.fixes import KV_IN_FP8
from planner.search.plan_schema import NearestMiss, Plan, Rejection
from planner.search.setup import DEFAULT_WORKER_GPUS
from planner.ui import draft, state
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import count, duration
from planner.ui.words import latencies, node_label, percentiles

_HIGH_PRECISION_KV = (None, "bf16", "fp16", "fp32")
_LARGEST_WORKER, MOST_NODES = 4096, 100_000
"""Largest values that a scenario may hold."""
SLO = "slo_"
"""How reasons start that are limits on latencies."""
ATTEMPTS, MARGIN = 4, 0.01
"""Plans asked for until a change serves the scenario, and how far a limit moved goes beyond the value reached: doubled
at every attempt.
"""
BETTER_ATTEMPTS = 2
"""The same beside a plan that stands already."""


@dataclass(frozen=True)
class Remedy:
    """``values`` put into the form (fields of :mod:`planner.ui.draft`), and what a button says about them."""

    label: str
    values: tuple[tuple[str, Any], ...]


def remedies(scenario: Scenario, refused: Rejection | NearestMiss) -> list[Remedy]:
    """What would let the refused deployment through, the smallest change first; empty where the scenario has no say."""
    if refused.reason in ("memory", "kv_cache"):
        return _memory(scenario, refused)
    if refused.reason in ("nodes", "max_gpus", "rate"):
        return _counts(scenario, refused)
    metric = limited(refused)
    return [] if metric is None else _limit(scenario, metric, refused.needed)


def limited(refused: Rejection | NearestMiss) -> str | None:
    """The metric whose limit refuses a deployment (ttft_ms, ...); None where it is another reason."""
    return f"{refused.reason.removeprefix(SLO)}_ms" if refused.reason.startswith(SLO) else None


def proven(
    scenario: Scenario,
    refused: NearestMiss | Rejection,
    ask: Callable[[Scenario], Plan],
    start: Remedy | None = None,
) -> Remedy | None:
    """The change that lets a refused deployment through, ``start`` or else a limit moved first, with a plan to show for
    it. None where :data:`ATTEMPTS` plans do not get there.
    """
    return _proven(scenario, refused, ask, start, lambda p: p.best is not None, lambda p: p.nearest_misses, ATTEMPTS)


def proven_better(
    scenario: Scenario, plan: Plan, missed: NearestMiss, ask: Callable[[Scenario], Plan]
) -> Remedy | None:
    """The change that makes way for ``missed``, with a plan to show for it that is better than ``plan`` by what the
    scenario asks for (:func:`planner.search.better.is_better`); None where :data:`BETTER_ATTEMPTS` do not get there.
    """

    def better(changed: Plan) -> bool:
        have = plan.best
        return changed.best is not None and have is not None and is_better(changed.best, have, scenario.objective)

    def same_limit(changed: Plan) -> tuple[NearestMiss, ...]:
        return tuple(m for m in changed.better if m.reason == missed.reason)

    return _proven(scenario, missed, ask, None, better, same_limit, BETTER_ATTEMPTS)


def _proven(
    scenario: Scenario,
    refused: NearestMiss | Rejection,
    ask: Callable[[Scenario], Plan],
    start: Remedy | None,
    enough: Callable[[Plan], bool],
    missed: Callable[[Plan], Sequence[NearestMiss]],
    attempts: int,
) -> Remedy | None:
    """The value that a refused deployment reaches is known before it is refined, and refining may move it: so the
    changed scenario is planned, the limit moved on (or another remedy added, for what the plan has ``missed``) until
    ``ask`` has a plan that is ``enough``.
    """
    parts: dict[tuple[str, ...], Remedy] = {}
    now: NearestMiss | Rejection | None = refused
    for attempt in range(attempts):
        metric = None if now is None else limited(now)
        if now is None:
            return None
        beyond = 1.0 + MARGIN * 2.0**attempt
        if attempt == 0 and start is not None:
            found = [start]
        elif metric is None:
            found = remedies(with_values(scenario, parts.values()), now)[:1]
        else:
            found = _limit(scenario, metric, None if now.needed is None else beyond * now.needed)
        if not found:
            return None
        parts[tuple(field for field, _value in found[0].values)] = found[0]
        try:
            plan = ask(with_values(scenario, parts.values()))
        except PlannerError:
            return None
        if enough(plan):
            label = " + ".join(one.label for one in parts.values())
            return Remedy(label, tuple(v for one in parts.values() for v in one.values))
        now = next(iter(missed(plan)), None)
    return None


def with_values(scenario: Scenario, changes: Iterable[Remedy]) -> Scenario:
    """``scenario`` with what ``changes`` put into the form."""
    return draft.build(scenario, dict(value for one in changes for value in one.values))


def _memory(scenario: Scenario, refused: Rejection | NearestMiss) -> list[Remedy]:
    """A cache of 8 bits where that is enough; and what it takes to run the smallest worker that fits."""
    out = []
    if scenario.precision.kv in _HIGH_PRECISION_KV and KV_IN_FP8 in (refused.fix or ""):
        out.append(Remedy(_("KV cache in fp8"), (("precision.kv", "fp8"),)))
    if refused.fits_gpus is None:
        return out
    values: list[tuple[str, Any]] = []
    parts = []
    if (scenario.hardware.max_gpus_per_worker or DEFAULT_WORKER_GPUS) < refused.fits_gpus:
        values.append(("max_gpus_per_worker", refused.fits_gpus))
        parts.append(_worker(refused.fits_gpus).label)
    for choice in _of_node(scenario, refused):
        here = state.catalog().node(choice.node).gpus if choice.node in state.catalog().node_ids() else 0
        used = choice.gpus or here
        if choice.gpus is not None and used * (choice.max_nodes or 1) < refused.fits_gpus:
            values.append((f"gpus.{choice.node}", None))
            parts.append(_("all GPUs of each {node}").format(node=node_label(choice.node)))
            used = here
        if choice.max_nodes is not None and used and used * choice.max_nodes < refused.fits_gpus:
            one = _nodes(choice, math.ceil(refused.fits_gpus / used))
            values += one.values
            parts.append(one.label)
    return [*out, Remedy(" + ".join(parts), tuple(values))] if values else out


def _of_node(scenario: Scenario, refused: Rejection | NearestMiss) -> list[NodeChoice]:
    """The node types that the numbers are of: the miss's own, or the only one; none where that is not said."""
    known = scenario.hardware.candidates
    if isinstance(refused, NearestMiss):
        return [c for c in known if c.node == refused.node]
    return list(known) if len(known) == 1 else []


def _worker(gpus: int) -> Remedy:
    label = ngettext("workers of up to {n} GPU", "workers of up to {n} GPUs", gpus).format(n=count(gpus))
    return Remedy(label, (("max_gpus_per_worker", gpus),))


def _nodes(choice: NodeChoice, nodes: int) -> Remedy:
    label = ngettext("up to {n} node of {node}", "up to {n} nodes of {node}", nodes).format(
        n=count(nodes), node=node_label(choice.node)
    )
    return Remedy(label, ((f"max_nodes.{choice.node}", nodes),))


def _counts(scenario: Scenario, refused: Rejection | NearestMiss) -> list[Remedy]:
    if refused.needed is None or not refused.available:
        return []
    if refused.reason == "max_gpus":
        return [_worker(math.ceil(refused.needed))] if refused.needed <= _LARGEST_WORKER else []
    limited = [c for c in _of_node(scenario, refused) if c.max_nodes is not None]
    out = []
    for choice in limited:
        now = choice.max_nodes or 0
        nodes = math.ceil(now * refused.needed / refused.available - 1e-9)
        if refused.reason == "nodes":
            nodes = math.ceil(refused.needed - 1e-9)
        if now < nodes <= MOST_NODES:
            out.append(_nodes(choice, nodes))
    return out


def _limit(scenario: Scenario, metric: str, needed: float | None) -> list[Remedy]:
    """The limit moved to ``needed``, the value reached in ms; nothing where the form does not show the limit broken."""
    given = getattr(scenario.slo, metric)
    if given is None or needed is None or not math.isfinite(needed):
        return []
    shown, limit = next(iter(given.given().items()))
    if needed <= limit:
        return []
    reached = _up(needed)
    label = _("{metric} limit ({percentile}) of {limit} instead of {now}").format(
        metric=latencies()[metric][1],
        percentile=percentiles()[shown],
        limit=duration(reached),
        now=duration(limit),
    )
    return [Remedy(label, ((f"slo.{metric}.limit", reached),))]


def _up(value: float) -> float:
    """``value`` with three significant digits, rounded up: rounded down it would not be enough."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.6g}")

"""What if one thing were different: the fields that can be varied, values around the present one, and the plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from typing import Any

from planner.catalog import Catalog
from planner.errors import PlannerError
from planner.scenario.schema import LATENCY_METRICS, Scenario
from planner.search.plan_schema import Candidate, Plan
from planner.ui import draft
from planner.ui.i18n import _
from planner.ui.numbers import exact
from planner.ui.words import arrival_kinds, latencies, node_label

FACTORS = (0.5, 0.7, 1.0, 1.5, 2.0)
"""Values tried, as multiples of the present one."""
MAX_POINTS = 12
Put = Callable[[Any], draft.Fields]


@dataclass(frozen=True)
class Variable:
    """A field to vary: ``values`` to try, ``now`` the present one, ``put`` the form's values for one of them."""

    id: str
    name: str
    axis: str
    values: tuple[Any, ...]
    now: Any
    put: Put
    show: Callable[[Any], str] = exact
    low: float = 0.0
    high: float = 1e9
    whole: bool = False

    @property
    def numeric(self) -> bool:
        """Whether values lie on an axis (they are names otherwise)."""
        return not isinstance(self.now, str)


@dataclass(frozen=True)
class Point:
    """A value, and the plan or the error that it leads to."""

    value: Any
    plan: Plan | None
    error: PlannerError | None = None

    @property
    def best(self) -> Candidate | None:
        """The recommended deployment; None where there is none."""
        return None if self.plan is None else self.plan.best


def variables(scenario: Scenario, nodes: tuple[str, ...]) -> dict[str, Variable]:
    """What can be varied in ``scenario``; ``nodes`` are the node types to choose among."""
    found = [*_limits(scenario), _load(scenario), *_lengths(scenario), _hits(scenario), *_prices(scenario)]
    if nodes and scenario.hardware.candidates:
        found.append(_node(scenario, nodes))
    return {v.id: v for v in found}


def _around(now: float, whole: bool = False) -> tuple[Any, ...]:
    values = [float(f"{f * now:.3g}") if f != 1.0 else now for f in FACTORS]
    return tuple(dict.fromkeys(max(round(v), 1) for v in values)) if whole else tuple(values)


def _load(s: Scenario) -> Variable:
    arrival = s.workload.arrival
    if arrival.kind == "closed_loop":
        now = arrival.concurrency
        return Variable(
            "load",
            _("Requests in flight"),
            _("Requests in flight"),
            _around(now, True),
            now,
            lambda v: {"arrival.concurrency": int(v)},
            low=1,
            whole=True,
        )
    rate = float(arrival.rate() or 1.0)
    kind = "poisson" if arrival.kind not in arrival_kinds() or arrival.kind == "trace" else arrival.kind
    return Variable(
        "load",
        _("Load"),
        _("Requests per second"),
        _around(rate),
        rate,
        lambda v: {"arrival.kind": kind, "arrival.rate": float(v)},
        low=1e-6,
    )


def _limits(s: Scenario) -> Iterator[Variable]:
    for metric in reversed(LATENCY_METRICS):
        given = getattr(s.slo, metric)
        if given is None:
            continue
        now = next(iter(given.given().values()))
        short = latencies()[metric][1]
        yield Variable(
            metric,
            _("{metric} limit").format(metric=short),
            _("{metric} limit, ms").format(metric=short),
            _around(now),
            now,
            _put(f"slo.{metric}.limit", float),
            show=lambda v: f"{exact(v)} ms",
            low=1e-3,
        )


def _put(field: str, kind: type) -> Put:
    return lambda v: {field: kind(v)}


def _lengths(s: Scenario) -> Iterator[Variable]:
    for short, name in (("in", _("Input length")), ("out", _("Output length"))):
        length = getattr(s.workload, draft.LENGTHS[short])
        if length.kind == "empirical":
            continue
        now = max(round(length.mean()), 1)
        yield Variable(
            short,
            name,
            _("{name}, tokens (mean)").format(name=name),
            _around(now, True),
            now,
            _length(s, short),
            show=lambda v: _("{n} tokens").format(n=exact(v)),
            low=1,
            whole=True,
        )


def _length(s: Scenario, short: str) -> Put:
    """The same shape of distribution, stretched to another mean."""
    before = draft.fields(s)
    kind = before[f"{short}.kind"]

    def put(mean: float) -> draft.Fields:
        if round(mean) == round(getattr(s.workload, draft.LENGTHS[short]).mean()):
            return {}
        scale = mean / getattr(s.workload, draft.LENGTHS[short]).mean()
        if kind == "fixed":
            return {f"{short}.tokens": round(mean)}
        if kind == "uniform":
            low, high = (max(round(scale * before[f"{short}.{end}"]), 1) for end in ("min", "max"))
            return {f"{short}.min": low, f"{short}.max": max(low, high)}
        return {f"{short}.mean": float(mean), f"{short}.p95": scale * before[f"{short}.p95"]}

    return put


def _hits(s: Scenario) -> Variable:
    now = 100.0 * s.workload.prefix_hit_rate
    values = tuple(sorted({0.0, 25.0, 50.0, 75.0, 90.0, float(f"{now:.3g}")}))
    return Variable(
        "hits",
        _("Prefix cache hits"),
        _("Prefix cache hits, % of input tokens"),
        values,
        float(f"{now:.3g}"),
        _put("hit_percent", float),
        show=lambda v: f"{exact(v)} %",
        high=99.0,
    )


def _prices(s: Scenario) -> Iterator[Variable]:
    for key, now in s.economics.usd_per_gpu_hour.items():
        if now > 0:
            yield Variable(
                f"price.{key}",
                _("Price of {node}").format(node=node_label(key)),
                _("US dollars per GPU-hour, {node}").format(node=node_label(key)),
                _around(now),
                now,
                _put(f"price.{key}", float),
                show=lambda v: f"${exact(v)}",
            )


def _node(s: Scenario, nodes: tuple[str, ...]) -> Variable:
    now = s.hardware.candidates[0].node
    others = [n for n in nodes if n != now]
    return Variable(
        "node",
        _("Node type"),
        _("Node type"),
        (now, *others[: len(FACTORS) - 1]),
        now,
        lambda v: {"nodes": [v]},
        show=node_label,
    )


def points(
    scenario: Scenario, variable: Variable, values: tuple[Any, ...], ask: Callable[[Scenario], Plan], pool: Executor
) -> Iterator[Point]:
    """The plans as they come, asked for in ``pool``; everything but the variable stays as it is."""

    def point(value: Any) -> Point:
        try:
            return Point(value, ask(draft.build(scenario, variable.put(value))))
        except PlannerError as error:
            return Point(value, None, error)

    for done in as_completed([pool.submit(point, value) for value in values[:MAX_POINTS]]):
        yield done.result()


def popular(scenario: Scenario, catalog: Catalog, most: int = len(FACTORS)) -> tuple[str, ...]:
    """Node types to try beside those of the scenario: of the same vendor first, with as many GPUs."""
    mine = [c.node for c in scenario.hardware.candidates]
    if not mine or mine[0] not in catalog.node_ids():
        return tuple(mine)
    here = catalog.node(mine[0])
    vendor = catalog.accelerator(here.accelerator).vendor

    def distance(id: str) -> tuple[bool, bool, str]:
        node = catalog.node(id)
        accelerator = catalog.accelerator(node.accelerator)
        slow = accelerator.tflops_dense.bf16 is None or accelerator.memory.bandwidth_gb_s is None
        return (slow or accelerator.vendor != vendor, abs(node.gpus - here.gpus) > 0, id)

    rest = sorted((i for i in catalog.node_ids() if i not in mine), key=distance)
    return (*mine, *rest)[: max(most, len(mine))]

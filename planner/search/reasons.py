"""Why not: everything that was refused, in one list by typed reason, and the nearest misses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from planner.layout.layouts import Layouts
from planner.layout.legality import legal
from planner.memory.budget import MemoryBudget
from planner.model.precision import FORMATS
from planner.search.aggregated import Fitting, fit, fitting_layouts, smallest_chunk
from planner.search.evaluation import budget_of
from planner.search.fixes import (
    KV_IN_FP8,
    VAST_GPUS,
    MemoryTerms,
    fitting_alternative,
    latency_fix,
    longest_fix,
    memory_fix,
    nodes_fix,
)
from planner.search.judge import latency_ms, short_of_nodes
from planner.search.plan_schema import Layout, NearestMiss, Rejection
from planner.search.rejections import (
    REASONS,
    RejectionGroup,
    group,
    merge,
    nearest_misses,
    number,
    progress,
    sentence,
)
from planner.search.setup import Hardware, Setup
from planner.search.table import Deployments
from planner.units import GIB, MILLISECOND

LOOKED_AT = 200
"""Nearest rows of a table among which misses of different layouts are looked for."""
NODE_REFUSED = "hardware_facts"
"""Reason of a node type that cannot be evaluated at all: a fact that its formulas need is not sourced."""


@dataclass(frozen=True)
class Refused:
    """A node type (or pair) left out whole, and why."""

    node: str
    why: str


def rejections(
    s: Setup,
    tables: Sequence[Deployments],
    fits: Sequence[tuple[Hardware, Fitting]],
    refused: Sequence[Refused],
) -> tuple[Rejection, ...]:
    """All refusals, most frequent first."""
    groups: list[RejectionGroup] = []
    for hw, fitting in fits:
        groups += fitting.illegal
        groups += _too_small(s, hw, fitting)
    for table in tables:
        groups += group(table.rejections, table.describe, _fixes(s, table, tables))
    groups += [
        RejectionGroup(NODE_REFUSED, 1, None, None, None, f"{r.node}: {r.why}", "add the fact in a catalogue overlay")
        for r in refused
    ]
    return tuple(Rejection(**g.to_dict()) for g in merge(groups))


def _too_small(s: Setup, hw: Hardware, fitting: Fitting) -> list[RejectionGroup]:
    """Layouts that do not hold a single request of the workload."""
    if fitting.memory is None:
        return []
    i = int(np.argmin(fitting.memory.shortfall))
    memory, layouts = fitting.memory, fitting.too_small
    needed, there = float(memory.total[i]) / GIB, float(memory.capacity[i]) / GIB
    term = max(("weights", "workspace", "graphs"), key=lambda name: float(memory.term(name)[i]))
    reason = REASONS["memory"]
    example = f"{layouts.describe(i)} on {hw.id}: {sentence(reason, needed, there)}"
    if needed <= there:  # weights and one mean request fit, but not the longest request
        longest = float(memory.sequence_bytes(float(s.longest_request))[i]) / GIB
        needed, there, reason = longest, float(memory.kv[i]) / GIB, REASONS["kv_cache"]
        example = f"{layouts.describe(i)} on {hw.id}: {sentence(reason, needed, there)}"
        term = "kv"
    alternative, fitting_gpus = _layout_that_fits(s, hw, fitting)
    fix = memory_fix(_terms(s, memory, i), alternative)
    if term == "kv":
        per_token = float(memory.kv_bytes_per_token[i])
        fix = longest_fix(needed - there, there * GIB / per_token if per_token else np.inf, alternative)
    return [
        RejectionGroup(
            reason=reason.id,
            count=len(layouts),
            needed=needed,
            available=there,
            unit=reason.unit,
            example=example,
            fix=fix,
            term=term,
            fits_gpus=fitting_gpus,
        )
    ]


def _terms(s: Setup, memory: MemoryBudget, i: int) -> MemoryTerms:
    fixed = sum(
        float(memory.term(n)[i]) for n in ("weights", "workspace", "collectives", "graphs", "runtime", "margin")
    )
    return MemoryTerms(
        fixed=fixed,
        kv=float(memory.needed_kv[i]),
        capacity=float(memory.capacity[i]),
        utilization=1.0,
        kv_bytes_per_value=FORMATS[s.precision.kv].bytes_per_value,
    )


def _layout_that_fits(s: Setup, hw: Hardware, fitting: Fitting) -> tuple[str | None, int | None]:
    """The smallest layout on this node type that does fit, with more nodes or GPUs than allowed if need be: in words,
    and its GPUs.
    """
    where = f"on {hw.id}"
    if len(fitting.layouts):
        i = int(np.argmin(fitting.layouts.gpus))
        gpus = int(fitting.layouts.gpus[i])
        return f"{fitting.layouts.describe(i)} {where} fits ({gpus} GPUs)", gpus
    whole = replace(hw, choice=hw.choice.model_copy(update={"max_nodes": None, "gpus": None}))
    wide = s.hardware(whole.choice)
    wider = fitting_layouts(s, wide, 8 * wide.gpus_per_node)
    if not len(wider.layouts):
        return None, None
    memory = budget_of(s, wide, wider.layouts, wider.layouts.attention_dp.astype(float), smallest_chunk(s, wide))
    text = fitting_alternative(
        memory.total, memory.capacity, wider.layouts.gpus, lambda k: f"{wider.layouts.describe(k)} {where}"
    )
    return text, int(wider.layouts.gpus[memory.fits].min()) if memory.fits.any() else None


def _fixes(s: Setup, table: Deployments, tables: Sequence[Deployments] = ()) -> dict[str, Callable[[int], str | None]]:
    """The smallest change for each reason of a table.

    Where nothing of it serves, what does of other ``tables`` is named for a limit: another way of serving or other
    hardware is the way out then.
    """
    crowded = _of(table, "memory")
    short = short_of_nodes(s, table.decode, table.prefill)
    few = crowded | short
    apart = crowded if few.all() else few  # the nearest within the nodes allowed, where there is one
    found: dict[str, Callable[[int], str | None]] = {}
    for metric, level, limit in s.scenario.slo.limits():
        values = latency_ms(table.outcome, metric, level)
        reached = np.where(apart | ~np.isfinite(values), np.nan, values) * MILLISECOND
        name = metric.removesuffix("_ms").upper()

        def fix(
            _: int,
            metric: str = name,
            reached: np.ndarray = reached,
            limit: float = limit,
            key: tuple[str, str] = (metric, level),
        ) -> str | None:
            elsewhere = next((o for o in tables if o.rejections.feasible.any()), None)
            if elsewhere is not None and not table.rejections.feasible.any():
                return _served_by(elsewhere, metric, key, limit)
            within = bool(short.any()) and not few.all()
            serves, broken = table.rejections.feasible, partial(_broken, table)
            all_of = (metric, reached, limit * MILLISECOND, table.gpus, table.describe)
            return latency_fix(*all_of, within_nodes=within, serves=serves, broken=broken)

        found[f"slo_{metric.removesuffix('_ms')}"] = fix
    if _of(table, "nodes").any():
        found["nodes"] = lambda i: _more_nodes(table, i)
    found["memory"] = lambda i: _fewer_requests(s, table, i)
    return found


def _served_by(table: Deployments, name: str, key: tuple[str, str], limit: float) -> str | None:
    """The deployment of the fewest GPUs in a table that serves as asked, with what it reaches of a limit in ms."""
    serves = table.rejections.feasible
    reached = np.where(serves, latency_ms(table.outcome, *key), np.nan) * MILLISECOND
    return latency_fix(name, reached, limit * MILLISECOND, table.gpus, table.describe)


def _broken(table: Deployments, i: int) -> str | None:
    """What deployment ``i`` of a table breaks, in words; None where it serves as asked."""
    r = table.rejections
    code = int(r.code[i])
    return None if code < 0 else sentence(REASONS[r.names[code]], float(r.needed[i]), float(r.available[i]))


def _of(table: Deployments, reason: str) -> np.ndarray:
    """Where this is the reason, (n,)."""
    names = table.rejections.names
    return np.asarray(table.rejections.code == (names.index(reason) if reason in names else len(names)))


def _more_nodes(table: Deployments, i: int) -> str | None:
    """The nodes with which this deployment is let through: it lacks nothing else."""
    r = table.rejections
    return nodes_fix(float(r.needed[i]), float(r.available[i]), _with_size(table)(i))


def _with_size(table: Deployments) -> Callable[[int], str]:
    """Names a deployment; one of so many GPUs that it is no fix in practice says so."""

    def describe(i: int) -> str:
        gpus = int(table.gpus[i])
        return f"{table.describe(i)}, {gpus:,} GPUs in all" if gpus > VAST_GPUS else table.describe(i)

    return describe


def _fewer_requests(s: Setup, table: Deployments, i: int) -> str | None:
    short = f"short by {number(float(table.rejections.needed[i] - table.rejections.available[i]))} GiB per GPU"
    wide = FORMATS[s.precision.kv].bytes_per_value > 1.0
    return f"{short}: fewer requests per worker" + (f", or {KV_IN_FP8}" if wide else "")


def misses(
    s: Setup,
    tables: Sequence[Deployments],
    fits: Sequence[tuple[Hardware, Fitting]],
    refused: Sequence[Refused],
    count: int = 5,
) -> tuple[NearestMiss, ...]:
    """What comes nearest where nothing is feasible: deployments first, then layouts that do not fit memory."""
    found: list[NearestMiss] = []
    for table in tables:
        fixes = _fixes(s, table)
        twice = short_of_nodes(s, table.decode, table.prefill) & ~_of(table, "nodes")
        for i in _distinct(table, nearest_misses(table.rejections, table.gpus, LOOKED_AT, twice), count):
            fix = fixes.get(table.rejections.names[int(table.rejections.code[i])])
            found.append(miss_of(table, i, None if fix is None else fix(i)))
    for hw, fitting in fits:
        for entry in _too_small(s, hw, fitting):
            assert fitting.memory is not None
            i = int(np.argmin(fitting.memory.shortfall))
            found.append(
                NearestMiss(
                    node=hw.id,
                    serving="agg",
                    layout=Layout(**fitting.too_small.row(i)),
                    gpus=int(fitting.too_small.gpus[i]),
                    reason=entry.reason,
                    needed=entry.needed,
                    available=entry.available,
                    unit=entry.unit,
                    text=entry.example,
                    fix=entry.fix,
                    fits_gpus=entry.fits_gpus,
                )
            )
    return tuple(sorted(found, key=_distance)[:count])


def miss_of(table: Deployments, i: int, fix: str | None = None) -> NearestMiss:
    """Refused deployment ``i`` of a table as a plan tells it."""
    r = table.rejections
    reason = REASONS[r.names[int(r.code[i])]]
    needed, there = float(r.needed[i]), float(r.available[i])
    return NearestMiss(
        node=table.decode.hardware.id,
        serving=table.serving,
        layout=Layout(**table.decode.layouts.row(i)),
        gpus=int(table.gpus[i]),
        reason=reason.id,
        needed=needed if np.isfinite(needed) else None,
        available=there if np.isfinite(there) else None,
        unit=reason.unit or None,
        text=f"{table.describe(i)}: {sentence(reason, needed, there)}",
        fix=fix,
    )


def _distinct(table: Deployments, rows: np.ndarray, count: int) -> list[int]:
    """The first row of each layout, at most ``count``."""
    found: dict[tuple[str, ...], int] = {}
    for i in rows.tolist():
        pools = [table.decode] if table.prefill is None else [table.prefill, table.decode]
        found.setdefault(tuple(p.layouts.describe(i) for p in pools), i)
        if len(found) == count:
            break
    return list(found.values())


def _distance(miss: NearestMiss) -> tuple[int, float]:
    """Who came further comes first; then by how little is missing."""
    if not miss.needed or not miss.available:
        return -progress(miss.reason), float("inf")
    return -progress(miss.reason), miss.needed / miss.available


def fitting_rejections(s: Setup, hw: Hardware, layout: Layouts) -> tuple[Fitting, tuple[Rejection, ...]]:
    """One layout: what it holds, and why the engine or the memory refuses it."""
    mask, why = legal(
        s.spec, layout, hw.shape, s.scenario.engine.name, s.precision, tp_across_nodes=True, drafts=s.drafts
    )
    broken: list[RejectionGroup] = []
    if not mask[0]:
        rule = why.rule_of(0)
        assert rule is not None
        broken.append(
            RejectionGroup(
                reason=rule.id,
                count=1,
                needed=float(why.needed[0]),
                available=float(why.available[0]),
                unit=rule.unit,
                example=f"{layout.describe(0)} on {hw.id} with {s.scheduler.name}: {why.sentence(0)}",
                fix=rule.fix,
            )
        )
    fitting = fit(s, hw, layout, ())
    broken += _too_small(s, hw, fitting)
    return fitting, tuple(Rejection(**g.to_dict()) for g in broken)

"""The search as a whole: from a scenario to a ranked, explained plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from planner.catalog.loader import Catalog, data_root
from planner.catalog.loader import catalog as open_catalog
from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.scenario.identity import identity_of
from planner.scenario.schema import NodeChoice, Scenario
from planner.search.aggregated import Fitting, aggregated_deployments, fitting_layouts
from planner.search.assumptions import assumptions
from planner.search.candidate import candidates
from planner.search.disaggregated import decode_points, disaggregated_deployments, prefill_points
from planner.search.headline import deployment
from planner.search.pareto import Direction, pareto_sample
from planner.search.plan_schema import Candidate, Estimate, ParetoPoint, Plan, Versions
from planner.search.plan_schema import Layout as PlanLayout
from planner.search.ranking import rank
from planner.search.reasons import Refused, fitting_rejections, misses, rejections
from planner.search.rejections import nearest_misses
from planner.search.setup import Hardware, Setup, setup
from planner.search.table import Deployments, IntArray
from planner.units import MILLISECOND

LISTED = 30
"""Candidates written out: the best operating point of as many layouts."""
FRONTIER_RESOLUTION = 0.03
"""Relative step within which frontier points count as one."""


def plan(scenario: Scenario, catalog: Catalog | None = None) -> Plan:
    """Every legal layout at every operating point on every node type of the scenario, judged and ranked.

    Raises InputError for a scenario whose names do not resolve; a scenario that nothing serves gives a plan without
    candidates, with the reasons and the nearest misses.
    """
    s = setup(scenario, catalog or open_catalog())
    refused: list[Refused] = []
    tables: list[Deployments] = []
    fits: dict[tuple[str, int | None], tuple[Hardware, Fitting]] = {}
    for choice in _choices(scenario):
        try:
            hw = s.hardware(choice)
            fits[(choice.node, choice.gpus)] = (hw, fitting_layouts(s, hw, _largest(s, hw)))
        except InputError as error:
            refused.append(Refused(choice.node, str(error)))
    for table, why in _tables(s, fits):
        if table is not None:
            tables.append(table)
        if why is not None:
            refused.append(why)
    order = _ranked(s, tables)
    chosen = _distinct(tables, order)
    found = _written(s, tables, chosen)
    used = [hw for hw, _ in fits.values()]
    best = found[0] if found else None
    return Plan(
        scenario=scenario,
        identity=identity_of(
            scenario,
            s.spec,
            s.precision.as_dict(),
            gpu=best.accelerator if best else None,
            topology=_topology(best),
        ),
        versions=versions(s.catalog),
        candidates=tuple(found),
        pareto=_frontier(s, tables, {key: i for i, key in enumerate(chosen, start=1)}),
        rejected=rejections(s, tables, tuple(fits.values()), refused),
        nearest_misses=() if found else misses(s, tables, tuple(fits.values()), refused),
        assumptions=assumptions(s, used, found),
        evaluated=sum(t.evaluated for t in tables),
        feasible=sum(int(t.rejections.feasible.sum()) for t in tables),
    )


def estimate(
    scenario: Scenario,
    layout: Layouts,
    *,
    node: str | None = None,
    concurrency: float | None = None,
    catalog: Catalog | None = None,
) -> Estimate:
    """One aggregated layout on one node type under the scenario's traffic, feasible or not.

    Without ``concurrency`` (requests in flight in a worker) the best operating point of the layout is taken.
    """
    s = setup(scenario, catalog or open_catalog())
    hw = s.hardware(_choice(scenario, node))
    single, broken = fitting_rejections(s, hw, layout)
    limit = np.array([1.0]) if not single.limit.size else single.limit
    fitting = Fitting(layout, limit, single.too_small.take(np.zeros(len(single.too_small), dtype=bool)), None, ())
    table = aggregated_deployments(s, hw, fitting, concurrency)
    assert table is not None
    order = _ranked(s, [table])
    row = order[0][1] if order else int(nearest_misses(table.rejections, table.gpus, 1)[0])
    candidate = candidates(s, table, np.array([row]), {row: 1})[row]
    reasons = (*broken, *rejections(s, [table.take(np.array([row]))], (), ()))
    return Estimate(
        scenario=scenario,
        identity=identity_of(
            scenario, s.spec, s.precision.as_dict(), gpu=hw.accelerator.id, topology=_topology(candidate)
        ),
        candidate=candidate,
        feasible=not reasons,
        rejected=reasons,
        assumptions=assumptions(s, [hw], [candidate]),
        versions=versions(s.catalog),
    )


def _choices(scenario: Scenario) -> list[NodeChoice]:
    pools = scenario.hardware.pools
    chosen = list(scenario.hardware.candidates)
    if pools is not None and "disagg" in scenario.search.serving:
        chosen += [*pools.prefill, *pools.decode]
    return list({(c.node, c.gpus): c for c in chosen}.values())


def _choice(scenario: Scenario, node: str | None) -> NodeChoice:
    known = _choices(scenario)
    if node is None:
        return known[0]
    return next((c for c in known if c.node == node), NodeChoice(node=node))


def _largest(s: Setup, hw: Hardware) -> int:
    """GPUs of the largest worker on a node type: the scenario's limit, within the nodes that it allows."""
    nodes = hw.choice.max_nodes
    return s.max_worker_gpus if nodes is None else min(s.max_worker_gpus, nodes * hw.gpus_per_node)


def _tables(
    s: Setup, fits: Mapping[tuple[str, int | None], tuple[Hardware, Fitting]]
) -> Iterator[tuple[Deployments | None, Refused | None]]:
    serving = s.scenario.search.serving
    if "agg" in serving:
        for choice in s.scenario.hardware.candidates:
            found = fits.get((choice.node, choice.gpus))
            if found is None:
                continue
            try:
                yield aggregated_deployments(s, *found), None
            except InputError as error:
                yield None, Refused(choice.node, str(error))
    if "disagg" in serving:
        yield from _split_tables(s, fits)


def _split_tables(
    s: Setup, fits: Mapping[tuple[str, int | None], tuple[Hardware, Fitting]]
) -> Iterator[tuple[Deployments | None, Refused | None]]:
    pools = s.scenario.hardware.pools
    if pools is None:
        pairs = [(c, c) for c in s.scenario.hardware.candidates]
    else:
        pairs = [(p, d) for p in pools.prefill for d in pools.decode]
    limits = [limit for metric, _, limit in s.scenario.slo.limits() if metric in ("tpot_ms", "tbt_ms")]
    tpot_s = min(limits) * MILLISECOND if limits else None
    for p, d in pairs:
        first, second = fits.get((p.node, p.gpus)), fits.get((d.node, d.gpus))
        if first is None or second is None or not len(first[1].layouts) or not len(second[1].layouts):
            continue
        try:
            yield disaggregated_deployments(s, prefill_points(s, *first), decode_points(s, *second), tpot_s), None
        except InputError as error:
            yield None, Refused(d.node if p.node == d.node else f"{p.node} with {d.node}", str(error))


Key = tuple[int, int]
"""(table, row)."""


def _ranked(s: Setup, tables: list[Deployments]) -> list[Key]:
    """Feasible deployments of all tables, best first."""
    if not tables:
        return []
    columns: dict[str, list[Any]] = {
        "usd_per_mtok": [t.outcome.usd_per_mtok_output for t in tables],
        "gpus": [t.gpus for t in tables],
        "goodput_rps": [t.outcome.throughput_rps / t.gpus for t in tables],
        "joules_per_token": [t.outcome.joules_per_token for t in tables],
        "ttft_s": [t.outcome.ttft_s for t in tables],
        "tbt_s": [t.outcome.tpot_s for t in tables],
        "worker_gpus": [t.decode.layouts.gpus for t in tables],
        "pp": [t.decode.layouts.pp for t in tables],
        "ep": [t.decode.layouts.ep for t in tables],
        "attention_dp": [t.decode.layouts.attention_dp for t in tables],
        "tp": [t.decode.layouts.tp for t in tables],
        "concurrency": [t.decode.concurrency for t in tables],
    }
    joined = {name: np.concatenate([np.asarray(v, dtype=float) for v in parts]) for name, parts in columns.items()}
    feasible = np.concatenate([t.rejections.feasible for t in tables])
    starts = np.cumsum([0, *(len(t) for t in tables)])
    places = rank(joined, s.scenario.objective, feasible)
    table_of = np.searchsorted(starts, places, side="right") - 1
    return [(int(t), int(p - starts[t])) for t, p in zip(table_of, places, strict=True)]


def _distinct(tables: list[Deployments], order: list[Key]) -> list[Key]:
    """The best operating point of each pair of layouts and node types, up to LISTED."""
    chosen: dict[tuple[object, ...], Key] = {}
    for t, row in order:
        table = tables[t]
        pools = [table.decode] if table.prefill is None else [table.prefill, table.decode]
        name = (table.serving, *((p.hardware.id, p.layouts.describe(row)) for p in pools))
        chosen.setdefault(name, (t, row))
        if len(chosen) == LISTED:
            break
    return list(chosen.values())


def _written(s: Setup, tables: list[Deployments], chosen: list[Key]) -> list[Candidate]:
    found: dict[Key, Candidate] = {}
    for t, table in enumerate(tables):
        ranks = {row: i for i, (of, row) in enumerate(chosen, start=1) if of == t}
        if ranks:
            rows: IntArray = np.array(sorted(ranks), dtype=np.int64)
            found |= {(t, row): c for row, c in candidates(s, table, rows, ranks).items()}
    return [found[key] for key in chosen]


def _frontier(s: Setup, tables: list[Deployments], ranks: Mapping[Key, int]) -> tuple[ParetoPoint, ...]:
    """Feasible deployments that no other beats in GPUs, cost, output per GPU, TTFT and TPOT together."""
    out = float(s.traffic.output_tokens)
    rows = [(t, np.flatnonzero(table.rejections.feasible)) for t, table in enumerate(tables)]
    keys = [(t, int(r)) for t, found in rows for r in found]
    if not keys:
        return ()

    def joined(value: str) -> np.ndarray:
        return np.concatenate([getattr(tables[t].outcome, value)[found] for t, found in rows])

    gpus = np.concatenate([tables[t].gpus[found] for t, found in rows]).astype(float)
    cost, ttft, tpot = joined("usd_per_mtok_output"), joined("ttft_s"), joined("tpot_s")
    rate = joined("throughput_rps") * out / gpus
    objectives, directions = [gpus, rate, ttft, tpot], list[Direction](["min", "max", "min", "min"])
    if np.isfinite(cost).any():  # a price that is not known takes no part in the comparison
        objectives.append(cost)
        directions.append("min")
    keep = pareto_sample(objectives, directions, FRONTIER_RESOLUTION)
    points = [_point(tables[keys[k][0]], keys[k], ranks.get(keys[k]), out) for k in keep]
    return tuple(sorted(points, key=lambda p: (p.usd_per_mtok_output or np.inf, p.tpot_ms)))


def _point(table: Deployments, key: Key, place: int | None, output_tokens: float) -> ParetoPoint:
    _, i = key
    o = table.outcome
    gpus = int(table.gpus[i])
    usd, joules = float(o.usd_per_mtok_output[i]), float(o.joules_per_token[i])
    return ParetoPoint(
        rank=place,
        serving=table.serving,
        node=table.decode.hardware.id,
        layout=PlanLayout(**table.decode.layouts.row(i)),
        replicas=int(table.decode.count[i]),
        gpus=gpus,
        concurrency=float(table.decode.concurrency[i] * table.decode.count[i]),
        usd_per_mtok_output=usd if np.isfinite(usd) else None,
        output_tokens_per_s_per_gpu=float(o.throughput_rps[i]) * output_tokens / gpus,
        goodput_rps=float(o.throughput_rps[i]),
        ttft_ms=float(o.ttft_s[i]) / MILLISECOND,
        tpot_ms=float(o.tpot_s[i]) / MILLISECOND,
        joules_per_token=joules if np.isfinite(joules) else None,
    )


def _topology(best: Candidate | None) -> str | None:
    return None if best is None else deployment(best)


def versions(catalog: Catalog) -> Versions:
    """Package, catalogue and coefficients that a result was made with."""
    try:
        package = version("llm-capacity-planner")
    except PackageNotFoundError:
        package = "source tree"
    return Versions(planner=package, catalogue=catalog.version, coefficients=_coefficients_version())


@lru_cache(maxsize=1)
def _coefficients_version() -> str:
    digest = hashlib.sha256()
    root = data_root() / "hardware_db"
    for path in sorted([*(root / "efficiency").rglob("*.yaml"), *(root / "engines").rglob("*.yaml")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]

"""The search as a whole: from a scenario to a ranked, explained plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from planner.catalog.loader import Catalog, data_root
from planner.catalog.loader import catalog as open_catalog
from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.scenario.identity import identity_of
from planner.scenario.schema import NodeChoice, Scenario
from planner.search.aggregated import Fitting, aggregated_deployments, fitting_layouts
from planner.search.assumptions import FEWEST, assumptions, held_at_rate
from planner.search.better import better_misses
from planner.search.blocks import THREADS
from planner.search.candidate import candidates, serves_nothing
from planner.search.disaggregated import decode_points, disaggregated_deployments, prefill_points
from planner.search.headline import deployment
from planner.search.plan_schema import Candidate, Estimate, Plan, Versions
from planner.search.planned import Estimated, Planned
from planner.search.prefixes import with_hits
from planner.search.reasons import Refused, fitting_rejections, misses, rejections
from planner.search.refining import looked_at
from planner.search.rejections import nearest_misses
from planner.search.selection import Feasible, Key, by_objective, distinct, frontier, points, ranked
from planner.search.settling import settle, settled
from planner.search.setup import Hardware, Setup, setup
from planner.search.table import Deployments, IntArray
from planner.units import MILLISECOND

LOOKS = 3
"""Times that the best deployments are looked at step by step: some then miss a limit, and others follow."""
SIDE_BY_SIDE = 4
"""Tables from which two at a time are faster than one after another."""
NO_NETWORK = "workers of several nodes are left out: the network bandwidth is not sourced"
LISTED = 30
"""Candidates written out: the best operating point of as many layouts, and every point of the frontier."""


def plan(scenario: Scenario, catalog: Catalog | None = None) -> Plan:
    """Every legal layout at every operating point on every node type of the scenario, judged and ranked, and the best
    one sized.

    Raises InputError for a scenario whose names do not resolve; a scenario that nothing serves gives a plan without
    candidates, with the reasons and the nearest misses.
    """
    return planned(scenario, catalog).sized()


def planned(scenario: Scenario, catalog: Catalog | None = None) -> Planned:
    """The same before anything is sized, with the deployments behind the candidates."""
    known, reuse = catalog or open_catalog(), scenario.workload.prefix_reuse
    if reuse is None:
        return _planned(scenario, known)
    return with_hits(scenario, reuse, lambda question: _planned(question, known))


def _planned(scenario: Scenario, catalog: Catalog) -> Planned:
    s = setup(scenario, catalog)
    refused: list[Refused] = []
    tables: list[Deployments] = []
    fits: dict[tuple[str, int | None], tuple[Hardware, Fitting]] = {}
    for choice in _choices(scenario):
        try:
            hw = s.hardware(choice)
            most = _largest(s, hw)
            if hw.device.nic_bw is None and most > hw.gpus_per_node:
                most = hw.gpus_per_node
                refused.append(Refused(choice.node, NO_NETWORK))
            fits[(choice.node, choice.gpus)] = (hw, fitting_layouts(s, hw, most))
        except InputError as error:
            refused.append(Refused(choice.node, str(error)))
    for table, why in _tables(s, fits):
        if table is not None:
            tables.append(table)
        if why is not None:
            refused.append(why)
    for last in (*[False] * LOOKS, True):
        tables, chosen, unbeaten = _listed(s, tables)
        closer = tables if last else looked_at(s, tables, chosen, scenario.objective)
        if _same(closer, tables):
            break
        tables = closer
    found = _written(s, tables, chosen)
    used = [hw for hw, _ in fits.values()]
    best = found[0] if found else None
    answer = Plan(
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
        pareto=points(
            tables, unbeaten, {key: i for i, key in enumerate(chosen, start=1)}, float(s.traffic.output_tokens)
        ),
        rejected=rejections(s, tables, tuple(fits.values()), refused),
        nearest_misses=() if found else misses(s, tables, tuple(fits.values()), refused),
        better=better_misses(s, tables, chosen[0] if found else None, scenario.objective),
        assumptions=assumptions(s, used, found),
        evaluated=sum(t.evaluated for t in tables),
        feasible=len(Feasible(tables)),
    )
    rows = [np.array([row for of, row in chosen if of == t], dtype=np.int64) for t in range(len(tables))]
    places = tuple((of, int(np.flatnonzero(rows[of] == row)[0])) for of, row in chosen)
    return Planned(s, answer, tuple(table.take(some) for table, some in zip(tables, rows, strict=True)), places)


def _listed(s: Setup, tables: list[Deployments]) -> tuple[list[Deployments], list[Key], list[Key]]:
    """The tables with whatever is listed settled, what is listed, best first, and the frontier among it."""
    wanted = s.scenario.objective
    while True:
        feasible = Feasible(tables)
        best_of_layouts = distinct(tables, ranked(feasible, wanted), LISTED)
        unbeaten = frontier(feasible, best_of_layouts[0] if best_of_layouts else None)
        chosen = by_objective(tables, list(dict.fromkeys([*best_of_layouts, *unbeaten])), wanted)
        closer = settled(s, tables, chosen)
        if _same(closer, tables):
            return tables, chosen, unbeaten
        tables = closer


def _same(ones: list[Deployments], others: list[Deployments]) -> bool:
    return all(a is b for a, b in zip(ones, others, strict=True))


def estimate(
    scenario: Scenario,
    layout: Layouts,
    *,
    node: str | None = None,
    concurrency: float | None = None,
    catalog: Catalog | None = None,
) -> Estimate:
    """One aggregated layout on one node type under the scenario's traffic, feasible or not.

    Without ``concurrency`` the best operating point of the layout is taken. In a closed loop ``concurrency`` requests
    are in flight in the worker; at an offered rate as many workers are taken as keep no more in each on average.
    """
    return estimated(scenario, layout, node=node, concurrency=concurrency, catalog=catalog).estimate


def estimated(
    scenario: Scenario,
    layout: Layouts,
    *,
    node: str | None = None,
    concurrency: float | None = None,
    catalog: Catalog | None = None,
) -> Estimated:
    """The same with the deployment behind it."""
    s = setup(scenario, catalog or open_catalog())
    hw = s.hardware(_choice(scenario, node))
    single, broken = fitting_rejections(s, hw, layout)
    limit = np.array([1.0]) if not single.limit.size else single.limit
    fitting = Fitting(layout, limit, single.too_small.take(np.zeros(len(single.too_small), dtype=bool)), None, ())
    table = aggregated_deployments(s, hw, fitting, concurrency)
    assert table is not None
    for _ in range(LOOKS):
        table, row = _best_row(s, table)
        (closer,) = looked_at(s, [table], [(0, row)], scenario.objective)
        if closer is table:
            break
        table = closer
    candidate = candidates(s, table, np.array([row]), {row: 1})[row]
    held = not any(r.reason in ("memory", "kv_cache") for r in broken)
    missed = rejections(s, [table.take(np.array([row]))], (), ()) if held else ()
    if s.rate_rps is not None:  # in a closed loop those that memory does not hold wait, and have their times
        held = held and not any(r.reason == "memory" for r in missed)
    reasons = (*broken, *missed)
    taken = assumptions(s, [hw], [candidate])
    if s.rate_rps is not None and concurrency is not None and held:
        said = held_at_rate(candidate, s.rate_rps, concurrency)
        taken = (said, *(text for text in taken if text != FEWEST))
    answer = Estimate(
        scenario=scenario,
        identity=identity_of(
            scenario, s.spec, s.precision.as_dict(), gpu=hw.accelerator.id, topology=_topology(candidate)
        ),
        candidate=candidate if held else serves_nothing(candidate),
        feasible=not reasons,
        rejected=reasons,
        assumptions=(*((ONE_WORKER,) if pools_only(scenario) else ()), *taken),
        versions=versions(s.catalog),
    )
    return Estimated(s, answer, table.take(np.array([row])))


def _best_row(s: Setup, table: Deployments) -> tuple[Deployments, int]:
    """The best row of a table, settled, or the one that comes nearest; and the table."""
    while True:
        best = next(ranked(Feasible([table]), s.scenario.objective), None)
        if best is None:
            return table, int(nearest_misses(table.rejections, table.gpus, 1)[0])
        closer = settle(s, table, np.array(best[1:]))
        if closer is table:
            return table, best[1]
        table = closer


ONE_WORKER = (
    "This is one worker that takes prompts and tokens alike (aggregated), though the scenario's search.serving asks "
    "for separate pools only: a plan looks at those."
)


def pools_only(scenario: Scenario) -> bool:
    """Whether a scenario asks for separate pools and nothing else."""
    return "agg" not in scenario.search.serving


def _choices(scenario: Scenario) -> list[NodeChoice]:
    pools = scenario.hardware.pools
    chosen = list(scenario.hardware.candidates)
    if pools is not None and "disagg" in scenario.search.serving:
        chosen += [*pools.prefill, *pools.decode]
    most: dict[tuple[str, int | None], NodeChoice] = {}
    for c in chosen:  # named for several uses, layouts are those of the most nodes; each use has its own limit
        known = most.setdefault((c.node, c.gpus), c)
        if known.max_nodes is not None and (c.max_nodes is None or c.max_nodes > known.max_nodes):
            most[(c.node, c.gpus)] = c
    return list(most.values())


def _choice(scenario: Scenario, node: str | None) -> NodeChoice:
    known = _choices(scenario)
    if node is None:
        return known[0]
    return next((c for c in known if c.node == node), NodeChoice(node=node))


def _largest(s: Setup, hw: Hardware) -> int:
    """GPUs of the largest worker on a node type: the scenario's limit, within the nodes that it allows."""
    nodes = hw.choice.max_nodes
    return s.max_worker_gpus if nodes is None else min(s.max_worker_gpus, nodes * hw.gpus_per_node)


Job = tuple[str, Callable[[], Deployments | None]]
"""Hardware in words and the evaluation of one serving mode on it."""


def _tables(
    s: Setup, fits: Mapping[tuple[str, int | None], tuple[Hardware, Fitting]]
) -> Iterator[tuple[Deployments | None, Refused | None]]:
    """Every serving mode on every (pair of) node types, a few at a time, in the scenario's order."""

    def run(job: Job) -> tuple[Deployments | None, Refused | None]:
        name, evaluate = job
        try:
            return evaluate(), None
        except InputError as error:
            return None, Refused(name, str(error))

    jobs = [*_whole(s, fits), *_split(s, fits)]
    if len(jobs) < SIDE_BY_SIDE:
        return map(run, jobs)
    with ThreadPoolExecutor(THREADS) as pool:
        return iter(list(pool.map(run, jobs)))


def _whole(s: Setup, fits: Mapping[tuple[str, int | None], tuple[Hardware, Fitting]]) -> Iterator[Job]:
    """Aggregated serving on each node type."""
    if "agg" not in s.scenario.search.serving:
        return
    for choice in s.scenario.hardware.candidates:
        found = fits.get((choice.node, choice.gpus))
        if found is not None:
            yield choice.node, partial(aggregated_deployments, s, replace(found[0], choice=choice), found[1])


def _split(s: Setup, fits: Mapping[tuple[str, int | None], tuple[Hardware, Fitting]]) -> Iterator[Job]:
    """Separate pools on each node type, or on the pairs that the scenario names."""
    if "disagg" not in s.scenario.search.serving:
        return
    pools = s.scenario.hardware.pools
    if pools is None:
        pairs = [(c, c) for c in s.scenario.hardware.candidates]
    else:
        pairs = [(p, d) for p in pools.prefill for d in pools.decode]
    limits = [limit for metric, _, limit in s.scenario.slo.limits() if metric in ("tpot_ms", "tbt_ms")]
    tpot_s = min(limits) * MILLISECOND if limits else None

    def evaluate(p: NodeChoice, d: NodeChoice) -> Deployments | None:
        (first, on_p), (second, on_d) = fits[(p.node, p.gpus)], fits[(d.node, d.gpus)]
        first, second = replace(first, choice=p), replace(second, choice=d)
        return disaggregated_deployments(s, prefill_points(s, first, on_p), decode_points(s, second, on_d), tpot_s)

    for p, d in pairs:
        first, second = fits.get((p.node, p.gpus)), fits.get((d.node, d.gpus))
        if first is None or second is None or not len(first[1].for_prefill) or not len(second[1].layouts):
            continue
        name = d.node if p.node == d.node else f"{p.node} with {d.node}"
        yield name, partial(evaluate, p, d)


def _written(s: Setup, tables: list[Deployments], chosen: list[Key]) -> list[Candidate]:
    found: dict[Key, Candidate] = {}
    for t, table in enumerate(tables):
        ranks = {row: i for i, (of, row) in enumerate(chosen, start=1) if of == t}
        if ranks:
            rows: IntArray = np.array(sorted(ranks), dtype=np.int64)
            found |= {(t, row): c for row, c in candidates(s, table, rows, ranks).items()}
    return [found[key] for key in chosen]


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

"""From tables of judged deployments to the few that are written out: order, best point of each layout, frontier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.search.pareto import Direction, pareto_ends, pareto_sample
from planner.search.plan_schema import Layout, ParetoPoint
from planner.search.ranking import objective, rank
from planner.search.table import Deployments, IntArray
from planner.units import MILLISECOND

Array = NDArray[np.float64]
Key = tuple[int, int]
"""(table, row)."""

FRONTIER_RESOLUTION = 0.03
"""Relative step within which frontier points count as one."""
FRONTIER_POINTS = 60
"""Frontier points written out at most; where there are more, a coarser step thins them."""
USUAL_RESOLUTION = 0.25
"""Step that is tried first: what most searches come out at."""
SHORTLIST = 3_000
"""Feasible deployments sorted at first: the best by the objective alone; more follow where these do not suffice."""

COLUMNS: Mapping[str, Callable[[Deployments], NDArray[np.generic]]] = {
    "usd_per_mtok": lambda t: t.outcome.usd_per_mtok_output,
    "gpus": lambda t: t.gpus,
    "goodput_rps": lambda t: t.outcome.goodput_rps / t.gpus,
    "joules_per_token": lambda t: t.outcome.joules_per_token,
    "limit_share": lambda t: t.outcome.limit_share,
    "ttft_s": lambda t: t.outcome.latency[("ttft", "p99")],
    "tbt_s": lambda t: t.outcome.latency[("tbt", "p99")],
    "tpot_s": lambda t: t.outcome.latency[("tpot", "mean")],
    "worker_gpus": lambda t: t.decode.layouts.gpus,
    "pp": lambda t: t.decode.layouts.pp,
    "ep": lambda t: t.decode.layouts.ep,
    "attention_dp": lambda t: t.decode.layouts.attention_dp,
    "tp": lambda t: t.decode.layouts.tp,
    "concurrency": lambda t: t.decode.concurrency,
}
"""What ranking and the frontier look at."""


@dataclass(frozen=True)
class Feasible:
    """Feasible deployments of all tables, numbered through."""

    tables: list[Deployments]

    @cached_property
    def rows(self) -> list[IntArray]:
        """Feasible rows of each table."""
        return [np.flatnonzero(t.rejections.feasible) for t in self.tables]

    @cached_property
    def starts(self) -> IntArray:
        """Number of each table's first feasible deployment, and behind them the count."""
        return np.cumsum([0, *(r.size for r in self.rows)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def column(self, name: str, places: IntArray | None = None) -> Array:
        """A column of :data:`COLUMNS` of all (m,), or of the deployments with the numbers ``places``."""
        if places is None:
            parts = [np.asarray(COLUMNS[name](t), dtype=float)[r] for t, r in zip(self.tables, self.rows, strict=True)]
            return np.concatenate(parts) if parts else np.empty(0)
        found = np.empty(places.size)
        table_of = np.searchsorted(self.starts, places, side="right") - 1
        for i in np.unique(table_of):
            mine = np.flatnonzero(table_of == i)
            rows = self.rows[i][places[mine] - self.starts[i]]
            found[mine] = np.asarray(COLUMNS[name](self.tables[i]))[rows]
        return found

    def place(self, key: Key) -> int:
        """Number of a feasible deployment."""
        table, row = key
        return int(self.starts[table] + np.searchsorted(self.rows[table], row))

    def keys(self, places: IntArray) -> Iterator[Key]:
        """Table and row of the deployments with these numbers."""
        for place in places:
            table = int(np.searchsorted(self.starts, place, side="right")) - 1
            yield table, int(self.rows[table][place - self.starts[table]])


def ranked(feasible: Feasible, wanted: str) -> Iterator[Key]:
    """Feasible deployments, best first.

    Only what is asked for is sorted in full: the objective alone selects a shortlist (with all its ties), which grows
    as the reader goes on.
    """
    if not len(feasible):
        return
    goal = objective(wanted)
    main = feasible.column(goal.column)
    main = np.where(np.isnan(main), np.inf, main if goal.direction == "min" else -main)
    done, size = 0, SHORTLIST
    while done < main.size:
        size = min(size, main.size)
        limit = np.partition(main, size - 1)[size - 1]
        # Ranking rounds away the last digits: keep whatever may be equal to the last one.
        listed = np.flatnonzero(main <= limit + abs(limit) * 1e-6 if np.isfinite(limit) else main <= limit)
        order = listed[rank({name: feasible.column(name, listed) for name in COLUMNS}, wanted)]
        yield from feasible.keys(order[done:])
        done, size = order.size, size * 10


def distinct(tables: list[Deployments], order: Iterator[Key], most: int) -> list[Key]:
    """The best operating point of each pair of layouts and node types, at most ``most`` of them."""
    chosen: dict[tuple[object, ...], Key] = {}
    for t, row in order:
        table = tables[t]
        pools = [table.decode] if table.prefill is None else [table.prefill, table.decode]
        name = (table.serving, *((p.hardware.id, *p.layouts.row(row).values()) for p in pools))
        chosen.setdefault(name, (t, row))
        if len(chosen) == most:
            break
    return list(chosen.values())


def by_objective(tables: list[Deployments], keys: list[Key], wanted: str) -> list[Key]:
    """``keys``, best first."""
    columns = {}
    for name, column in COLUMNS.items():
        of_table = {t: np.asarray(column(tables[t]), dtype=float) for t in {t for t, _ in keys}}
        columns[name] = np.array([of_table[t][row] for t, row in keys])
    return [keys[i] for i in rank(columns, wanted)] if keys else []


def frontier(feasible: Feasible, best: Key | None = None) -> list[Key]:
    """Feasible deployments that none beats in GPUs, cost, energy, goodput per GPU, mean TPOT, P99 TTFT and P99 TBT
    together: at most one of those that are near each other, and always those that lead in one of them, and ``best`` if
    it is such.
    """
    if not len(feasible):
        return []
    names: list[tuple[str, Direction]] = [
        ("gpus", "min"),
        ("goodput_rps", "max"),
        ("tpot_s", "min"),
        ("ttft_s", "min"),
        ("tbt_s", "min"),
    ]
    objectives, directions = [feasible.column(n) for n, _ in names], [d for _, d in names]
    for name in ("usd_per_mtok", "joules_per_token"):
        column = feasible.column(name)
        # what is not known of any, or costs nothing, takes no part in the comparison
        if np.isfinite(column).any() and np.nanmin(column) > 0:
            objectives.append(column)
            directions.append("min")
    step = USUAL_RESOLUTION
    keep = pareto_sample(objectives, directions, step)
    while keep.size > FRONTIER_POINTS and 1.5 * step < 1.0:
        step *= 1.5
        keep = pareto_sample(objectives, directions, step)
    while keep.size < FRONTIER_POINTS and FRONTIER_RESOLUTION < step <= USUAL_RESOLUTION:
        step = max(step / 1.5, FRONTIER_RESOLUTION)
        finer = pareto_sample(objectives, directions, step)
        if finer.size > FRONTIER_POINTS:
            break
        keep = finer
    ends = pareto_ends(objectives, directions, () if best is None else (feasible.place(best),))
    return list(feasible.keys(np.union1d(keep, ends)))


def points(
    tables: list[Deployments], keys: list[Key], ranks: Mapping[Key, int], output_tokens: float
) -> tuple[ParetoPoint, ...]:
    """Frontier points as the plan lists them, cheapest first."""
    found: list[ParetoPoint] = []
    for t in dict.fromkeys(t for t, _ in keys):
        rows = [row for of, row in keys if of == t]
        table = tables[t].take(np.array(rows, dtype=np.int64))
        found += [_point(table, k, ranks.get((t, row)), output_tokens) for k, row in enumerate(rows)]
    return tuple(sorted(found, key=lambda p: (p.usd_per_mtok_output or np.inf, p.tpot_ms)))


def _point(table: Deployments, i: int, place: int | None, output_tokens: float) -> ParetoPoint:
    o = table.outcome
    gpus = int(table.gpus[i])
    usd, joules = float(o.usd_per_mtok_output[i]), float(o.joules_per_token[i])
    return ParetoPoint(
        rank=place,
        serving=table.serving,
        node=table.decode.hardware.id,
        layout=Layout(**table.decode.layouts.row(i)),
        replicas=int(table.decode.count[i]),
        gpus=gpus,
        concurrency=float(table.decode.concurrency[i] * table.decode.count[i]),
        usd_per_mtok_output=usd if np.isfinite(usd) else None,
        output_tokens_per_s_per_gpu=float(o.throughput_rps[i]) * output_tokens / gpus,
        goodput_rps=float(o.goodput_rps[i]),
        ttft_ms=float(o.latency[("ttft", "mean")][i]) / MILLISECOND,
        tpot_ms=float(o.latency[("tpot", "mean")][i]) / MILLISECOND,
        joules_per_token=joules if np.isfinite(joules) else None,
        ttft_p99_ms=float(o.latency[("ttft", "p99")][i]) / MILLISECOND,
        tbt_p99_ms=float(o.latency[("tbt", "p99")][i]) / MILLISECOND,
    )

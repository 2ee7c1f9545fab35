"""Deployments that one limit alone keeps from being a better answer than the best that holds every limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.search.judge import latency_ms, short_of_nodes
from planner.search.plan_schema import Candidate, NearestMiss
from planner.search.ranking import objective
from planner.search.reasons import miss_of
from planner.search.selection import COLUMNS, Key
from planner.search.setup import Setup
from planner.search.table import BoolArray, Deployments, IntArray

MEASURABLE = 0.02
"""Relative gain in what is asked for below which an answer counts as no better: a limit is not moved for less."""
FARTHEST = 2.0
"""Factor by which a limit may be missed: what needs more than that is another question."""


def better_misses(s: Setup, tables: Sequence[Deployments], best: Key | None, wanted: str) -> tuple[NearestMiss, ...]:
    """The nearest deployment for each limit that breaks this limit alone and is better than ``best`` by the objective
    ``wanted`` by more than MEASURABLE, least missing first; empty where nothing is feasible.

    As far as the closed forms tell: whether the limit moved leads to a better plan is for a plan to say.
    """
    if best is None:
        return ()
    goal = objective(wanted)
    column, sign = COLUMNS[goal.column], 1.0 if goal.direction == "min" else -1.0
    bound = sign * float(np.asarray(column(tables[best[0]]))[best[1]])
    nearest: dict[str, tuple[float, Deployments, int]] = {}
    for table in tables:
        r = table.rejections
        ratio = r.needed / r.available
        gain = bound - sign * np.asarray(column(table), dtype=float) > MEASURABLE * abs(bound)
        open_ones = np.flatnonzero(gain & (ratio <= FARTHEST) & table.outcome.stable & _one_alone(s, table))
        for code in np.unique(r.code[open_ones]):
            rows: IntArray = open_ones[r.code[open_ones] == code]
            i = int(rows[np.argmin(ratio[rows])])
            name, missing = r.names[int(code)], float(ratio[i])
            if name not in nearest or missing < nearest[name][0]:
                nearest[name] = (missing, table, i)
    return tuple(miss_of(table, i) for _, table, i in sorted(nearest.values(), key=lambda found: found[0]))


def _one_alone(s: Setup, table: Deployments) -> BoolArray:
    """Where a deployment breaks a single limit, on a latency or on the nodes, (n,)."""
    broken = short_of_nodes(s, table.decode, table.prefill).astype(np.int64)
    for metric, level, limit in s.scenario.slo.limits():
        broken = broken + ~(latency_ms(table.outcome, metric, level) <= limit)
    r = table.rejections
    of_limits = np.array([*(n == "nodes" or n.startswith("slo_") for n in r.names), False])[r.code]
    return np.asarray(of_limits & (broken == 1))


def asked_for(candidate: Candidate, wanted: str) -> float | None:
    """What the objective ``wanted`` compares, of a plan's candidate; None where it is not known."""
    c = candidate
    values = {
        "lowest_cost": c.usd_per_mtok.output,
        "fewest_gpus": c.gpus,
        "highest_goodput": None if c.goodput_rps is None else c.goodput_rps / c.gpus,
        "lowest_energy": c.joules_per_token,
        "lowest_ttft": c.ttft_ms.p99,
        "lowest_tbt": c.tbt_ms.p99,
    }
    return values[objective(wanted).name]


def is_better(one: Candidate, other: Candidate, wanted: str) -> bool:
    """Whether ``one`` is better than ``other`` by the objective ``wanted``, by more than MEASURABLE."""
    here, there = asked_for(one, wanted), asked_for(other, wanted)
    if here is None or there is None:
        return False
    gain = there - here if objective(wanted).direction == "min" else here - there
    return gain > MEASURABLE * abs(there)

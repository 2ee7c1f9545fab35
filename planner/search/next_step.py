"""Why not fewer workers: what the next leaner deployment of the same layout, token budget and settings breaks.

Worked out for each deployment that is written out, with steps and memory at the requests that its workers would then
have. The rows of a search table are no answer: they lie on a grid of operating points, whose memory is that of the
point where the steps were evaluated and not of the load that the workers come to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.search.evaluation import budget_of, held_by, under_load
from planner.search.judge import judge
from planner.search.loaded import Loaded, rates, sharing
from planner.search.outcome import outcome_of
from planner.search.refining import NEAR, refine
from planner.search.rejections import REASONS, Rejections, sentence
from planner.search.settling import at_own_steps
from planner.search.setup import Setup
from planner.search.table import Array, BoolArray, Deployments, IntArray

SHARES = 40
"""Loads on the way to that of one worker less at which a deployment is judged."""


def next_steps(s: Setup, d: Deployments, rows: IntArray, ranks: Mapping[int, int], held: Array) -> dict[int, str]:
    """What keeps the aggregated deployments ``rows`` of a table from one worker less, a sentence by row; ``held`` (n,)
    are the requests in one of their workers on average.

    Where the workers would not keep up at all, what breaks first on the way there is told, of the plan's answer alone:
    a queue without end breaks everything. Nothing is said where one worker less would do (under other objectives than
    cost it may), nor where it cannot be told: a deployment that was looked at step by step is not compared by the
    closed forms alone, which may be off by :data:`planner.search.refining.NEAR`. Separate pools have no entry.
    """
    if d.prefill is not None:
        return {}
    alone = d.decode.count[rows] <= 1
    said = {
        int(row): f"One worker carries the load, with {requests:,.1f} requests in it on average."
        for row, requests in zip(rows[alone], held[alone], strict=True)
    }
    several = rows[~alone]
    if not several.size:
        return said
    fewer = _one_less(s, d, several)
    open_ones = np.isin(several, list(d.steps)) & _close(fewer.rejections) & fewer.outcome.stable
    best = np.flatnonzero(open_ones & np.array([ranks[row] == 1 for row in several.tolist()]))
    if best.size:  # a chain of steps takes long: only for what the plan answers with
        fewer = refine(s, fewer, best)
        open_ones[best] = False
    beyond = ~fewer.outcome.stable | _is(fewer.rejections, "memory")
    told = np.flatnonzero(~fewer.rejections.feasible & ~open_ones & ~(beyond & (s.in_flight is None)))
    found = {int(several[k]): _sentence(fewer, k) for k in told.tolist()}
    for k in np.flatnonzero(beyond & (s.in_flight is None)).tolist():
        first = _first_broken(s, d, several[[k]]) if ranks[int(several[k])] == 1 else None
        if first is not None:
            found[int(several[k])] = first
    return said | found


def _one_less(s: Setup, d: Deployments, rows: IntArray) -> Deployments:
    """The deployments ``rows`` with one worker less each, judged by the closed forms at their own requests."""
    assert d.loaded is not None
    here = d.decode.take(rows)
    count = here.count - 1
    requests = here.concurrency if s.in_flight is None else np.ceil(s.in_flight / count)
    load = d.loaded.worker.take(rows)
    return at_own_steps(s, replace(here, count=count, concurrency=requests), load, load.decode_step_slope_s)


def _first_broken(s: Setup, d: Deployments, row: IntArray) -> str | None:
    """What deployment ``row`` (1,) breaks first as the load on each of its workers rises to that of one worker less;
    step times follow their slope from the planned load, which is near.
    """
    assert d.loaded is not None
    count = int(d.decode.count[row[0]])
    most = count / (count - 1.0)
    more = np.linspace(1.0, most, SHARES + 1)
    rows = np.repeat(row, more.size)
    w = d.decode.take(rows)
    rate, cv = rates(s, w.count)
    load = d.loaded.worker.take(rows).at_rate(rate * more, cv, sharing(s, w.count))
    result = under_load(s, Loaded(load))
    requests = np.where(result.stable, result.flow.occupancy, w.concurrency)
    held = held_by(budget_of(s, w.hardware, w.layouts, np.maximum(requests, 1.0), w.token_budget))
    r = judge(s, w, None, outcome_of(s, w, None, result, rate), (held,))
    if not r.feasible[0] or r.feasible.all():  # the closed forms let it through to the end, or not even as planned
        return None
    k = int(np.argmin(r.feasible))
    reason = r.names[int(r.code[k])]
    why = sentence(REASONS[reason], float(r.needed[k]), float(r.available[k]))
    if reason == "rate":
        why = "the load is more than the workers pass"
    loaded = f"{count - 1:,} instead of {count:,} would have {most - 1.0:.0%} more load each"
    return f"One worker less is too few: {loaded}, and from about {more[k] - 1.0:.0%} more on {why}."


def _is(r: Rejections, name: str) -> BoolArray:
    """Where this is the reason, (n,)."""
    return np.asarray(r.code == (r.names.index(name) if name in r.names else len(r.names)))


def _close(r: Rejections) -> BoolArray:
    """Where the closed forms let a deployment through or find a latency over its limit by less than NEAR, (n,)."""
    of_latency = np.array([*(name.startswith("slo_") for name in r.names), False])[r.code]
    return np.asarray(r.feasible | (of_latency & (r.needed < NEAR * r.available)))


def _sentence(fewer: Deployments, k: int) -> str:
    r, w = fewer.rejections, fewer.decode
    reason = r.names[int(r.code[k])]
    why = sentence(REASONS[reason], float(r.needed[k]), float(r.available[k]))
    count, each = int(w.count[k]), f"{float(w.concurrency[k]):,.0f} requests per worker"
    return f"One worker less is too few: with {count:,} instead of {count + 1:,}, at {each}, {why}."

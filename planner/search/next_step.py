"""Why not fewer workers: what the next leaner deployment of the same layout, token budget and settings breaks.

Worked out for each deployment that is written out, with steps and memory at the requests that its workers would then
have. The rows of a search table are no answer: they lie on a grid of operating points, whose memory is that of the
point where the steps were evaluated and not of the load that the workers come to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.search.refining import NEAR, refine
from planner.search.rejections import REASONS, Rejections, sentence
from planner.search.settling import at_own_steps
from planner.search.setup import Setup
from planner.search.table import Array, BoolArray, Deployments, IntArray


def next_steps(s: Setup, d: Deployments, rows: IntArray, ranks: Mapping[int, int], held: Array) -> dict[int, str]:
    """What keeps the aggregated deployments ``rows`` of a table from one worker less, a sentence by row; ``held`` (n,)
    are the requests in one of their workers on average.

    Nothing is said where one worker less would do (under other objectives than cost it may), nor where it cannot be
    told: a deployment that was looked at step by step is not compared by the closed forms alone, which may be off by
    :data:`planner.search.refining.NEAR`. Separate pools have no entry.
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
    told = np.flatnonzero(~fewer.rejections.feasible & ~open_ones)
    return said | {int(several[k]): _sentence(fewer, k) for k in told.tolist()}


def _one_less(s: Setup, d: Deployments, rows: IntArray) -> Deployments:
    """The deployments ``rows`` with one worker less each, judged by the closed forms at their own requests."""
    assert d.loaded is not None
    here = d.decode.take(rows)
    count = here.count - 1
    requests = here.concurrency if s.in_flight is None else np.ceil(s.in_flight / count)
    load = d.loaded.worker.take(rows)
    return at_own_steps(s, replace(here, count=count, concurrency=requests), load, load.decode_step_slope_s)


def _close(r: Rejections) -> BoolArray:
    """Where the closed forms let a deployment through or find a latency over its limit by less than NEAR, (n,)."""
    of_latency = np.array([*(name.startswith("slo_") for name in r.names), False])[r.code]
    return np.asarray(r.feasible | (of_latency & (r.needed < NEAR * r.available)))


def _sentence(fewer: Deployments, k: int) -> str:
    r, w = fewer.rejections, fewer.decode
    reason = r.names[int(r.code[k])]
    why, each = "the load is more than the workers pass", ""
    if reason != "rate":  # what is reached there is a bound of the closed forms, not a rate that the workers pass
        why = sentence(REASONS[reason], float(r.needed[k]), float(r.available[k]))
        each = f", at {float(w.concurrency[k]):,.0f} requests per worker"
    count = int(w.count[k])
    return f"One worker less is too few: with {count:,} instead of {count + 1:,}{each}, {why}."

"""The best deployments looked at step by step: percentiles and goodput from the chain of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.replay.settings import scheduler_kind
from planner.roofline.step import StepWork, step_times
from planner.search.judge import judge, short_of_nodes
from planner.search.ranking import objective
from planner.search.rejections import Rejections, nearest_misses
from planner.search.selection import COLUMNS, Feasible, Key, distinct, ranked
from planner.search.settling import settle
from planner.search.setup import Setup
from planner.search.table import Deployments, Outcome, Workers
from planner.serving.open_loop import WorkerLoad, flow
from planner.serving.prefix_cache import cached_before
from planner.serving.rows import put
from planner.serving.slots import context_scv
from planner.serving.stepwise import StepCurves, Stepwise, applies, stepwise

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

REFINED, NEAR_REFINED = 8, 4
"""Deployments of a plan that are looked at, best first, and near misses that would come before them."""
LANES_REFINED, NEAR_LANES = 3, 2
"""Of these at most with attention-DP ranks: a chain of several lanes takes ten times as long."""
AGAIN = 6
"""Times that as many more are looked at where none of the first is feasible then."""
MISSES, LOOKED_AT, TOLD = 24, 400, 5
"""Nearest misses of a table that are looked at where nothing is feasible, among so many; those farther than NEAR as far
as they are told."""
NEAR = 1.5
"""Factor by which a latency may exceed its limit by the closed forms and still be looked at."""
OCCUPANCIES, REACH = 12, 6.0
"""Decode steps evaluated: so many, up to REACH times the mean occupancy."""
FEWEST_OCCUPANCIES = 16.0
PROMPT_STEPS, FINER = 20, 1.6
"""Steps with prompts evaluated: so many parts of the token budget, the k-th at (k / PROMPT_STEPS)^FINER of it."""
LONGER_CONTEXT = 1.25
ALIKE = 4
"""Numbers of equally full attention-DP ranks that steps with prompts are evaluated at, from one to all."""


def looked_at(s: Setup, tables: Sequence[Deployments], keys: Sequence[Key], wanted: str) -> list[Deployments]:
    """``tables`` with the first REFINED of ``keys`` refined, and NEAR_REFINED near misses that would come before them.

    The closed forms that judge every candidate may be off by some tens of percent: what misses a latency limit by less
    than NEAR by them is looked at as well where it is better by the objective ``wanted`` than the first of ``keys``.
    Where none of the first keeps to its limits after all, those that follow are looked at, so that the closed forms
    alone do not choose.
    """
    if s.acceptance:  # its steps make one token each
        return list(tables)
    first = _few_lanes(tables, keys[:REFINED], LANES_REFINED)
    near = _near_misses(s, tables, keys[0] if keys else None, wanted)
    out = _refined(s, tables, [*first, *_few_lanes(tables, near, NEAR_LANES)])
    for _ in range(AGAIN):
        if any(out[t].rejections.code[row] < 0 for t, row in first):
            break
        first = _few_lanes(out, distinct(out, ranked(Feasible(out), wanted), REFINED), LANES_REFINED)
        closer = _refined(s, out, first)
        if all(a is b for a, b in zip(closer, out, strict=True)):
            break
        out = closer
    return out


def _few_lanes(tables: Sequence[Deployments], keys: Sequence[Key], most: int) -> list[Key]:
    """``keys`` without those of several lanes beyond the first ``most``."""
    several = [key for key in keys if tables[key[0]].decode.layouts.attention_dp[key[1]] > 1]
    left_out = set(several[most:])
    return [key for key in keys if key not in left_out]


def _refined(s: Setup, tables: Sequence[Deployments], keys: Sequence[Key]) -> list[Deployments]:
    """``tables`` with the deployments ``keys`` refined that are not yet."""
    out = list(tables)
    for t, table in enumerate(tables):
        rows = np.array([row for of, row in keys if of == t and row not in table.steps], dtype=np.int64)
        if rows.size:
            out[t] = refine(s, settle(s, table, rows), rows)
    return out


def _near_misses(s: Setup, tables: Sequence[Deployments], best: Key | None, wanted: str) -> list[Key]:
    """Deployments within the nodes allowed that miss a latency limit by less than NEAR and are better than ``best``,
    best first; the nearest of all where nothing is feasible.
    """
    missing = []
    for table in tables:
        r = table.rejections
        of_latency = [k for k, name in enumerate(r.names) if name.startswith("slo_")]
        open_ones = np.isin(r.code, of_latency) & table.outcome.stable
        open_ones &= ~short_of_nodes(s, table.decode, table.prefill)
        open_ones[list(table.steps)] = False
        missing.append(open_ones)
    if best is None:
        nearest = (nearest_misses(t.rejections, t.gpus, LOOKED_AT) for t in tables)
        rows = [found[there[found]][:MISSES] for found, there in zip(nearest, missing, strict=True)]
        close_by = [table.rejections.needed < NEAR * table.rejections.available for table in tables]
        return [
            (t, int(row)) for t, found in enumerate(rows) for k, row in enumerate(found) if k < TOLD or close_by[t][row]
        ]
    goal = objective(wanted)
    sign, column = 1.0 if goal.direction == "min" else -1.0, COLUMNS[goal.column]
    bound = sign * float(np.asarray(column(tables[best[0]]))[best[1]])
    near = []
    for table, close in zip(tables, missing, strict=True):
        r = table.rejections
        better = sign * np.asarray(column(table), dtype=float) < bound - 1e-6 * abs(bound)
        chosen = close & better & (r.needed < NEAR * r.available)
        near.append(replace(table, rejections=replace(r, code=np.where(chosen, -1, 0))))
    return distinct(near, ranked(Feasible(near), wanted), NEAR_REFINED)


def refine(s: Setup, d: Deployments, rows: IntArray) -> Deployments:
    """The table with latencies, goodput and verdict of these rows from their steps.

    Split deployments, closed loops and workers that :func:`planner.serving.stepwise.applies` leaves out stay as they
    are.
    """
    if d.prefill is not None or d.loaded is None or d.loaded.loop is not None:
        return d
    load = d.loaded.worker.take(rows)
    found = flow(load)
    which = np.flatnonzero(applies(load, found))
    if not which.size:
        return d
    rows, load = rows[which], load.take(which)
    found = flow(load)
    curves = step_curves(s, d.decode.take(rows), load)
    if not (curves.tokens[:, -1] > curves.tokens[:, 0]).all():  # steps of one token, which no prompt shares
        return d
    chunked = s.scenario.engine.options.chunked_prefill
    whole = not (scheduler_kind(s.scenario.engine.name).chunked if chunked is None else chunked)
    steps = [stepwise(load, found, curves, k, whole) for k in range(rows.size)]
    return _updated(s, d, rows, steps)


def _updated(s: Setup, d: Deployments, rows: IntArray, steps: Sequence[Stepwise]) -> Deployments:
    o = d.outcome
    latency = dict(o.latency)
    for metric, level in latency:
        values = np.array([one.seconds(metric, level) for one in steps])
        latency[(metric, level)] = put(latency[(metric, level)], rows, values)
    good = np.array([one.good_part(s.limits_s) for one in steps]) * (1.0 - o.rejection[rows])
    outcome = replace(
        o,
        latency=latency,
        goodput_rps=put(o.goodput_rps, rows, o.throughput_rps[rows] * good),
    )
    known = {**d.steps, **dict(zip(rows.tolist(), steps, strict=True))}
    return replace(d, outcome=outcome, rejections=_judged(s, d, outcome, rows), steps=known)


def _judged(s: Setup, d: Deployments, outcome: Outcome, rows: IntArray) -> Rejections:
    """Verdict with ``rows`` judged again, apart from those that do not fit memory."""
    before = d.rejections
    rows = rows[(before.code[rows] < 0) | (before.code[rows] != _code(before, "memory"))]
    return before.updated(rows, judge(s, d.decode.take(rows), None, outcome.take(rows), ()))


def _code(rejections: Rejections, name: str) -> int:
    """Position of a reason; -2 where no candidate has it."""
    return rejections.names.index(name) if name in rejections.names else -2


def step_curves(s: Setup, w: Workers, load: WorkerLoad) -> StepCurves:
    """Step times of workers at every occupancy and every number of prompt tokens, of the busiest attention-DP rank and
    of all of them, (n,) workers."""
    n = len(w)
    pause = s.scheduler.policy == "prefill_first"
    ranks = w.layouts.attention_dp.astype(float)
    running = np.maximum(w.concurrency / ranks, 1.0)
    context = float(s.traffic.mean_context)
    new, cached = float(s.traffic.new_tokens), cached_before(s.prompt_shape, s.hits)

    def decode(requests: Array, tokens: float) -> Array:
        return _seconds(w, StepWork(requests.ravel(), np.full(requests.size, tokens)), requests.shape[1])

    most = np.maximum(REACH * running, FEWEST_OCCUPANCIES)
    occupancy = np.exp(np.linspace(0.0, 1.0, OCCUPANCIES) * np.log(most)[:, None])
    here, longer = (decode(running[:, None], f * context)[:, 0] for f in (1.0, LONGER_CONTEXT))

    parts = (np.arange(PROMPT_STEPS + 1) / PROMPT_STEPS) ** FINER
    budget = np.broadcast_to(load.budget, n)
    tokens = np.maximum(budget[:, None] * new * parts, 1.0)
    alike = ranks[:, None] ** np.linspace(0.0, 1.0, ALIKE if ranks.max(initial=1.0) > 1.0 else 1)
    # Attention of a token to those before it, averaged over tokens: long prompts have more of them, and deeper ones.
    sequences = np.maximum(tokens / (new * np.minimum(budget, 1.0))[:, None], 1.0)
    depth = 0.5 * new * (1.0 + load.prompts.scv)
    past = cached + np.maximum(depth - 0.5 * tokens / sequences, 0.0)
    riding = np.zeros_like(tokens) if pause else np.broadcast_to(running[:, None], tokens.shape)
    flat = [np.repeat(v.ravel(), alike.shape[1]) for v in (riding, tokens, sequences, past)]
    everyone = (tokens[:, :, None] * alike[:, None, :]).ravel()
    work = StepWork(flat[0], np.full(everyone.size, context), flat[1], flat[2], flat[3], everyone)
    seconds = _seconds(w, work, everyone.size // max(n, 1)).reshape(*tokens.shape, -1)
    return StepCurves(
        occupancy,
        decode(occupancy, context),
        (longer - here) / np.log(LONGER_CONTEXT),
        tokens / new,
        seconds[..., 0],
        np.full(n, context_scv(s.prompt_shape, s.step_shape)),
        alike,
        seconds,
    )


def _seconds(w: Workers, work: StepWork, each: int) -> Array:
    """Seconds of ``each`` steps of every worker, (n, each)."""
    rows = np.repeat(np.arange(len(w)), each)
    times = step_times(w.hardware.ctx, w.layouts.take(rows), work, w.two_batch[rows], w.deepep[rows])
    return np.asarray(times.total).reshape(len(w), each)

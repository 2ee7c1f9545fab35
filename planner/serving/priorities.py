"""Waits by priority class: a queue that serves more urgent requests first and never interrupts one in service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.serving.latency import LoadResult, spread_of
from planner.serving.open_loop import Flow, WorkerLoad, work_moments
from planner.serving.quantiles import LEVELS, Part, waiting_part
from planner.serving.queues import Wait, priority_waits
from planner.serving.ttft import ttft_parts

Array = NDArray[np.float64]


def priority_wait_laws(
    rates: Sequence[ArrayLike], service_s: ArrayLike, second_moment: ArrayLike, third_moment: ArrayLike
) -> list[Wait]:
    """Wait of each class of non-preemptive M/G/1, highest priority first; all classes have the same service times.

    Means as in :func:`planner.serving.queues.priority_waits`. Second moment (Kella and Yechiali 1985), with L the rate
    of all, L_k that of classes 1 to k, s_k their load, a = 1 - s_(k-1), b = 1 - s_k:
    L m3 / (3 a^2 b) + L m2^2 L_k / (2 a^2 b^2) + L m2^2 L_(k-1) / (2 a^3 b). Everyone waits with the probability of a
    busy server.
    """
    lam = [np.asarray(r, dtype=float) for r in rates]
    s, m2, m3 = (np.asarray(v, dtype=float) for v in (service_s, second_moment, third_moment))
    whole = sum(lam)
    busy = np.minimum(whole * s, 1.0)
    laws, before = [], np.zeros(())
    for rate, mean in zip(lam, priority_waits(rates, s, m2), strict=True):
        upto = before + rate
        a, b = 1.0 - before * s, 1.0 - upto * s
        with np.errstate(divide="ignore", invalid="ignore"):
            square = whole * m3 / (3.0 * a**2 * b) + whole * m2**2 / 2.0 * (upto / (a**2 * b**2) + before / (a**3 * b))
            scv = busy * square / np.square(mean) - 1.0
        laws.append(Wait(mean, busy, np.where(np.isfinite(mean), scv, 1.0)))
        before = upto
    return laws


def by_class(load: WorkerLoad, result: LoadResult, k: int, shares: Sequence[float]) -> dict[str, dict[str, Array]]:
    """Wait and TTFT of candidate ``k`` by class, most urgent first: seconds by metric and by "mean" or percentile,
    arrays (classes,).

    Order matters only to what does not fit the next step: the queue beyond a full one, with the waits of
    :func:`priority_wait_laws`, so scaled that without classes its mean and its spread would be those of the load. A
    class differs from all requests together by as much of that queue as it waits more, or less: means add up to the
    mean of all, and no class waits less than a more urgent one. Where the figures of ``result`` are not those of the
    closed forms (:mod:`planner.serving.stepwise`), the differences keep their part of the whole.
    """
    rows = np.array([k], dtype=np.int64)
    one, f = load.take(rows), _taken(result.flow, rows)
    whole = _beyond(f, f.backlog)
    classes = _classes(one, f, shares)
    levels = {name: _ordered(float(whole.quantile(p)[0]), classes.quantile(p)) for name, p in LEVELS.items()}
    more = np.broadcast_to(classes.mean, len(shares)) - float(whole.mean[0])
    more = np.maximum.accumulate(more)
    levels["mean"] = more - float(np.dot(shares, more) / np.sum(shares))
    first, until_first = ttft_parts(one, f)
    closed = spread_of(one, f, first, until_first, {m: tuple(LEVELS) for m in CLASS_METRICS}, result.rejection[rows])
    found: dict[str, dict[str, Array]] = {}
    for metric in CLASS_METRICS:
        found[metric], least = {}, np.zeros(len(shares))
        for name in ("mean", *LEVELS):
            own = float(getattr(closed, metric)[name][0])
            known = getattr(result, metric).get(name)
            seconds = own if known is None or not np.isfinite(known[k]) else float(known[k])
            value = np.maximum(seconds * (1.0 + levels[name] / own), 0.0) if own > 0.0 else np.zeros(len(shares))
            if name != "mean":
                value = least = np.maximum(value, least)
            found[metric][name] = value
    return found


CLASS_METRICS = ("wait", "ttft")


def _ordered(whole: float, classes: Array) -> Array:
    """Quantiles of the classes less that of all, none below a more urgent one, the first not above and the last not
    below that of all."""
    more = np.maximum.accumulate(np.asarray(classes) - whole)
    return (
        np.concatenate([np.minimum(more[:1], 0.0), more[1:-1], np.maximum(more[-1:], 0.0)]) if more.size > 1 else more
    )


def _beyond(f: Flow, queue: Wait) -> Part:
    """What a queue has more than one full step holds."""
    return waiting_part(queue.mean, queue.probability, queue.delayed_scv, f.full_step_s)


def _classes(one: WorkerLoad, f: Flow, shares: Sequence[float]) -> Part:
    """The queue beyond a full step by class, in closed form."""
    rate = float(f.occupancy[0] / f.residence_s[0])
    service = float(f.utilisation[0]) / rate
    second, third = (float(np.broadcast_to(m, f.occupancy.shape)[0]) for m in work_moments(one))
    moments = service, service**2 * second, service**3 * third
    laws = priority_wait_laws([rate * share for share in shares], *moments)
    spread = float(priority_wait_laws([rate], *moments)[0].delayed_scv)
    mean = sum(share * float(law.mean) for share, law in zip(shares, laws, strict=True))
    scale = float(f.backlog.mean[0]) / mean if mean > 0 else 0.0
    queue = Wait(
        np.array([float(law.mean) * scale for law in laws]),
        np.repeat(f.backlog.probability, len(shares)),
        f.backlog.delayed_scv * np.array([float(law.delayed_scv) for law in laws]) / spread,
    )
    return _beyond(f, queue)


def _taken(f: Flow, rows: NDArray[np.int64]) -> Flow:
    columns = {x.name: getattr(f, x.name)[rows] for x in fields(Flow) if x.name != "backlog"}
    return Flow(**columns, backlog=Wait(*(getattr(f.backlog, x.name)[rows] for x in fields(Wait))))

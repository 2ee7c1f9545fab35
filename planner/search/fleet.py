"""A chosen deployment at other rates and with other counts of its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.economics.sizing import smallest_fleets
from planner.search.disaggregated import decode_budget
from planner.search.evaluation import at_load, held_by, stepped
from planner.search.loaded import Loaded, routing, sharing, slopes, stream_cv, worker_load
from planner.search.refining import refine
from planner.search.setup import Setup
from planner.search.table import Deployments, Workers
from planner.serving.latency import METRICS, LoadResult
from planner.serving.open_loop import WorkerLoad
from planner.serving.prefill_pool import PrefillPool
from planner.serving.queues import worker_cv
from planner.serving.stepwise import with_stepwise
from planner.serving.worker import decode_times

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ROUNDING = 1e-9
"""Relative excess over a limit that is rounding."""
SURE = 1.1
"""Factor from a limit beyond which latencies scaled as the plan's are near enough: in examples at one to eight times
their load those of the chain of steps are within 1.06 of them near a limit."""
LOOKS, LANES_LOOKS, MOST_LOOKS = 6, 1, 6
"""Counts that are looked at step by step at once, as many where workers have several attention-DP ranks, whose chain
takes ten times as long, and how often."""
SETTLING = 3
"""Evaluations of steps, each at the occupancy that the last led to, of what is looked at step by step; else one."""


@dataclass(frozen=True)
class Served:
    """Workers at their load with steps at their own occupancy, rows (n,)."""

    workers: Workers
    load: WorkerLoad
    fits: BoolArray
    """Whether memory holds their requests."""

    def take(self, rows: IntArray) -> Served:
        return Served(self.workers.take(rows), self.load.take(rows), self.fits[rows])


@dataclass(frozen=True)
class Fleet:
    """One deployment at other rates and with other counts of its workers, whose steps are evaluated at the occupancy
    that each of those comes to.
    """

    s: Setup
    row: Deployments
    """A table of one row, with its load."""

    @property
    def replicas(self) -> int:
        return int(self.row.decode.count[0])

    @property
    def prefill_workers(self) -> int:
        return 0 if self.row.prefill is None else int(self.row.prefill.count[0])

    def result(
        self, rates: Array, decode: IntArray, prefill: IntArray | None = None, levels: Sequence[str] = ()
    ) -> LoadResult:
        """Latencies at ``rates`` requests per second in all, (n,); percentiles as far as limits or ``levels`` ask. Not
        stable where memory does not hold the requests.
        """
        served = self.served(rates, decode)
        return self._latencies(served, self._pool_of(rates, prefill), levels)

    def looked_at(
        self, rates: Array, decode: IntArray, prefill: IntArray | None = None, levels: Sequence[str] = ()
    ) -> LoadResult:
        """The same as the plan would give it, (n,): from the chain of steps where the plan looked at the deployment
        step by step and limits are within SURE; elsewhere scaled by :attr:`corrections`.
        """
        served = self.served(rates, decode, SETTLING)
        result = self.as_planned(self._latencies(served, self._pool_of(rates, prefill), levels))
        share = self.limit_share(result)
        near = np.flatnonzero((share > 1.0 / SURE) & (share < SURE))
        if not self.row.steps or not near.size:
            return result
        some, first = served.take(near), np.zeros(near.size, dtype=np.int64)
        table = replace(self.row.take(first), decode=some.workers, loaded=Loaded(some.load), steps={})
        steps = refine(self.s, table, np.arange(near.size)).steps
        return with_stepwise(result, {int(near[k]): found for k, found in steps.items()})

    def served(self, rates: Array, decode: IntArray, settling: int = 1) -> Served:
        """``decode`` workers at ``rates``, (n,) each, settled so many times; every pair of them is evaluated once."""
        pairs, place = np.unique(np.stack([rates, decode.astype(float)], axis=1), axis=0, return_inverse=True)
        return self._served(pairs[:, 0], pairs[:, 1].astype(np.int64), settling).take(place.reshape(-1))

    def _served(self, rates: Array, count: IntArray, settling: int) -> Served:
        s, loaded, n = self.s, self.row.loaded, rates.size
        assert loaded is not None
        first = np.zeros(n, dtype=np.int64)
        w = replace(self.row.decode.take(first), count=count)
        here = (rates / count, worker_cv(stream_cv(s), count, routing(s)), sharing(s, count))
        load = loaded.worker.take(first).at_rate(*here)
        fits = np.ones(n, dtype=bool)
        for _ in range(settling):
            w = at_load(w, load)
            if self.row.prefill is None:
                _, held, stage = stepped(s, w)
                load = worker_load(s, w, stage, slopes(s, w, stage.decode_s, n)).at_rate(*here)
            else:
                how = (w.two_batch, w.deepep)
                step_s = decode_times(w.hardware.ctx, w.layouts, w.concurrency, s.step_traffic, *how).total
                slope = slopes(s, w, step_s, n)
                load = replace(load, decode_step_s=step_s, reference_occupancy=w.concurrency, decode_step_slope_s=slope)
                held = held_by(decode_budget(s, w))
            fits = held.fits
        return Served(w, load, fits)

    def _latencies(self, served: Served, pool: PrefillPool | None, levels: Sequence[str]) -> LoadResult:
        wanted: dict[str, tuple[str, ...]] = {m: tuple(levels) for m in ("ttft", "tbt")}
        for metric, limits in self.s.limits_s.items():
            wanted[metric] = (*wanted.get(metric, ()), *(level for level in limits if level != "mean"))
        found = Loaded(served.load, pool).result({m: tuple(dict.fromkeys(names)) for m, names in wanted.items()})
        return replace(found, stable=found.stable & served.fits)

    def _pool_of(self, rates: Array, prefill: IntArray | None) -> PrefillPool | None:
        """The prefill pool at ``rates`` with ``prefill`` workers, the planned ones where None; None without a pool."""
        if self.row.prefill is None:
            return None
        return self._pool(rates, np.full(rates.size, self.prefill_workers) if prefill is None else prefill)

    def _pool(self, rates: Array, workers: IntArray) -> PrefillPool:
        """The prefill pool at ``rates`` with ``workers`` each (n,); every pair of them is solved once."""
        pairs, place = np.unique(np.stack([rates, workers.astype(float)], axis=1), axis=0, return_inverse=True)
        assert self.row.loaded is not None
        assert self.row.loaded.prefill is not None
        planned = self.row.loaded.prefill
        if len(pairs) == 1 and pairs[0, 0] == planned.given.rate_rps[0] and pairs[0, 1] == planned.given.workers[0]:
            return planned.take(np.zeros(rates.size, dtype=np.int64))
        some = planned.take(np.zeros(len(pairs), dtype=np.int64)).at(pairs[:, 0], pairs[:, 1])
        return some.take(place.reshape(-1))

    @cached_property
    def corrections(self) -> dict[tuple[str, str], float]:
        """What the plan says of a latency over what :meth:`result` says at the planned load, by metric and level: not 1
        where the plan looked at the deployment step by step.
        """
        rate = float(self.row.outcome.throughput_rps[0])
        here = self.result(np.array([rate]), self.row.decode.count, levels=("p99",))
        found = {}
        for (metric, level), planned in self.row.outcome.latency.items():
            mine = getattr(here, metric).get(level)
            ratio = float(planned[0]) / float(mine[0]) if mine is not None and mine[0] > 0 else np.nan
            found[(metric, level)] = ratio if np.isfinite(ratio) and ratio > 0 else 1.0
        return found

    def as_planned(self, result: LoadResult) -> LoadResult:
        """``result`` scaled by :attr:`corrections`."""
        scaled: dict[str, Any] = {
            metric: {
                level: values * self.corrections.get((metric, level), 1.0)
                for level, values in getattr(result, metric).items()
            }
            for metric in METRICS
        }
        return replace(result, **scaled)

    def limit_share(self, planned: LoadResult) -> Array:
        """The latency nearest to its limit over it, (n,); infinite where workers are not stable or miss the completion
        rate.
        """
        good = planned.stable.copy()
        wanted = self.s.scenario.slo.completion_rate
        if wanted is not None:
            good &= planned.completion >= wanted
        limits = [(m, level, limit) for m, levels in self.s.limits_s.items() for level, limit in levels.items()]
        share = np.max([planned.get(m, level) / limit for m, level, limit in limits], axis=0) if limits else 0.0
        return np.where(good, share, np.inf)

    def meets(self, planned: LoadResult) -> BoolArray:
        """Where every limit and the completion rate are met, (n,)."""
        return np.asarray(self.limit_share(planned) <= 1.0 + ROUNDING)

    def holds(self, rates: Array, decode: IntArray, prefill: IntArray | None = None) -> BoolArray:
        """Where every limit is met, (n,), by :meth:`result` scaled by :attr:`corrections`."""
        return self.meets(self.as_planned(self.result(rates, decode, prefill)))

    def confirmed(self, rates: Array, decode: IntArray) -> IntArray:
        """``decode`` workers (n,), the fewest by :meth:`holds`, raised until :meth:`looked_at` agrees, to no more than
        planned; as they are where the plan did not look at the deployment step by step.

        What more workers with no more load each do needs no look of its own, nor what keeps so far below its limits
        that the closed forms are near enough. Counts that fail rise faster the more often, and what is left to look at
        after MOST_LOOKS gets a worker more.
        """
        if not self.row.steps:
            return decode
        least, peak, stride = np.array(decode), self.replicas, 1
        at_once = LANES_LOOKS if int(self.row.decode.layouts.attention_dp[0]) > 1 else LOOKS
        near = self.limit_share(self.as_planned(self.result(rates, least))) > 1.0 / SURE
        open_ones = near & (least < peak)
        for _ in range(MOST_LOOKS):
            rows = np.flatnonzero(open_ones)
            if not rows.size:
                break
            rows = rows[np.lexsort((-rates[rows] / least[rows], least[rows]))][:at_once]
            good = self.meets(self.looked_at(rates[rows], least[rows]))
            for row in rows[good]:
                open_ones &= (least < least[row]) | (rates / least > rates[row] / least[row] * (1.0 + ROUNDING))
            for row in rows[~good]:
                least = np.where((rates >= rates[row]) & (least <= least[row]), least[row] + stride, least)
            stride *= 1 if good.all() else 2
            least = np.minimum(least, peak)
            open_ones &= least < peak
        return np.where(open_ones, np.minimum(least + 1, peak), least)

    def prefill_for(self, rates: Array, decode: IntArray) -> IntArray:
        """Fewest prefill workers beside ``decode`` workers, (n,); those of the plan where they are not enough."""
        out = np.full(rates.size, self.prefill_workers, dtype=np.int64)
        rows = np.flatnonzero(self.holds(rates, decode, out))
        while rows.size:  # each rate once, by which its decode workers are known
            asked, first = np.unique(rates[rows], return_index=True)
            mine = rows[first]
            out[mine] = smallest_fleets(asked, partial(self._holds_beside, asked, decode[mine]), self.prefill_workers)
            rows = np.setdiff1d(rows, mine)
        return out

    def _holds_beside(self, known: Array, decode: IntArray, rates: Array, prefill: IntArray) -> BoolArray:
        """Where ``prefill`` workers hold every limit at ``rates``, each one of the ascending ``known``, (m,), which has
        ``decode`` workers beside it.
        """
        return self.holds(rates, decode[np.searchsorted(known, rates)], prefill)

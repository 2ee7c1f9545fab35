"""A chosen deployment at other rates and with other counts of its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from planner.economics.sizing import smallest_fleets
from planner.errors import InfeasibleError
from planner.search.loaded import Loaded, routing, sharing, stream_cv
from planner.search.setup import Setup
from planner.search.table import Deployments
from planner.serving.latency import LoadResult
from planner.serving.prefill_pool import PrefillPool
from planner.serving.queues import worker_cv

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ROUNDING = 1e-9
"""Relative excess over a limit that is rounding."""


@dataclass(frozen=True)
class Fleet:
    """One deployment at other rates and with other counts of its workers; step times follow their slope."""

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
        """Latencies at ``rates`` requests per second in all, (n,); percentiles as far as limits or ``levels`` ask."""
        loaded = self.row.loaded
        assert loaded is not None
        many = loaded.take(np.zeros(rates.size, dtype=np.int64))
        worker = many.worker.at_rate(
            rates / decode, worker_cv(stream_cv(self.s), decode, routing(self.s)), sharing(self.s, decode)
        )
        pool = many.prefill
        if pool is not None:
            pool = self._pool(rates, np.full(rates.size, self.prefill_workers) if prefill is None else prefill)
        wanted: dict[str, tuple[str, ...]] = {m: tuple(levels) for m in ("ttft", "tbt")}
        for metric, limits in self.s.limits_s.items():
            wanted[metric] = (*wanted.get(metric, ()), *(level for level in limits if level != "mean"))
        return Loaded(worker, pool).result({m: tuple(dict.fromkeys(names)) for m, names in wanted.items()})

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

    def seconds(self, result: LoadResult, metric: str, level: str) -> Array:
        """A latency of ``result``, as the plan would give it."""
        return result.get(metric, level) * self.corrections.get((metric, level), 1.0)

    def meets(self, result: LoadResult) -> BoolArray:
        """Where every limit and the completion rate are met, (n,)."""
        good = result.stable.copy()
        for metric, levels in self.s.limits_s.items():
            for level, limit in levels.items():
                good &= self.seconds(result, metric, level) <= limit * (1.0 + ROUNDING)
        wanted = self.s.scenario.slo.completion_rate
        return good if wanted is None else good & (result.completion >= wanted)

    def holds(self, rates: Array, decode: IntArray, prefill: IntArray | None = None) -> BoolArray:
        """Where every limit is met, (n,)."""
        return self.meets(self.result(rates, decode, prefill))

    def _holds_beside(self, decode: int, rates: Array, prefill: IntArray) -> BoolArray:
        return self.holds(rates, np.full(rates.size, decode, dtype=np.int64), prefill)

    def prefill_for(self, rates: Array, decode: IntArray) -> IntArray:
        """Fewest prefill workers beside ``decode`` workers, (n,); those of the plan where no number is enough."""
        guess = np.maximum(np.ceil(self.prefill_workers * decode / self.replicas), 1.0)
        out = np.full(rates.size, self.prefill_workers, dtype=np.int64)
        for i in range(rates.size):
            try:
                out[i] = smallest_fleets(rates[i], partial(self._holds_beside, decode[i]), guess[i])[0]
            except InfeasibleError:
                continue
        return np.minimum(out, self.prefill_workers)

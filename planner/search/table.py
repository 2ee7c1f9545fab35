"""Deployments under evaluation as columns: a row is a layout at an operating point, aggregated or split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from planner.layout.hosts import footprint
from planner.layout.layouts import Layouts
from planner.layout.packing import nodes_of
from planner.search.rejections import Rejections
from planner.search.setup import Hardware
from planner.serving.rows import put

if TYPE_CHECKING:
    from planner.search.loaded import Loaded
    from planner.serving.stepwise import Stepwise

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Workers:
    """Workers of one kind: layouts and settings of shape (n,) on one node type."""

    hardware: Hardware
    layouts: Layouts
    concurrency: Array
    """Requests in flight in one worker (of a prefill pool: prompts processed at once)."""
    token_budget: IntArray
    """Tokens of a step per attention-DP rank."""
    two_batch: BoolArray
    deepep: BoolArray
    count: IntArray
    """Workers in the deployment."""

    def __len__(self) -> int:
        return len(self.layouts)

    @cached_property
    def gpus(self) -> IntArray:
        return self.count * self.layouts.gpus

    @cached_property
    def footprint(self) -> IntArray:
        """GPUs of its node that a worker keeps from others."""
        shape = self.hardware.shape
        return footprint(self.layouts, shape.host or shape.gpus, shape.gpus, self.hardware.engine)

    @cached_property
    def nodes(self) -> IntArray:
        """Whole nodes that the workers occupy where no others do."""
        return nodes_of(self.count, self.footprint, self.hardware.gpus_per_node)

    def take(self, rows: IntArray) -> Workers:
        """The workers at positions ``rows``."""
        return Workers(
            self.hardware,
            self.layouts.take(rows),
            self.concurrency[rows],
            self.token_budget[rows],
            self.two_batch[rows],
            self.deepep[rows],
            self.count[rows],
        )

    def updated(self, rows: IntArray, part: Workers) -> Workers:
        """With concurrency and count of the workers at positions ``rows`` replaced."""
        return replace(
            self,
            concurrency=put(self.concurrency, rows, part.concurrency),
            count=put(self.count, rows, part.count),
        )

    def describe(self, i: int) -> str:
        """Row ``i`` in words."""
        name = f"{self.layouts.describe(i)} on {self.hardware.id}"
        held = float(self.concurrency[i])
        count = f"{held:,.0f}" if held >= 0.95 else f"{held:.2g}"
        return f"{name} at {count} request{'' if count == '1' else 's'} per worker"


@dataclass(frozen=True)
class Outcome:
    """Means of whole deployments, arrays (n,)."""

    latency: Mapping[tuple[str, str], Array]
    """Seconds by metric ("ttft", "tbt", "tpot", "e2e") and "mean" or percentile, as far as judging needs them."""
    throughput_rps: Array
    goodput_rps: Array
    """Requests per second that are served within every limit."""
    rejection: Array
    """Part of requests that find no KV slot."""
    stable: BoolArray
    reached_rps: Array
    """Load at which the deployment would stop being stable, as far as its own terms tell."""
    prefill_share: Array
    """Part of the GPU time that prefill takes (0 to 1)."""
    utilisation: Array
    """Load over what the deployment could pass (1 in a closed loop)."""
    prefill_utilisation: Array
    """Part of the time in which a worker (of the prefill pool) processes prompts."""
    usd_per_hour: Array
    usd_per_mtok_input: Array
    usd_per_mtok_output: Array
    joules_per_token: Array
    limit_share: Array
    """The latency that comes nearest to its limit, over it: 1 is at a limit, 0 where there is none. By the forms that
    every candidate was evaluated with, so that the order does not hang on which ones were looked at step by step."""

    def take(self, rows: IntArray) -> Outcome:
        """The deployments at positions ``rows``."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        latency = {key: values[rows] for key, values in kept.pop("latency").items()}
        return Outcome(latency=latency, **{name: values[rows] for name, values in kept.items()})

    def updated(self, rows: IntArray, part: Outcome) -> Outcome:
        """With the deployments at positions ``rows`` replaced by those of ``part``."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        latency = {key: put(values, rows, part.latency[key]) for key, values in kept.pop("latency").items()}
        return Outcome(latency=latency, **{name: put(v, rows, getattr(part, name)) for name, v in kept.items()})


@dataclass(frozen=True)
class Deployments:
    """Evaluated deployments of one serving mode on one (pair of) node types."""

    serving: Literal["agg", "disagg"]
    decode: Workers
    """The workers that decode: all of them when aggregated."""
    prefill: Workers | None
    outcome: Outcome
    rejections: Rejections
    evaluated: int
    """Layouts x operating points that were evaluated for this table, dropped ones included."""
    loaded: Loaded | None = None
    """The loads behind the latencies, rows as in the table."""
    steps: Mapping[int, Stepwise] = field(default_factory=dict)
    """Rows that were looked at step by step (:mod:`planner.search.refining`)."""
    settled: BoolArray | None = None
    """Rows whose steps were evaluated at the occupancy that their load comes to, not carried there along a slope
    (:mod:`planner.search.settling`); None where all of them were."""

    def __len__(self) -> int:
        return len(self.decode)

    @cached_property
    def gpus(self) -> IntArray:
        return self.decode.gpus if self.prefill is None else self.decode.gpus + self.prefill.gpus

    @property
    def pools(self) -> tuple[Workers, ...]:
        """The workers of each kind: prefill, then decode, or all alike."""
        return (self.decode,) if self.prefill is None else (self.prefill, self.decode)

    def take(self, rows: IntArray) -> Deployments:
        """The deployments at positions ``rows``."""
        r = self.rejections
        return Deployments(
            self.serving,
            self.decode.take(rows),
            None if self.prefill is None else self.prefill.take(rows),
            self.outcome.take(rows),
            Rejections(r.names, r.code[rows], r.needed[rows], r.available[rows]),
            len(rows),
            None if self.loaded is None else self.loaded.take(rows),
            {k: self.steps[row] for k, row in enumerate(rows.tolist()) if row in self.steps},
            None if self.settled is None else self.settled[rows],
        )

    def updated(self, rows: IntArray, part: Deployments) -> Deployments:
        """With the aggregated deployments at positions ``rows`` replaced by those of ``part``, settled."""
        assert self.loaded is not None
        assert part.loaded is not None
        return replace(
            self,
            decode=self.decode.updated(rows, part.decode),
            outcome=self.outcome.updated(rows, part.outcome),
            rejections=self.rejections.updated(rows, part.rejections),
            loaded=self.loaded.updated(rows, part.loaded),
            settled=None if self.settled is None else put(self.settled, rows, np.ones(rows.size, dtype=bool)),
        )

    def describe(self, i: int) -> str:
        """Deployment ``i`` in words."""
        if self.prefill is None:
            return self.decode.describe(i)
        pools = ((self.prefill, "prefill"), (self.decode, "decode"))
        return " + ".join(f"{name} {int(p.count[i])} × {p.layouts.describe(i)} on {p.hardware.id}" for p, name in pools)

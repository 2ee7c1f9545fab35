"""What a replay is told: how steps are scheduled, how requests are routed, what is cached, what fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import Field

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate
from planner.errors import InputError, UnknownNameError

Routing = Literal["round_robin", "least_loaded", "prefix_aware"]
ROUTINGS: tuple[Routing, ...] = ("round_robin", "least_loaded", "prefix_aware")


class SchedulerKind(Strict):
    """How an engine fills a step, whatever the sizes; from ``hardware_db/replay/schedulers.yaml``."""

    id: str
    mixed: bool
    "Prompts ride in the same step as decodes; otherwise decodes pause while prompts are processed."
    chunked: bool
    "Prompts are split so that a step keeps to its token budget; otherwise only those longer than the budget are."
    reserve_output: float = Field(ge=0.0, le=1.0)
    "Part of the outputs still to come that admission keeps cache free for; 1 allocates it at once (no preemption)."
    source: str


@lru_cache(maxsize=1)
def scheduler_kinds() -> dict[str, SchedulerKind]:
    """Scheduler kinds by engine."""
    rows = read_yaml(data_root() / "hardware_db" / "replay" / "schedulers.yaml")["schedulers"]
    found = [validate(SchedulerKind, row, f"replay/schedulers.yaml {i}") for i, row in enumerate(rows)]
    return {k.id: k for k in found}


def scheduler_kind(engine: str) -> SchedulerKind:
    known = scheduler_kinds()
    if engine not in known:
        raise UnknownNameError("engine.name", engine, known)
    return known[engine]


@dataclass(frozen=True)
class Scheduler:
    """A scheduler with its sizes, all per attention-DP rank."""

    mixed: bool
    chunked: bool
    reserve_output: float
    token_budget: int
    """Tokens of a step."""
    max_sequences: int
    """Requests that hold cache at once."""
    static: bool = False
    """Static batching: requests enter only when the whole batch before them has finished."""

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_sequences"):
            if getattr(self, name) < 1:
                raise InputError(f"scheduler.{name}", getattr(self, name), "at least 1")


@dataclass(frozen=True)
class Cache:
    """KV cache of one attention-DP rank, in tokens."""

    tokens: int
    block_tokens: int
    prefix: bool = False
    """Whether prefix blocks of earlier requests are kept (least recently used go first) and reused."""
    hit_rate: float = 0.0
    """Part of a prompt that counts as cached where the trace itself has no prefix blocks."""
    hit_requests: float = 1.0
    """Part of the requests that it does for; the others compute all of theirs."""
    kept_tokens: int = 0
    """Tokens that running requests leave to cached prefixes."""


@dataclass(frozen=True)
class Speculation:
    """Multi-token prediction: ``acceptance[k]`` is the chance that draft token k + 1 is accepted, given all before."""

    acceptance: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if any(not 0.0 <= a <= 1.0 for a in self.acceptance):
            raise InputError("acceptance", self.acceptance, "probabilities between 0 and 1")

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens of a step: 1 + sum of the products of acceptances up to each position."""
        return sum(k * p for k, p in self.distribution)

    @property
    def distribution(self) -> tuple[tuple[int, float], ...]:
        """(tokens of a step, probability)."""
        out, reach = [], 1.0
        for k, a in enumerate(self.acceptance, start=1):
            out.append((k, reach * (1.0 - a)))
            reach *= a
        out.append((len(self.acceptance) + 1, reach))
        return tuple(out)


@dataclass(frozen=True)
class Failure:
    """A worker that dies: its requests start again elsewhere, its cache is lost."""

    at_s: float
    worker: int
    recovery_s: float

    def __post_init__(self) -> None:
        if not (self.at_s >= 0 and self.recovery_s >= 0 and np.isfinite(self.at_s + self.recovery_s)):
            raise InputError("failures", (self.at_s, self.recovery_s), "times of at least 0 seconds")


@dataclass(frozen=True)
class Admission:
    """When an arriving request is turned away instead of queued."""

    most_waiting: int | None = None
    """Requests of one worker that may wait for its cache or its batch."""


@dataclass(frozen=True)
class Limits:
    """What a request must meet to count as good, seconds; None is no limit."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    tbt_s: tuple[tuple[float, float], ...] = ()
    """(limit, part of the request's gaps between tokens that must keep to it)."""
    means: tuple[tuple[str, float], ...] = ()
    """(metric, limit) on means over all requests ("ttft", "tpot", "e2e") or all gaps ("tbt"): they do not sort
    requests, so that none is good where one is missed."""


@dataclass(frozen=True)
class Transfer:
    """KV cache from a prefill to a decode worker: latency and bytes over the links, one after the other on each."""

    latency_s: float
    seconds_per_token: float
    """A sending rank's link busy per prompt token."""
    receive_seconds_per_token: float = 0.0
    """A receiving rank's link busy per prompt token."""
    layers: int = 1
    """Parts that are sent as soon as they are computed, while the others are: the model's layers, or 1 where a prompt's
    cache is sent after it."""

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise InputError("transfer.layers", self.layers, "at least 1")


@dataclass(frozen=True)
class Deployment:
    """Workers of one kind."""

    workers: int
    ranks: int
    """Attention-DP ranks of a worker."""
    scheduler: Scheduler
    cache: Cache


@dataclass(frozen=True)
class Rules:
    """What holds for the whole replay."""

    routing: Routing = "least_loaded"
    request_s: float = 0.0
    """Fixed time of a request outside steps; counts in TTFT."""
    speculation: Speculation = field(default_factory=Speculation)
    failures: Sequence[Failure] = ()
    admission: Admission = field(default_factory=Admission)
    limits: Limits = field(default_factory=Limits)
    concurrency: int | None = None
    """Closed loop: so many requests in flight, the next one enters as one leaves. None follows the trace's times."""
    seed: int = 0
    warmup: float = 0.0
    """Part of the requests, in order of arrival, that is replayed first and not counted."""
    cooldown: float = 0.0
    """The same of the last ones: they see the deployment empty."""


def counted_range(n: int, rules: Rules) -> tuple[int, int]:
    """First and behind-the-last of ``n`` arrivals that statistics are over; at least one."""
    first = min(int(rules.warmup * n), n - 1)
    return first, max(n - int(rules.cooldown * n), first + 1)

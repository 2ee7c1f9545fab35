"""A candidate of the search turned into a replay: workers, step tables, cache and rules from the same scenario."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, gcd
from typing import Any

import numpy as np

from planner.catalog.validation import validate
from planner.errors import InputError
from planner.layout.layouts import Layouts
from planner.replay.cluster import Progress, replay
from planner.replay.results import Replayed, digits
from planner.replay.settings import (
    Admission,
    Cache,
    Deployment,
    Failure,
    Limits,
    Routing,
    Rules,
    Scheduler,
    Speculation,
    Transfer,
    scheduler_kind,
)
from planner.replay.step_table import StepTable
from planner.replay.trace import Trace
from planner.scenario.lengths import EmpiricalLength, histogram
from planner.scenario.loads import Gamma
from planner.scenario.schema import Scenario, Slo
from planner.search.aggregated import overlap_choices, uses_deepep
from planner.search.evaluation import budget_of
from planner.search.passage import outside_s
from planner.search.plan_schema import Candidate, KvTransfer, OperatingPoint, Pool
from planner.search.setup import Hardware, Setup
from planner.search.table import Workers as Candidates
from planner.search.transfer import links, sent_layers
from planner.units import MILLISECOND

MOST_REQUESTS = 200_000
"""Requests that are replayed where the user names no number."""
RESIDENCES = 8
"""A replay lasts so many mean times of a request, so that its start does not show."""
FEWEST_REQUESTS = 2_000
WARMUP_RESIDENCES, COOLDOWN_RESIDENCES = 1.5, 1.0
"""The first requests see the deployment fill and the last ones see it empty, for about so many mean times of a request:
they are replayed but not counted."""
LEAST_UNCOUNTED, MOST_WARMUP, MOST_COOLDOWN = 0.1, 0.5, 0.35
"""Bounds of the uncounted parts of the requests at either end."""
MOST_HIT = 0.999
"""Largest part of prompt tokens that a trace's prefixes count for."""
LATENCIES = ("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms")


@dataclass(frozen=True)
class Options:
    """What a replay may do differently from the plan."""

    routing: Routing | None = None
    """None: by prefix where the scenario says that requests go to the worker that knows theirs, else by load."""
    prefix_cache: bool = True
    two_batch: bool | None = None
    """None: as the candidate has it."""
    static: bool = False
    prefill_tokens: int | None = None
    """Tokens of a prefill worker's step; None: as the candidate has it."""
    speculation: Speculation = field(default_factory=Speculation)
    failures: tuple[Failure, ...] = ()
    most_waiting: int | None = None
    """Requests of one worker that may wait; further ones are turned away. None queues all."""
    share: tuple[int, int] = (1, 1)
    """(workers replayed, of so many): a part of the deployment under the same part of the load."""


@dataclass(frozen=True)
class Workers:
    """One pool: its deployment and its table of step times."""

    deployment: Deployment
    table: StepTable
    layout: Layouts
    hardware: Hardware

    def candidate(self) -> Candidates:
        """As a row of the search's tables."""
        one, off = np.ones(1), np.zeros(1, dtype=bool)
        count = np.array([self.deployment.workers])
        budget = np.array([self.deployment.scheduler.token_budget])
        return Candidates(self.hardware, self.layout, one, budget, off, off, count)


@dataclass(frozen=True)
class Prepared:
    """Everything a replay needs but the trace."""

    decode: Workers
    prefill: Workers | None
    transfer: Transfer | None
    rules: Rules
    longest_request: int
    """Tokens of the longest request that engines accept."""

    def fitting(self, trace: Trace) -> Trace:
        """The trace without requests that no engine accepts or no rank's cache could hold."""
        pools = [self.decode] if self.prefill is None else [self.prefill, self.decode]
        block = max(p.deployment.cache.block_tokens for p in pools)
        most = min(self.longest_request, *(p.deployment.cache.tokens - block for p in pools))
        return trace.where(trace.input_tokens + trace.output_tokens <= most)

    def run(self, trace: Trace, progress: Progress | None = None) -> Replayed:
        """Replays ``trace``."""
        prefill = None if self.prefill is None else (self.prefill.deployment, self.prefill.table)
        decode = (self.decode.deployment, self.decode.table)
        return replay(trace, decode, self.rules, prefill, self.transfer, progress)


def prepare(s: Setup, c: Candidate, requests: int, seed: int, options: Options | None = None) -> Prepared:
    """The candidate's workers as a replay of ``requests`` requests runs them."""
    o = options or Options()
    if s.acceptance and not o.speculation.acceptance:
        o = replace(o, speculation=Speculation(s.acceptance))
    longest_context = s.scenario.engine.options.max_model_len or s.spec.max_context_tokens
    if c.prefill_pool is not None and c.decode_pool is not None:
        d = _pool_workers(s, c.decode_pool, longest_context, o, prefill=False)
        p = _pool_workers(s, c.prefill_pool, longest_context, o, prefill=True)
        transfer = kv_transfer(s, p, d, c.kv_transfer)
    else:
        count = max(1, c.replicas * o.share[0] // o.share[1])
        layout = Layouts.of(**c.layout.model_dump())
        hw = _hardware(s, c.node)
        budget = c.settings.max_num_batched_tokens or hw.token_budget
        d, p, transfer = _workers(s, hw, layout, count, c.settings, budget, longest_context, o), None, None
    ends = uncounted(s, c, requests, o.share)
    rules = Rules(
        routing=o.routing or _routing(s),
        request_s=float(outside_s(s, (d if p is None else p).candidate())[0]),
        speculation=o.speculation,
        failures=o.failures,
        admission=Admission(o.most_waiting),
        limits=limits_of(s.scenario.slo),
        concurrency=None if s.in_flight is None else max(1, s.in_flight * o.share[0] // o.share[1]),
        seed=seed,
        warmup=ends[0],
        cooldown=ends[1],
    )
    return Prepared(d, p, transfer, rules, longest_context)


def _routing(s: Setup) -> Routing:
    reuse = s.scenario.workload.prefix_reuse
    return "prefix_aware" if reuse is not None and reuse.routing == "affinity" else "least_loaded"


def _pool_workers(s: Setup, pool: Pool, longest: int, o: Options, *, prefill: bool) -> Workers:
    hw = _hardware(s, pool.node)
    count = max(1, pool.workers * o.share[0] // o.share[1])
    budget = (o.prefill_tokens if prefill else None) or pool.settings.max_num_batched_tokens or hw.token_budget
    layout = Layouts.of(**pool.layout.model_dump())
    own = o if prefill else replace(o, prefix_cache=False)  # what comes over from the other pool is computed already
    return _workers(s, hw, layout, count, pool.settings, budget, longest, own, prefill)


def _workers(
    s: Setup,
    hw: Hardware,
    layout: Layouts,
    count: int,
    settings: OperatingPoint,
    token_budget: int,
    longest: int,
    o: Options,
    prefill: bool = False,
) -> Workers:
    kind = scheduler_kind(s.scenario.engine.name)
    ranks = int(layout.attention_dp[0])
    sequences = settings.max_num_seqs or s.scheduler.max_num_seqs
    wanted = bool(settings.two_batch_overlap if o.two_batch is None else o.two_batch)
    two_batch = wanted and bool(overlap_choices(s, hw, layout)[0])
    chunked = s.scenario.engine.options.chunked_prefill
    scheduler = Scheduler(
        mixed=kind.mixed and not o.static,
        chunked=kind.chunked if chunked is None else chunked,
        reserve_output=0.0 if prefill else kind.reserve_output,
        token_budget=token_budget,
        max_sequences=sequences,
        static=o.static,
    )
    table = StepTable(
        hw.ctx,
        layout,
        two_batch=two_batch,
        deepep=bool(uses_deepep(s, hw, layout)[0]),
        most_sequences=sequences,
        most_tokens=token_budget,
        longest_context=longest,
        drafts=0 if prefill else len(o.speculation.acceptance),
    )
    cache = kv_cache(s, hw, layout, sequences * ranks, token_budget)
    kept = int(cache.tokens * (1.0 - s.request_share)) if s.scenario.workload.prefix_reuse is not None else 0
    cache = replace(cache, kept_tokens=kept if o.prefix_cache else 0)
    cache = replace(cache, prefix=o.prefix_cache, hit_rate=s.hits.part if o.prefix_cache else 0.0)
    cache = replace(cache, hit_requests=s.hits.requests)
    return Workers(Deployment(count, ranks, scheduler, cache), table, layout, hw)


def _hardware(s: Setup, node: str) -> Hardware:
    """A node type as the scenario uses it, in candidates or pools."""
    return s.hardware(s.scenario.hardware.choice(node))


def kv_cache(s: Setup, hw: Hardware, layout: Layouts, concurrency: float, token_budget: int) -> Cache:
    """Cache of one rank in tokens of requests of mean length (windowed layers hold less of longer ones)."""
    budget = budget_of(s, hw, layout, np.array([float(concurrency)]), token_budget)
    context = float(np.ceil(s.traffic.mean_context))
    sequences = float(budget.sequences(context)[0])
    block = int(budget.at(budget.groups[0].block_tokens)[0]) if budget.groups else 1
    tokens = int(sequences * context) if np.isfinite(sequences) else MOST_REQUESTS * int(context)
    if tokens < block:
        raise InputError("layout", layout.describe(0), "a layout whose memory holds at least one request")
    return Cache(tokens, max(block, 1))


def kv_transfer(s: Setup, prefill: Workers, decode: Workers, planned: KvTransfer | None) -> Transfer:
    """Latency and times per token of sending a prompt's cache, over the same links as the plan, though these workers
    may be a part of its own.
    """
    across = None if planned is None else np.array([planned.link == "network"])
    found = links(s, prefill.candidate(), decode.candidate(), across)
    mean = float(s.traffic.input_tokens)
    send, receive, latency = (float(np.atleast_1d(v)[0]) for v in (found.send_s, found.receive_s, found.latency_s))
    return Transfer(latency, send / mean, receive / mean, sent_layers(s, prefill.hardware))


def limits_of(slo: Slo) -> Limits:
    """What one request must meet: of each metric the limit at the highest percentile named, and what all must meet: the
    limits on means.

    A limit on a percentile of the gaps between tokens binds that part of the request's own gaps.
    """
    found: dict[str, tuple[float, float]] = {}
    gaps: list[tuple[float, float]] = []
    means: list[tuple[str, float]] = []
    for metric, percentile, limit in slo.limits():
        seconds = limit * MILLISECOND
        if percentile == "mean":
            means.append((metric.removesuffix("_ms"), seconds))
            continue
        part = float(percentile[1:]) / 100.0
        if metric == "tbt_ms":
            gaps.append((seconds, part))
        elif metric not in found or part > found[metric][0]:
            found[metric] = (part, seconds)
    seconds_of = {name: value for name, (_, value) in found.items()}
    return Limits(
        seconds_of.get("ttft_ms"), seconds_of.get("tpot_ms"), seconds_of.get("e2e_ms"), tuple(gaps), tuple(means)
    )


def with_trace(scenario: Scenario, trace: Trace) -> Scenario:
    """The scenario with the trace's lengths, rate, gap variation and prefix reuse: what closed forms see of it."""
    lengths = {
        "input_tokens": EmpiricalLength(kind="empirical", **histogram(trace.input_tokens)),
        "output_tokens": EmpiricalLength(kind="empirical", **histogram(trace.output_tokens)),
    }
    arrival = scenario.workload.arrival
    if np.isfinite(trace.rate_rps) and trace.gap_cv > 0:
        gaps = {"kind": "gamma", "rate_rps": trace.rate_rps, "cv": trace.gap_cv}
        arrival = validate(Gamma, gaps, f"the arrivals of {trace.name}")
    changes: dict[str, Any] = {**lengths, "arrival": arrival}
    if trace.block_tokens:
        held = trace.infinite_cache_tokens()
        rate, requests = min(trace.infinite_cache_hit_rate(), MOST_HIT), float(np.mean(held > 0))
        changes |= {"prefix_hit_rate": rate, "prefix_hit_requests": max(requests, rate) or None}
    return scenario.model_copy(update={"workload": scenario.workload.model_copy(update=changes)})


def extent(s: Setup, c: Candidate, requests: int | None) -> tuple[int, tuple[int, int]]:
    """(requests, share of the deployment) to replay: RESIDENCES mean requests long, of a part of the workers where the
    whole would need more than MOST_REQUESTS.
    """
    if requests is not None:
        return requests, (1, 1)
    rate = s.rate_rps
    if rate is None:
        assert s.in_flight is not None
        return int(min(max(RESIDENCES * s.in_flight, FEWEST_REQUESTS), MOST_REQUESTS)), (1, 1)
    wanted = max(FEWEST_REQUESTS, ceil(RESIDENCES * rate * residence_s(c)))
    if wanted <= MOST_REQUESTS:
        return wanted, (1, 1)
    units = c.replicas
    if c.prefill_pool is not None and c.decode_pool is not None:
        units = gcd(c.prefill_pool.workers, c.decode_pool.workers)
    kept = max(1, min(units, int(units * MOST_REQUESTS / wanted)))
    return min(MOST_REQUESTS, max(FEWEST_REQUESTS, ceil(wanted * kept / units))), (kept, units)


def uncounted(s: Setup, c: Candidate, requests: int, share: tuple[int, int]) -> tuple[float, float]:
    """Parts of ``requests`` at the start and the end that come in while the deployment fills and empties."""
    inside = s.rate_rps * residence_s(c) if s.rate_rps is not None else float(s.in_flight or 0)
    one = inside * share[0] / share[1] / requests
    first = float(np.clip(WARMUP_RESIDENCES * one, LEAST_UNCOUNTED, MOST_WARMUP))
    return first, float(np.clip(COOLDOWN_RESIDENCES * one, LEAST_UNCOUNTED, MOST_COOLDOWN))


def residence_s(c: Candidate) -> float:
    """Mean time of a request by the closed forms; 0 where they give none."""
    mean = c.e2e_ms.mean if c.e2e_ms is not None else None
    return (mean or 0.0) * MILLISECOND


def predicted(c: Candidate) -> dict[str, Any]:
    """The replay's keys from the closed forms."""
    found: dict[str, Any] = {name: getattr(c, name).model_dump() for name in LATENCIES if getattr(c, name) is not None}
    return found | {
        "throughput_rps": digits(c.throughput_rps) if c.throughput_rps is not None else None,
        "goodput_rps": digits(c.goodput_rps),
        "completion_rate": digits(c.completion_rate) if c.completion_rate is not None else None,
    }

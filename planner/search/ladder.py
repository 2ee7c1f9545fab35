"""The ladder: one replica at fixed concurrency, then one technique added at a time, on one trace.

Every rung keeps the requests in flight per GPU of the first one, so that a difference between two rungs comes from the
technique that was added and from nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from planner.catalog.loader import Catalog
from planner.catalog.loader import catalog as open_catalog
from planner.errors import InfeasibleError, InputError
from planner.layout.layouts import Layouts
from planner.replay.cluster import Progress
from planner.replay.generate import fixed_trace
from planner.replay.results import Replayed, digits
from planner.replay.trace import Trace
from planner.scenario.identity import Identity, identity_of
from planner.scenario.loads import ClosedLoop
from planner.scenario.schema import Scenario
from planner.search.headline import deployment
from planner.search.plan_schema import Candidate, Pool
from planner.search.planning import estimate
from planner.search.replaying import Options, Prepared, prepare, with_trace
from planner.search.replays import chosen
from planner.search.setup import Setup, setup

DEFAULT_PROFILE, DEFAULT_REQUESTS = "long_document_qa", 2_000
REPLICAS = 4
"""Copies of the deployment in the last rung."""
TURNS = 12
"""Every rung replays at least so many requests for each in flight; the trace is repeated where it is shorter."""
MOST_POOL_WORKERS = 4
"""Largest pool of the split rung."""


class NothingToClimb(InfeasibleError):
    """No aggregated deployment serves the ladder's own load within the scenario's limits; the scenario itself may well
    be served.
    """

    def __init__(self, trace: str, why: str) -> None:
        self.trace, self.why = trace, why
        super().__init__(
            f"no ladder: its load is {trace} in place of the scenario's workload, and no aggregated deployment serves "
            f"that within the scenario's limits. {why}"
        )


@dataclass(frozen=True)
class Rung:
    """One step of the ladder and what it was measured on."""

    name: str
    deployment: str
    identity: Identity
    gpus: int
    concurrency: int
    requests: int
    """Replayed on it: the trace as often as it takes (TURNS), without what does not fit."""
    summary: dict[str, Any]
    occupancy: dict[str, float]

    @property
    def tokens_per_s_per_gpu(self) -> float:
        return digits(self.summary["output_tokens_per_s"] / self.gpus)

    def document(self) -> dict[str, Any]:
        return {
            "added": self.name,
            "deployment": self.deployment,
            "gpus": self.gpus,
            "concurrency": self.concurrency,
            "requests": self.requests,
            **self.summary,
            "output_tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "occupancy": self.occupancy,
            "identity": self.identity.model_dump(mode="json"),
        }


@dataclass(frozen=True)
class Ladder:
    """All rungs, in order; ``notes`` say which were left out and why."""

    scenario: str
    trace: str
    requests: int
    seed: int
    rungs: tuple[Rung, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The JSON document of ``planner replay --ladder --json``."""
        return {
            "scenario": self.scenario,
            "trace": {"name": self.trace, "requests": self.requests},
            "seed": self.seed,
            "rungs": [r.document() for r in self.rungs],
            "notes": list(self.notes),
        }


def climb(
    scenario: Scenario,
    trace: Trace | None = None,
    *,
    requests: int | None = None,
    seed: int = 0,
    catalog: Catalog | None = None,
    progress: Progress | None = None,
) -> Ladder:
    """Replays the ladder on ``trace`` (default: questions about long documents, whose prefixes repeat).

    The worker is that of the plan's best aggregated candidate for the trace. Raises NothingToClimb where there is
    none.
    """
    known = catalog or open_catalog()
    if trace is None:
        trace = fixed_trace(DEFAULT_PROFILE, requests or DEFAULT_REQUESTS, seed)
    elif requests is not None:
        trace = trace.head(requests)
    question = _aggregated(with_trace(scenario, trace))
    try:
        best = chosen(question, known)
    except InfeasibleError as error:
        raise NothingToClimb(trace.name, str(error)) from error
    return _Climb(question, known, best, trace, seed, progress).ladder()


def _aggregated(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"search": scenario.search.model_copy(update={"serving": ("agg",)})})


class _Climb:
    def __init__(
        self,
        scenario: Scenario,
        catalog: Catalog,
        best: Candidate,
        trace: Trace,
        seed: int,
        progress: Progress | None,
    ) -> None:
        self.scenario, self.catalog, self.seed, self.progress = scenario, catalog, seed, progress
        self.trace = trace
        self.per_worker = max(1, round(best.concurrency_per_worker or 1.0))
        self.worker_gpus = best.gpus // best.replicas
        self.one = best.model_copy(update={"replicas": 1, "gpus": self.worker_gpus, "nodes": None})
        self.rungs: list[Rung] = []
        self.notes = [
            f"Load: {trace.name}, not the scenario's workload. Worker: {one_worker(self.one)}, planned for that load "
            f"and run with {self.per_worker:,} request{'s' if self.per_worker != 1 else ''} in flight at all times."
        ]

    def ladder(self) -> Ladder:
        o = Options(routing="round_robin", prefix_cache=False, two_batch=False, static=True)
        o = replace(o, prefill_tokens=self.one.settings.max_num_batched_tokens)
        self._step("one replica, fixed concurrency", self.one, o)
        o = replace(o, static=False)
        last = self._step("continuous batching", self.one, o)
        o = replace(o, prefix_cache=True)
        last = self._step("prefix cache", self.one, o) or last
        worker, o, last = self._expert_overlap(o, last)
        split = self._split(worker, last)
        fleet = worker
        if split is not None:
            self._step("P/D split", split, o)
            fleet = split
        many = _times(fleet, REPLICAS)
        self._step(f"{REPLICAS} replicas, prefix-aware routing", many, replace(o, routing="prefix_aware"))
        name = self.trace.name
        return Ladder(self.scenario.name, name, len(self.trace), self.seed, tuple(self.rungs), tuple(self.notes))

    def _expert_overlap(self, o: Options, last: Replayed) -> tuple[Candidate, Options, Replayed]:
        """The same GPUs as attention-DP ranks with expert parallelism and two overlapped micro-batches."""
        s = self._setup(self.worker_gpus)
        if not s.hardware(_choice_of(s, self.one.node)).ctx.program.moes:
            self.notes.append("EP overlap is left out: the model has no experts.")
            return self.one, o, last
        if self.worker_gpus < 2:
            self.notes.append("EP overlap is left out: a replica has one GPU.")
            return self.one, o, last
        n = self.worker_gpus // self.one.layout.pp
        layout = Layouts.of(1, self.one.layout.pp, n, None, n, self.one.layout.redundant_experts)
        try:
            found = estimate(
                s.scenario, layout, node=self.one.node, concurrency=float(self.per_worker), catalog=self.catalog
            )
            worker = self.one.model_copy(update={"layout": found.candidate.layout})
            return worker, replace(o, two_batch=True), self._step("EP overlap", worker, replace(o, two_batch=True))
        except InputError as error:
            self.notes.append(f"EP overlap is left out: {error}.")
            return self.one, o, last

    def _split(self, worker: Candidate, last: Replayed) -> Candidate | None:
        """Pools in the ratio of the time that prompts and tokens took before."""
        share = last.prompt_share / max(last.busy_share, 1e-9)
        ratio = min(
            ((p, d) for p in range(1, MOST_POOL_WORKERS + 1) for d in range(1, MOST_POOL_WORKERS + 1)),
            key=lambda r: (round(abs(r[0] / (r[0] + r[1]) - share), 3), r[0] + r[1]),
        )
        self.notes.append(
            f"P/D split: {ratio[0]} prefill and {ratio[1]} decode workers; prompts took {share:.0%} of the busy time."
        )
        held = self.per_worker * sum(ratio) / ratio[1]
        # settings that memory was planned for, with room for the requests that a decode worker now has
        at_once = max(worker.settings.max_num_seqs or 0, math.ceil(held / worker.layout.attention_dp))
        settings = worker.settings.model_copy(update={"max_num_seqs": at_once})
        pools = [
            Pool(node=worker.node, layout=worker.layout, workers=n, gpus=n * self.worker_gpus, settings=settings)
            for n in ratio
        ]
        return worker.model_copy(
            update={
                "serving": "disagg",
                "prefill_pool": pools[0],
                "decode_pool": pools[1],
                "replicas": ratio[1],
                "gpus": sum(ratio) * self.worker_gpus,
                "concurrency_per_worker": held,
            }
        )

    def _step(self, name: str, candidate: Candidate, o: Options) -> Replayed:
        s = self._setup(candidate.gpus)
        concurrency = s.in_flight or 0
        times = max(1, -(-TURNS * concurrency // len(self.trace)))
        whole = self.trace.repeated(times)
        if times > 1:
            self.notes.append(
                f"{name}: the trace is replayed {times:,} times over, {len(whole):,} requests for {concurrency:,} in "
                "flight."
            )
        ready: Prepared = prepare(s, candidate, len(whole), self.seed, o)
        trace = ready.fitting(whole)
        if len(trace) < len(whole):
            count = len(whole) - len(trace)
            self.notes.append(f"{name}: {count} requests exceed the context limit or a rank's cache and are left out.")
        replayed = ready.run(trace, self.progress)
        topology = f"{deployment(candidate)} · {name}"
        identity = identity_of(s.scenario, s.spec, s.precision.as_dict(), gpu=candidate.accelerator, topology=topology)
        self.rungs.append(
            Rung(
                name,
                deployment(candidate),
                identity,
                candidate.gpus,
                concurrency,
                len(trace),
                replayed.summary(),
                replayed.occupancy(),
            )
        )
        return replayed

    def _setup(self, gpus: int) -> Setup:
        """The scenario in a closed loop with the first rung's requests per GPU."""
        concurrency = max(1, round(self.per_worker * gpus / self.worker_gpus))
        arrival = ClosedLoop(kind="closed_loop", concurrency=concurrency)
        workload = self.scenario.workload.model_copy(update={"arrival": arrival})
        return setup(self.scenario.model_copy(update={"workload": workload}), self.catalog)


def one_worker(c: Candidate) -> str:
    """``TP4 on dgx-h100``."""
    return f"{c.layout.describe()} on {c.node}"


def _choice_of(s: Setup, node: str) -> Any:
    return next(c for c in s.scenario.hardware.candidates if c.node == node)


def _times(c: Candidate, n: int) -> Candidate:
    """``n`` copies of a deployment."""

    def pool(p: Pool | None) -> Pool | None:
        return None if p is None else p.model_copy(update={"workers": n * p.workers, "gpus": n * p.gpus})

    return c.model_copy(
        update={
            "replicas": n * c.replicas,
            "gpus": n * c.gpus,
            "prefill_pool": pool(c.prefill_pool),
            "decode_pool": pool(c.decode_pool),
        }
    )

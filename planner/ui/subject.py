"""What a page looks into: one deployment's workers with every name resolved, and the steps that they run.

The chosen candidate, or, where nothing serves the scenario, the nearest miss: its numbers are shown as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from planner.errors import PlannerError
from planner.layout.layouts import Layouts
from planner.memory.budget import MemoryBudget, StageRole
from planner.roofline.step import StepWork
from planner.scenario.schema import Scenario
from planner.search.aggregated import uses_deepep
from planner.search.evaluation import budget_of, kv_slots
from planner.search.plan_schema import Candidate, Layout, OperatingPoint, Phase, Plan
from planner.search.planned import Estimated
from planner.search.planning import estimated
from planner.search.setup import Setup
from planner.search.table import Deployments, Workers
from planner.search.worker_settings import prefill_held
from planner.serving.worker import Scheduling, aggregated_steps, decode_work, prefill_pool_steps
from planner.ui.answers import answered_with
from planner.ui.current import Answered, Current

Array = NDArray[np.float64]

KEPT = 64


@dataclass(frozen=True)
class PoolWorkers(Workers):
    """Workers with what their memory is planned for."""

    held: Array
    """Requests of mean length that the cache of one worker is to hold."""
    sequences: Array | None
    """Sequences of one attention-DP rank that the engine's settings allow; None where the plan does not say."""

    def memory(self, s: Setup, *, stage: StageRole | None = None, kv_format: str | None = None) -> MemoryBudget:
        """The plan's own budget of a rank: the tightest, or one of a pipeline ``stage``; in another ``kv_format``."""
        return budget_of(
            s,
            self.hardware,
            self.layouts,
            self.held,
            self.token_budget,
            self.sequences,
            stage=stage,
            kv_format=kv_format,
        )


@dataclass(frozen=True)
class Subject:
    """A candidate with its workers of one kind each; ``pools`` maps both, prefill or decode to a table of one row."""

    scenario: Scenario
    plan: Plan
    candidate: Candidate
    feasible: bool
    setup: Setup
    pools: dict[str, PoolWorkers]
    deployment: Deployments
    """What the candidate's figures came from, a table of one row."""
    key: str
    """Names plan and candidate in widget keys."""

    def steps(self) -> Iterator[tuple[Phase, Workers, StepWork]]:
        """Each kind of step with the workers that run it and what it carries."""
        traffic, s = self.setup.traffic, self.setup
        if "both" in self.pools:
            w = self.pools["both"]
            budget = budget_of(s, w.hardware, w.layouts, w.concurrency, w.token_budget)
            slots = kv_slots(s, w, budget, s.request_share)
            pause = s.scheduler.policy == "prefill_first"
            scheduling = Scheduling(w.token_budget.astype(float), pause, w.two_batch, w.deepep)
            work = aggregated_steps(w.layouts, w.concurrency, slots, s.step_traffic, scheduling)
            yield "decode", w, work.decode
            yield ("prefill" if pause else "mixed"), w, work.prefill
            return
        decode, prefill = self.pools["decode"], self.pools["prefill"]
        yield "decode", decode, decode_work(decode.concurrency, decode.layouts, traffic)
        yield "prefill", prefill, prefill_pool_steps(prefill.layouts, traffic, prefill.token_budget.astype(float))[0]


def subject_of(current: Current) -> Subject | None:
    """The chosen candidate of a page's plan, else its nearest miss; None where there is not even one."""
    if isinstance(current, Answered):
        made = answered_with(current.scenario, current.catalog)
        return _subject(current, made.setup, current.candidate, made.deployment(current.candidate.rank))
    found = _nearest(current)
    return None if found is None else _subject(current, found.setup, found.estimate.candidate, found.deployment)


def _subject(current: Current, s: Setup, candidate: Candidate, deployment: Deployments) -> Subject:
    key = f"{current.key}.{candidate.rank}"
    feasible = isinstance(current, Answered)
    return Subject(current.scenario, current.plan, candidate, feasible, s, _pools(s, candidate), deployment, key)


def _nearest(current: Current) -> Estimated | None:
    for miss in current.plan.nearest_misses:
        try:
            return _estimated(current.scenario.to_yaml(), current.catalog.version, miss.layout, miss.node, current)
        except PlannerError:
            continue
    return None


@st.cache_resource(max_entries=KEPT, show_spinner=False, hash_funcs={Layout: lambda layout: layout.describe()})
def _estimated(yaml: str, catalogue: str, layout: Layout, node: str, _current: Current) -> Estimated:
    one = Layouts.of(**layout.model_dump())
    return estimated(_current.scenario, one, node=node, catalog=_current.catalog)


def _pools(s: Setup, c: Candidate) -> dict[str, PoolWorkers]:
    prefill, decode = c.prefill_pool, c.decode_pool
    if prefill is None or decode is None:
        per_worker = c.concurrency_per_worker or c.concurrency / c.replicas
        return {"both": _planned(s, c.node, c.layout, per_worker, c.settings, c.replicas)}
    in_worker = decode.concurrency_per_worker or c.concurrency / decode.workers
    at_once = prefill.concurrency_per_worker or float(prefill.layout.attention_dp)
    first = _planned(s, prefill.node, prefill.layout, at_once, prefill.settings, prefill.workers)
    return {
        "prefill": replace(first, held=prefill_held(s, first)),
        "decode": _planned(s, decode.node, decode.layout, in_worker, c.settings, decode.workers),
    }


def _planned(
    s: Setup, node: str, layout: Layout, concurrency: float, settings: OperatingPoint, count: int
) -> PoolWorkers:
    """A table of one row: ``count`` workers of a layout; a step has a request in it."""
    hw = s.hardware(s.scenario.hardware.choice(node))
    layouts = Layouts.of(**layout.model_dump())
    inside = np.array([max(concurrency, 1.0)])
    sequences = settings.max_num_seqs
    return PoolWorkers(
        hw,
        layouts,
        inside,
        np.array([settings.max_num_batched_tokens or hw.token_budget], dtype=np.int64),
        np.array([bool(settings.two_batch_overlap)]),
        uses_deepep(s, hw, layouts),
        np.array([count], dtype=np.int64),
        held=inside,
        sequences=None if sequences is None else np.array([float(sequences)]),
    )

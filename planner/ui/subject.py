"""What a page looks into: one deployment's workers with every name resolved, and the steps that they run.

The chosen candidate, or, where nothing serves the scenario, the nearest miss: its numbers are shown as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import streamlit as st

from planner.errors import PlannerError
from planner.layout.layouts import Layouts
from planner.roofline.step import StepWork
from planner.scenario.schema import Scenario
from planner.search.aggregated import uses_deepep
from planner.search.evaluation import budget_of, most_sequences
from planner.search.plan_schema import Candidate, Layout, Phase, Plan
from planner.search.planned import Estimated
from planner.search.planning import estimated
from planner.search.setup import Hardware, Setup
from planner.search.table import Deployments, Workers
from planner.serving.worker import Scheduling, aggregated_steps, decode_work, prefill_pool_steps
from planner.ui.answers import answered_with
from planner.ui.current import Answered, Current

KEPT = 64


@dataclass(frozen=True)
class Subject:
    """A candidate with its workers of one kind each; ``pools`` maps both, prefill or decode to a table of one row."""

    scenario: Scenario
    plan: Plan
    candidate: Candidate
    feasible: bool
    setup: Setup
    pools: dict[str, Workers]
    deployment: Deployments
    """What the candidate's figures came from, a table of one row."""
    key: str
    """Names plan and candidate in widget keys."""

    def steps(self) -> Iterator[tuple[Phase, Workers, StepWork]]:
        """Each kind of step with the workers that run it and what it carries."""
        traffic, s = self.setup.traffic, self.setup
        if "both" in self.pools:
            w = self.pools["both"]
            per_rank = budget_of(s, w.hardware, w.layouts, w.concurrency, w.token_budget).sequences(
                np.ceil(traffic.mean_context)
            )
            slots = np.clip(per_rank, 1.0, float(most_sequences(s))) * w.layouts.attention_dp
            pause = s.scheduler.policy == "prefill_first"
            scheduling = Scheduling(w.token_budget.astype(float), pause, w.two_batch, w.deepep)
            work = aggregated_steps(w.layouts, w.concurrency, slots, traffic, scheduling)
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


def _pools(s: Setup, c: Candidate) -> dict[str, Workers]:
    settings = c.settings
    budget = settings.max_num_batched_tokens
    overlap = bool(settings.two_batch_overlap)
    prefill, decode = c.prefill_pool, c.decode_pool
    if prefill is None or decode is None:
        hw = _hardware(s, c.node)
        per_worker = c.concurrency_per_worker or c.concurrency / c.replicas
        return {"both": workers(s, hw, c.layout, per_worker, budget or hw.token_budget, overlap, c.replicas)}
    here = _hardware(s, decode.node)
    in_worker = decode.concurrency_per_worker or c.concurrency / decode.workers
    there = _hardware(s, prefill.node)
    at_once = prefill.concurrency_per_worker or float(prefill.layout.attention_dp)
    own = prefill.settings
    tokens, both = own.max_num_batched_tokens or there.token_budget, bool(own.two_batch_overlap)
    return {
        "prefill": workers(s, there, prefill.layout, at_once, tokens, both, prefill.workers),
        "decode": workers(s, here, decode.layout, in_worker, budget or here.token_budget, overlap, decode.workers),
    }


def workers(
    s: Setup, hw: Hardware, layout: Layout, concurrency: float, tokens: int, two_batch: bool, count: int
) -> Workers:
    """A table of one row: ``count`` workers of a layout on ``hw``."""
    layouts = Layouts.of(**layout.model_dump())
    return Workers(
        hw,
        layouts,
        np.array([concurrency]),
        np.array([tokens], dtype=np.int64),
        np.array([two_batch]),
        uses_deepep(s, hw, layouts),
        np.array([count], dtype=np.int64),
    )


def _hardware(s: Setup, node: str) -> Hardware:
    return s.hardware(s.scenario.hardware.choice(node))

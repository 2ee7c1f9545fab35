"""Numbers of the load page: percentiles, how they move with load and token budget, where separate pools pay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from planner.catalog import Catalog
from planner.errors import PlannerError
from planner.scenario.schema import PERCENTILES, Scenario
from planner.search.aggregated import aggregated_deployments, fit
from planner.search.evaluation import budget_of
from planner.search.loaded import Loaded, good_part, meets
from planner.search.plan_schema import Candidate, Percentiles, Plan
from planner.search.refining import refine
from planner.search.settling import at_own_steps
from planner.search.setup import Setup
from planner.search.sizing import sizing_of
from planner.search.sizing_schema import Sizing
from planner.search.split_map import split_cell
from planner.search.table import Deployments
from planner.serving.latency import LoadResult
from planner.serving.stepwise import with_stepwise
from planner.ui.answers import quiet_answer
from planner.ui.subject import Subject
from planner.ui.words import short_deployment
from planner.units import MILLISECOND

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Tick = Callable[[float], None]

SHARES = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5])
"""Loads that are tried, as parts of the planned one."""
BUDGETS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
FEW_SHARES, FEW_BUDGETS = np.array([0.2, 0.5, 0.8, 1.0, 1.2, 1.4]), (1024, 4096, 16384)
"""The same where every one of them is a chain of attention-DP ranks, which takes several times as long."""
FACTORS = (0.25, 1.0, 4.0)
"""Prompt lengths and loads of the map, as multiples of the scenario's."""
KEPT = 512

METRICS = ("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms")
CURVES = ("mean", "p95", "p99")


def known(latency: Percentiles) -> dict[str, float]:
    """Percentile -> ms, only those that were computed."""
    return {p: v for p in PERCENTILES if (v := getattr(latency, p)) is not None}


def only_means(c: Candidate) -> bool:
    """Whether the plan has no percentiles."""
    return not any(set(known(getattr(c, m))) - {"mean"} for m in METRICS)


@dataclass(frozen=True)
class Curve:
    """Latencies of the shown workers at several settings, arrays (n,); NaN where they are not stable."""

    x: Array
    ms: Mapping[str, Mapping[str, Array]]
    """Metric (ttft_ms, tbt_ms) -> mean or percentile -> milliseconds."""
    good: Array
    """Part of the requests within every limit."""
    meets: BoolArray
    """Whether every limit holds."""

    def __len__(self) -> int:
        return int(self.x.size)


def _curve(s: Setup, x: Array, result: LoadResult) -> Curve:
    def column(metric: str, level: str) -> Array:
        values = result.get(metric.removesuffix("_ms"), level) / MILLISECOND
        return np.where(np.isfinite(values), values, np.nan)

    ms = {metric: {level: column(metric, level) for level in CURVES} for metric in ("ttft_ms", "tbt_ms")}
    return Curve(x, ms, np.nan_to_num(good_part(s, result)), meets(s, result))


def load_curve(subject: Subject) -> Curve | None:
    """The shown workers at parts of their planned load (open arrivals), or by requests in flight in one (closed loop);
    None where their loads cannot be told apart.
    """
    return _load_curve(subject.scenario.to_yaml(), subject.setup.catalog.version, subject.key, subject)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _load_curve(yaml: str, catalogue: str, key: str, _subject: Subject) -> Curve | None:
    s, one = _subject.setup, _subject.deployment
    assert one.loaded is not None
    if s.rate_rps is None:
        return None if one.prefill is not None else _by_requests(s, _subject)
    shares = FEW_SHARES if _slow(one) else SHARES
    many = replace(one.take(np.zeros(shares.size, dtype=np.int64)), loaded=at_shares(one.loaded, shares), steps={})
    return _curve(s, shares, _as_planned(s, many, one))


def _slow(one: Deployments) -> bool:
    """Whether the shown deployment was looked at step by step, with several lanes."""
    return bool(one.steps) and int(one.decode.layouts.attention_dp[0]) > 1


def _by_requests(s: Setup, subject: Subject) -> Curve | None:
    """A closed loop with each number of requests in one worker that its grid has."""
    w = subject.pools["both"]
    table = aggregated_deployments(s, w.hardware, fit(s, w.hardware, w.layouts, ()))
    if table is None or table.loaded is None:
        return None
    same = (table.decode.two_batch == w.two_batch[0]) & (table.decode.token_budget == w.token_budget[0])
    rows = np.flatnonzero(same)
    rows = rows[np.argsort(table.decode.concurrency[rows])]
    return _curve(s, table.decode.concurrency[rows], table.loaded.take(rows).result())


def _as_planned(s: Setup, table: Deployments, one: Deployments) -> LoadResult:
    """Latencies of the rows as those of the shown deployment ``one`` were found: in closed form, or step by step."""
    assert table.loaded is not None
    result = table.loaded.result()
    return with_stepwise(result, refine(s, table, np.arange(len(table))).steps) if one.steps else result


def at_shares(one: Loaded, shares: Array) -> Loaded:
    """A single row at parts of its rate."""
    many = one.take(np.zeros(shares.size, dtype=np.int64))
    worker = many.worker.at_rate(many.worker.rate_rps * shares, many.worker.arrival_cv)
    pool = many.prefill
    return replace(many, worker=worker, prefill=pool and pool.at(pool.given.rate_rps * shares, pool.given.workers))


def budget_curve(subject: Subject) -> Curve | None:
    """The shown worker at its planned load by token budget of a step, as far as memory holds it and prompts that must
    not be split fit; None for separate pools.
    """
    if subject.deployment.prefill is not None:
        return None
    return _budget_curve(subject.scenario.to_yaml(), subject.setup.catalog.version, subject.key, subject)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _budget_curve(yaml: str, catalogue: str, key: str, _subject: Subject) -> Curve | None:
    s, one = _subject.setup, _subject.deployment
    assert one.loaded is not None
    tried = FEW_BUDGETS if _slow(one) else BUDGETS
    budgets = np.array(sorted({*tried, int(one.decode.token_budget[0])}), dtype=np.int64)
    rows = np.zeros(budgets.size, dtype=np.int64)
    w = replace(one.decode.take(rows), token_budget=budgets)
    held = budget_of(s, w.hardware, w.layouts, np.maximum(w.concurrency, 1.0), budgets).fits
    kept = np.flatnonzero(held & (budgets >= (s.longest_request if s.prompts_unsplit else 0)))
    if not kept.size:
        return None
    table = at_own_steps(s, w.take(kept), one.loaded.worker.take(rows[kept]))
    return _curve(s, budgets[kept].astype(float), _as_planned(s, table, one))


def sizing_for(subject: Subject) -> Sizing:
    """Fleet, spares and recovery of the shown deployment."""
    return _sizing(subject.scenario.to_yaml(), subject.setup.catalog.version, subject.key, subject)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _sizing(yaml: str, catalogue: str, key: str, _subject: Subject) -> Sizing:
    return sizing_of(_subject.setup, _subject.deployment)


@dataclass(frozen=True)
class Side:
    """The best deployment of one serving mode in a cell of the map."""

    usd: float | None
    """US dollars per million output tokens; None where no price is known."""
    gpus: int
    text: str
    binding: str

    @property
    def value(self) -> float:
        """What is compared: dollars, else GPUs."""
        return float(self.gpus) if self.usd is None else self.usd


@dataclass(frozen=True)
class Cell:
    """One prompt length and load: the best of both modes; None where nothing serves it."""

    input_tokens: float
    load: float
    agg: Side | None
    split: Side | None
    reason: str = ""
    """What decides, or what stands in the way (planner.search.split_map)."""

    @property
    def saving(self) -> float | None:
        """What separate pools save, a part of the aggregated cost (negative: what they cost more)."""
        if self.agg is None or self.split is None:
            return None
        return 1.0 - self.split.value / self.agg.value


def scaled(scenario: Scenario, mode: str, length: float, load: float) -> Scenario | None:
    """The scenario in one serving mode with prompts ``length`` and load ``load`` times as large; None for measured
    lengths and traces, which have no one scale.
    """
    data = scenario.to_dict()
    work = data["workload"]
    inputs, arrival = dict(work["input_tokens"]), dict(work["arrival"])
    if inputs["kind"] == "empirical" or arrival["kind"] == "trace":
        return None
    for key in ("tokens", "min_tokens", "max_tokens"):
        if key in inputs:
            inputs[key] = max(round(inputs[key] * length), 1)
    for key in ("mean_tokens", "p95_tokens"):
        if key in inputs:
            inputs[key] = inputs[key] * length
    if "rate_rps" in arrival:
        arrival["rate_rps"] = arrival["rate_rps"] * load
    else:
        arrival["concurrency"] = max(round(arrival["concurrency"] * load), 1)
    work["input_tokens"], work["arrival"] = inputs, arrival
    data["search"] = {**data.get("search", {}), "serving": [mode]}
    return Scenario.from_dict(data)


def split_map(scenario: Scenario, catalog: Catalog, tick: Tick) -> list[Cell]:
    """Aggregated beside separate pools over prompt length and load; two plans a cell."""
    cells = []
    total = len(FACTORS) ** 2
    for length in FACTORS:
        for load in FACTORS:
            plans = [_answer(scaled(scenario, mode, length, load), catalog) for mode in ("agg", "disagg")]
            arrival = scenario.workload.arrival
            base = arrival.rate() or float(getattr(arrival, "concurrency", 1))
            cells.append(_cell(scenario.workload.input_tokens.mean() * length, base * load, *plans))
            tick(len(cells) / total)
    return cells


def _cell(tokens: float, load: float, together: Plan | None, apart: Plan | None) -> Cell:
    reason = "" if together is None or apart is None else split_cell(round(tokens), load, together, apart).reason
    return Cell(tokens, load, _side(together), _side(apart), reason)


def _answer(scenario: Scenario | None, catalog: Catalog) -> Plan | None:
    if scenario is None:
        return None
    try:
        return quiet_answer(scenario, catalog)
    except PlannerError:
        return None


def _side(plan: Plan | None) -> Side | None:
    best = None if plan is None else plan.best
    if best is None:
        return None
    return Side(best.usd_per_mtok.output, best.gpus, short_deployment(best), best.binding)

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
from planner.search.disaggregated import decode_points, disaggregated_deployments, prefill_points
from planner.search.loaded import Loaded, good_part, meets
from planner.search.plan_schema import Candidate, Percentiles, Plan
from planner.search.refining import refine
from planner.search.setup import Setup, setup
from planner.search.sizing import sizing_of
from planner.search.sizing_schema import Sizing
from planner.search.split_map import split_cell
from planner.search.table import Deployments, Workers
from planner.serving.latency import LoadResult
from planner.serving.stepwise import with_stepwise
from planner.ui.answers import quiet_answer
from planner.ui.subject import Subject
from planner.ui.words import short_deployment
from planner.units import MILLISECOND

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Tick = Callable[[float], None]

SHARES = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5])
"""Loads that are tried, as parts of the planned one."""
BUDGETS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
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
    s = _subject.setup
    table = _table(s, _subject.pools)
    if table is None or table.loaded is None:
        return None
    alike = _alike(table, _subject)
    if not alike.size:
        return None
    if s.rate_rps is not None:
        loaded = at_shares(table.loaded.take(alike[:1]), SHARES)
        many = replace(table.take(np.full(SHARES.size, alike[0])), loaded=loaded, steps={})
        return _curve(s, SHARES, _as_planned(s, many, _subject.candidate, int(np.argmin(np.abs(SHARES - 1.0)))))
    if table.prefill is not None:
        return None
    rows = np.flatnonzero(_same_settings(table, _subject))
    rows = rows[np.argsort(table.decode.concurrency[rows])]
    return _curve(s, table.decode.concurrency[rows], table.loaded.take(rows).result())


SAME = 0.005
"""Relative difference up to which two latencies are the same figure."""


def _as_planned(s: Setup, table: Deployments, c: Candidate, planned: int) -> LoadResult:
    """Latencies of the rows in the form that the plan's own came from: the closed one, or step by step where that gave
    the candidate's figures. Row ``planned`` is the candidate itself.
    """
    assert table.loaded is not None
    result = table.loaded.result()
    if _same(c, result, planned):
        return result
    return with_stepwise(result, refine(s, table, np.arange(len(table))).steps)


def at_shares(one: Loaded, shares: Array) -> Loaded:
    """A single row at parts of its rate."""
    many = one.take(np.zeros(shares.size, dtype=np.int64))
    worker = many.worker.at_rate(many.worker.rate_rps * shares, many.worker.arrival_cv)
    pool = many.prefill
    return replace(many, worker=worker, prefill=pool and pool.at(pool.given.rate_rps * shares, pool.given.workers))


def budget_curve(subject: Subject, tick: Tick) -> Curve | None:
    """The shown worker at its planned load by token budget of a step; None for separate pools."""
    w = subject.pools.get("both")
    if w is None:
        return None
    budgets = sorted({*BUDGETS, int(w.token_budget[0])})
    refined = _step_by_step(subject)
    found = []
    for i, tokens in enumerate(budgets):
        yaml, version = subject.scenario.to_yaml(), subject.setup.catalog.version
        one = _at_budget(yaml, version, subject.key, tokens, refined, subject)
        if one is not None:
            found.append(one)
        tick((i + 1) / len(budgets))
    if not found:
        return None
    ms = {m: {p: np.concatenate([c.ms[m][p] for c in found]) for p in CURVES} for m in found[0].ms}
    return Curve(
        np.concatenate([c.x for c in found]),
        ms,
        np.concatenate([c.good for c in found]),
        np.concatenate([c.meets for c in found]),
    )


def _step_by_step(subject: Subject) -> bool:
    """Whether the candidate's latencies came from its steps, one by one, and not from the closed form."""
    s = subject.setup
    table = _table(s, subject.pools)
    if table is None or table.loaded is None or s.rate_rps is None or table.prefill is not None:
        return False
    alike = _alike(table, subject)
    if not alike.size:
        return False
    result = table.loaded.take(alike[:1]).result({"ttft": ("p99",), "tbt": ("p99",)})
    return not _same(subject.candidate, result, 0)


def _same(c: Candidate, result: LoadResult, row: int) -> bool:
    pairs = [(getattr(c, f"{m}_ms").p99, float(result.get(m, "p99")[row]) / MILLISECOND) for m in ("ttft", "tbt")]
    return all(told is None or abs(here - told) <= SAME * told for told, here in pairs)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _at_budget(yaml: str, catalogue: str, key: str, tokens: int, refined: bool, _subject: Subject) -> Curve | None:
    data = _subject.scenario.to_dict()
    data["engine"]["options"] = {**data["engine"].get("options", {}), "max_num_batched_tokens": tokens}
    s = setup(Scenario.from_dict(data), _subject.setup.catalog)
    before = _subject.pools["both"]
    hw = s.hardware(before.hardware.choice)
    table = _table(s, {"both": replace(before, hardware=hw)})
    if table is None or table.loaded is None:
        return None
    rows = np.flatnonzero(table.decode.two_batch == before.two_batch[0])
    if not rows.size:
        return None
    load = table.loaded.worker
    nearest = rows[np.argmin(np.abs(load.reference_occupancy[rows] - before.concurrency[0]))]
    one = table.loaded.take(np.array([nearest]))
    if s.rate_rps is not None:
        planned = s.rate_rps / float(before.count[0])
        one = at_shares(one, np.array([planned / float(one.worker.rate_rps[0])]))
    found = replace(table.take(np.array([nearest])), loaded=one, steps={})
    result = one.result() if not refined else with_stepwise(one.result(), refine(s, found, np.arange(1)).steps)
    return _curve(s, np.array([float(tokens)]), result)


def _table(s: Setup, pools: Mapping[str, Workers]) -> Deployments | None:
    """Every operating point of the shown layouts."""
    try:
        if "both" in pools:
            w = pools["both"]
            return aggregated_deployments(s, w.hardware, fit(s, w.hardware, w.layouts, ()))
        p, d = pools["prefill"], pools["decode"]
        prefill = prefill_points(s, p.hardware, fit(s, p.hardware, p.layouts, ()))
        return disaggregated_deployments(
            s, prefill, decode_points(s, d.hardware, fit(s, d.hardware, d.layouts, ())), None
        )
    except PlannerError:
        return None


def _same_settings(table: Deployments, subject: Subject) -> BoolArray:
    shown = subject.pools.get("both", subject.pools.get("decode"))
    assert shown is not None
    same = table.decode.two_batch == shown.two_batch[0]
    return same & (table.decode.token_budget == shown.token_budget[0])


def _alike(table: Deployments, subject: Subject) -> IntArray:
    """Rows of the table that are the shown deployment, nearest operating point first."""
    shown = subject.pools.get("both", subject.pools.get("decode"))
    assert shown is not None
    same = _same_settings(table, subject) & (table.decode.count == shown.count[0])
    if table.prefill is not None:
        same &= table.prefill.count == subject.pools["prefill"].count[0]
    rows = np.flatnonzero(same)
    return rows[np.argsort(np.abs(table.decode.concurrency[rows] - shown.concurrency[0]), kind="stable")]


def sizing_for(subject: Subject) -> Sizing | None:
    """The plan's sizing of its first candidate, else the shown deployment's own; None where it is not found again."""
    if subject.candidate.sizing is not None:
        return subject.candidate.sizing
    return _sizing(subject.scenario.to_yaml(), subject.setup.catalog.version, subject.key, subject)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _sizing(yaml: str, catalogue: str, key: str, _subject: Subject) -> Sizing | None:
    table = _table(_subject.setup, _subject.pools)
    if table is None:
        return None
    alike = _alike(table, _subject)
    return sizing_of(_subject.setup, table.take(alike[:1])) if alike.size else None


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

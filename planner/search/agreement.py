"""Closed forms against the replay over a grid of cases: how far apart, and which targets hold.

Each case is one deployment under one load. Its limits for goodput are the closed forms' own P99 of TTFT and TPOT, so
that nearly all requests are good if they are right. Closed forms' rates are for the counted part of the arrivals: a
bursty stream of thousands of requests still misses its mean by some percent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from planner.catalog.loader import Catalog
from planner.catalog.loader import catalog as open_catalog
from planner.errors import InputError, PlannerError
from planner.layout.layouts import Layouts
from planner.replay.generate import fixed_trace, workload_trace
from planner.replay.trace import Trace
from planner.scenario.schema import Scenario
from planner.search.plan_schema import Candidate
from planner.search.planning import estimate, plan
from planner.search.replaying import predicted, with_trace
from planner.search.replays import replay_scenario
from planner.units import spaced

REQUESTS, MOST_REQUESTS = 20_000, 200_000
"""Requests of a case with Poisson arrivals; with gaps of CV c, c^2 times as many spread alike, within a bound."""
SLO_PERCENTILE = "p95"

TARGETS: dict[str, float] = {
    "throughput_rps": 0.03,
    "ttft_ms p50": 0.08,
    "tbt_ms p50": 0.08,
    "ttft_ms p95": 0.15,
    "tbt_ms p95": 0.15,
    "ttft_ms p99": 0.25,
    "tbt_ms p99": 0.25,
    "goodput_rps": 0.05,
}
"""Largest relative error of a closed form."""
WANTED_SHARE = 0.9
"""Part of the cases inside the closed forms' range in which each target is to hold."""

Lengths = tuple[dict[str, Any], dict[str, Any]]


def _lognormal(mean: int, p95: int) -> dict[str, Any]:
    return {"kind": "lognormal", "mean_tokens": mean, "p95_tokens": p95}


def _uniform(low: int, high: int) -> dict[str, Any]:
    return {"kind": "uniform", "min_tokens": low, "max_tokens": high}


CHAT: Lengths = (_lognormal(1155, 3300), _lognormal(211, 500))
CODE: Lengths = (_lognormal(2048, 7000), _lognormal(28, 90))
STEADY: Lengths = (_uniform(500, 1500), _uniform(150, 350))
FIXED: Lengths = ({"kind": "fixed", "tokens": 1024}, {"kind": "fixed", "tokens": 256})
SYNTHETIC = {"chat": CHAT, "code": CODE, "steady": STEADY, "fixed": FIXED}
"""Lengths of synthetic loads: the means of Azure's 2023 conversation and code traces, and two without a tail."""


@dataclass(frozen=True)
class Case:
    """One deployment under one load."""

    model: str
    node: str
    engine: str
    load: str
    """A fixed trace or a name of SYNTHETIC."""
    utilisation: float
    """Of what the worker passes in a closed loop of ``concurrency``; for pools, only the rate follows from it."""
    cv: float
    layout: tuple[tuple[str, int], ...] = ()
    concurrency: int = 64
    serving: Literal["agg", "disagg"] = "agg"
    prefill_node: str | None = None
    """Node of the prefill pool; None is the same as the decode pool's."""
    rate_rps: float | None = None
    replicas: int = 1
    """Workers of a layout that share ``utilisation`` times as much, each request at the one with the fewest."""

    @property
    def name(self) -> str:
        """Model, hardware, load and arrivals in a few words."""
        node = self.node if self.prefill_node is None else f"{self.prefill_node} + {self.node}"
        count = "" if self.replicas == 1 else f" · {self.replicas} replicas"
        return f"{self.model} · {node} · {self.engine} · {self.load}{count}"


LLAMA = ("llama-3.3-70b", (("tp", 4),))
GPT_OSS = ("gpt-oss-120b", (("tp", 2),))
MANY = (
    (2, "chat", 0.8, 1.0),
    (4, "chat", 0.6, 1.0),
    (8, "chat", 0.8, 1.0),
    (2, "code", 0.6, 2.0),
    (4, "steady", 0.8, 4.0),
)
"""Replicas, load, utilisation and gap CV of the cases with several workers."""


QWEN_DP2 = (("tp", 4), ("attention_dp", 2), ("moe_tp", 8))
DEEPSEEK_DP4 = (("tp", 4), ("attention_dp", 4), ("ep", 16))
RANKS = (
    ("qwen3-235b-a22b", "dgx-h100", "vllm", "fixed", QWEN_DP2, 4.0, 1.0),
    ("qwen3-235b-a22b", "dgx-h100", "vllm", "chat", QWEN_DP2, 4.0, 2.0),
    ("qwen3-235b-a22b", "dgx-h100", "vllm", "fixed", QWEN_DP2, 4.0, 4.0),
    ("deepseek-v3", "dgx-h200", "sglang", "fixed", DEEPSEEK_DP4, 8.0, 1.0),
    ("deepseek-v3", "dgx-h200", "sglang", "fixed", DEEPSEEK_DP4, 8.0, 2.0),
    ("deepseek-v3", "dgx-h200", "sglang", "chat", DEEPSEEK_DP4, 8.0, 4.0),
)
"""Model, node, engine, load, layout, rate and gap CV of the cases with attention-DP ranks side by side."""


def cases() -> tuple[Case, ...]:
    """The grid: two models, three GPUs, three engines, the three fixed traces and synthetic loads, utilisation 0.3 to
    0.9, gap CV 1 to 4, aggregated (one worker, and 2 to 8) and disaggregated; two more models on attention-DP ranks;
    for pools also DeepSeek-V3 and unequal GPUs."""
    found = []
    for model, layout in (LLAMA, GPT_OSS):
        for node, engine in (("dgx-h100", "vllm"), ("dgx-h200", "sglang"), ("mi300x-8", "vllm")):
            for load, cv in (("chat", 1.0), ("code", 2.0), ("steady", 4.0)):
                for utilisation in (0.3, 0.6, 0.8):
                    if (utilisation, load) != (0.3, "steady"):
                        found.append(Case(model, node, engine, load, utilisation, cv, layout))
    for model, layout in (LLAMA, GPT_OSS):
        for load in ("short_qa", "long_document_qa", "long_reasoning"):
            found.append(Case(model, "dgx-h200", "vllm", load, 0.6, 1.0, layout))
        found.append(Case(model, "dgx-h100", "trtllm", "fixed", 0.9, 1.0, layout))
    for model, layout in (LLAMA, GPT_OSS):
        for node, engine in (("dgx-h100", "vllm"), ("dgx-h200", "sglang")):
            for n, load, utilisation, cv in MANY:
                found.append(Case(model, node, engine, load, utilisation, cv, layout, replicas=n))
    for model, node, engine, load, ranks, rate, cv in RANKS:
        found.append(Case(model, node, engine, load, 0.0, cv, ranks, 128, rate_rps=rate))
    for load, rate in (("chat", 8.0), ("chat", 20.0), ("steady", 12.0), ("fixed", 30.0)):
        for cv in (1.0, 2.0):
            found.append(Case("llama-3.3-70b", "dgx-h200", "vllm", load, 0.0, cv, serving="disagg", rate_rps=rate))
    for model, node, engine, load, rate, cv, first in (
        ("gpt-oss-120b", "dgx-h100", "vllm", "chat", 20.0, 1.0, None),
        ("gpt-oss-120b", "dgx-h200", "trtllm", "steady", 60.0, 1.0, None),
        ("gpt-oss-120b", "mi300x-8", "vllm", "code", 10.0, 2.0, None),
        ("llama-3.3-70b", "dgx-h200", "vllm", "chat", 15.0, 1.0, "dgx-h100"),
        ("llama-3.3-70b", "dgx-h200", "sglang", "steady", 15.0, 2.0, "dgx-h100"),
        ("deepseek-v3", "dgx-h200", "sglang", "chat", 40.0, 1.0, None),
        ("deepseek-v3", "dgx-b200", "vllm", "steady", 60.0, 1.0, None),
    ):
        found.append(Case(model, node, engine, load, 0.0, cv, serving="disagg", rate_rps=rate, prefill_node=first))
    return tuple(found)


@dataclass(frozen=True)
class Compared:
    """One case: both answers, the relative error of each target, and whether the closed forms claim to hold."""

    case: Case
    deployment: str
    rate_rps: float
    replayed: dict[str, Any]
    closed: dict[str, Any]
    outside: bool

    def error(self, target: str) -> float | None:
        """Closed form over replay, less 1; None where one of them has no value."""
        ours, theirs = _value(self.closed, target), _value(self.replayed, target)
        return None if ours is None or not theirs else ours / theirs - 1.0


def _value(document: dict[str, Any], target: str) -> float | None:
    key, _, percentile = target.partition(" ")
    found = document.get(key)
    return (found or {}).get(percentile) if percentile else found


def compare(
    grid: tuple[Case, ...] | None = None,
    requests: int = REQUESTS,
    seed: int = 0,
    catalog: Catalog | None = None,
    said: Callable[[str], None] | None = None,
) -> list[Compared]:
    """Every case evaluated both ways; ``said`` is told of cases that cannot be."""
    known = catalog or open_catalog()
    found = []
    for case in grid or cases():
        try:
            found.append(_compared(case, requests, seed, known))
        except PlannerError as error:
            if said is not None:
                said(f"{case.name}, utilisation {case.utilisation:g}, cv {case.cv:g}: {error}")
    return found


def requests_of(case: Case, requests: int) -> int:
    """Requests that a case is replayed with where one of Poisson arrivals has ``requests``."""
    return max(requests, min(round(requests * case.cv**2), MOST_REQUESTS))


def _compared(case: Case, requests: int, seed: int, catalog: Catalog) -> Compared:
    rate = case.rate_rps or case.replicas * case.utilisation * _capacity(case, catalog)
    question = _scenario(case, rate)
    trace = _trace(case, question, requests_of(case, requests), seed, rate)
    if not _synthetic(case):
        question = with_trace(question, trace)
    first = _candidate(case, question, catalog)
    limits = {m: {SLO_PERCENTILE: v} for m in ("ttft_ms", "tpot_ms") if (v := _worst(first, m)) is not None}
    asked = _judged(case, question, limits, first)
    candidate = _candidate(case, asked, catalog)
    answer = replay_scenario(asked, trace=trace, candidate=candidate, seed=seed, catalog=catalog)
    closed = predicted(candidate)
    for key in ("throughput_rps", "goodput_rps"):
        closed[key] = (closed[key] or 0.0) * answer.replayed.offered_rps / rate
    return Compared(case, answer.deployment, rate, answer.replayed.summary(), closed, _outside(candidate))


def _judged(case: Case, question: Scenario, limits: dict[str, dict[str, float]], first: Candidate) -> Scenario:
    """The question with limits; on a given layout they judge the deployment of ``first`` and choose no other steps."""
    data = question.to_dict()
    if case.serving == "agg":
        data["engine"]["options"] = {"max_num_batched_tokens": first.settings.max_num_batched_tokens}
    return Scenario.from_dict({**data, "slo": limits})


def _worst(c: Candidate, metric: str) -> float | None:
    values = getattr(c, metric)
    return None if values is None else values.p99


def _outside(c: Candidate) -> bool:
    """Whether the plan itself says that the closed forms do not hold here, or gives no percentiles."""
    silent = c.ttft_ms.p99 is None or c.tbt_ms.p99 is None
    return silent or any("outside" in mark.text for mark in c.evidence.marks)


def _synthetic(case: Case) -> bool:
    return case.load in SYNTHETIC


def _trace(case: Case, question: Scenario, requests: int, seed: int, rate: float) -> Trace:
    if _synthetic(case):
        return workload_trace(question.workload, requests, seed).at_rate(rate)
    return fixed_trace(case.load, requests, seed, cv=case.cv).at_rate(rate)


def _candidate(case: Case, question: Scenario, catalog: Catalog) -> Candidate:
    if case.serving == "agg":
        layout = Layouts.of(**dict(case.layout))
        if case.replicas > 1:
            return _replicated(case, question, layout, catalog)
        return estimate(question, layout, catalog=catalog).candidate
    best = plan(question, catalog=catalog).best
    if best is None:
        raise InputError("case", case.name, "a load that some pair of pools serves")
    return best


HALVINGS = 16


def _replicated(case: Case, question: Scenario, layout: Layouts, catalog: Catalog) -> Candidate:
    """The layout with as many workers as the case names: by bisection of the requests that each may hold."""
    low, high = 1.0, 16.0 * case.concurrency
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        found = estimate(question, layout, concurrency=middle, catalog=catalog).candidate
        if found.replicas == case.replicas:
            return found
        low, high = (middle, high) if found.replicas > case.replicas else (low, middle)
    raise InputError("case", case.name, f"a load that takes {case.replicas} workers of this layout")


@lru_cache(maxsize=64)
def _closed_loop(model: str, node: str, engine: str, load: str, layout: tuple[tuple[str, int], ...], c: int) -> float:
    case = Case(model, node, engine, load, 1.0, 1.0, layout, c)
    data = _scenario(case, 1.0).to_dict()
    data["workload"]["arrival"] = {"kind": "closed_loop", "concurrency": c}
    question = Scenario.from_dict(data)
    if not _synthetic(case):
        trace = fixed_trace(load, 5_000, 0)
        lengths = with_trace(question, trace).workload
        question = question.model_copy(
            update={"workload": lengths.model_copy(update={"arrival": question.workload.arrival})}
        )
    found = estimate(question, Layouts.of(**dict(layout)), concurrency=float(c)).candidate
    return float(found.throughput_rps or np.nan)


def _capacity(case: Case, catalog: Catalog) -> float:
    """Requests per second of one worker with ``concurrency`` requests always in flight."""
    return _closed_loop(case.model, case.node, case.engine, case.load, case.layout, case.concurrency)


def _hardware(case: Case) -> dict[str, Any]:
    own: dict[str, Any] = {"node": case.node}
    if case.prefill_node is not None:
        return {"pools": {"prefill": [{"node": case.prefill_node}], "decode": [own]}}
    if case.serving == "agg":  # no more workers than the case has, though the rest of a node costs nothing more
        own["gpus"] = case.replicas * int(Layouts.of(**dict(case.layout)).gpus[0])
    return {"candidates": [own]}


def _scenario(case: Case, rate: float) -> Scenario:
    inputs, outputs = SYNTHETIC.get(case.load, CHAT)
    return Scenario.from_dict(
        {
            "schema": "planner.scenario/1",
            "name": case.name,
            "model": case.model,
            "hardware": _hardware(case),
            "engine": {"name": case.engine},
            "workload": {
                "input_tokens": inputs,
                "output_tokens": outputs,
                "arrival": {"kind": "gamma", "rate_rps": rate, "cv": case.cv},
            },
            "slo": {},
            "search": {"serving": [case.serving]},
        }
    )


def scores(found: list[Compared]) -> dict[str, tuple[int, int]]:
    """(cases within the target, cases with a value inside the closed forms' range) by target."""
    out = {}
    for target, limit in TARGETS.items():
        errors = [e for c in found if not c.outside and (e := c.error(target)) is not None]
        out[target] = (sum(abs(e) <= limit for e in errors), len(errors))
    return out


def markdown(found: list[Compared], requests: int, skipped: list[str]) -> str:
    """The page docs/agreement.md."""
    lines = [
        "# Closed forms against the replay",
        "",
        "Generated by `python benchmarks/agreement.py --out docs/agreement.md`. Each line of the second table is one",
        "deployment under one load, as a plan gives it and as a replay with the same step times finds it. A plan's",
        "percentiles are closed forms: queues for pools, a Markov chain of steps for workers that prefill and decode.",
        f"A replay has {requests:,} requests, with gaps of CV c between arrivals c² times as many, at",
        f"most {MOST_REQUESTS:,}: counts vary as much in each. Where there are several replicas, each request goes",
        "to the one that holds the fewest, in both. Errors are plan over replay, less 1.",
        "",
        f"Targets: each within its limit in {WANTED_SHARE:.0%} of the cases inside the closed forms' range.",
        "",
        "| quantity | limit | within | cases | share |",
        "|---|---|---|---|---|",
    ]
    for target, (good, total) in scores(found).items():
        share = f"{good / total:.0%}" if total else "–"
        lines.append(f"| {target.replace('_', ' ')} | {TARGETS[target]:.0%} | {good} | {total} | {share} |")
    outside = sum(c.outside for c in found)
    lines += ["", f"{outside} of {len(found)} cases are outside the range, as the plan itself says.", ""]
    head = [
        "case",
        "serving",
        "utilisation",
        "cv",
        *(t.replace("_ms", "").replace("_rps", "") for t in TARGETS),
        "range",
    ]
    lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(_row(c))} |" for c in found]
    if skipped:
        lines += ["", "Not evaluated:", "", *(f"* {s}" for s in skipped)]
    return spaced("\n".join(lines) + "\n")


def _row(c: Compared) -> Iterator[str]:
    yield c.case.name
    yield c.case.serving
    yield f"{c.case.utilisation:g}" if c.case.utilisation else f"{c.rate_rps:g} requests/s"
    yield f"{c.case.cv:g}"
    for target in TARGETS:
        error = c.error(target)
        yield "–" if error is None else f"{error:+.0%}"
    yield "outside" if c.outside else "inside"

"""``planner replay`` as a library call: a scenario's best candidate, or a layout, under its workload or a trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from planner.catalog.loader import Catalog
from planner.catalog.loader import catalog as open_catalog
from planner.errors import InfeasibleError
from planner.layout.layouts import Layouts
from planner.replay.cluster import Progress
from planner.replay.generate import workload_trace
from planner.replay.results import Replayed
from planner.replay.trace import Trace
from planner.scenario.identity import Identity, identity_of
from planner.scenario.schema import Scenario
from planner.search.headline import deployment, headline
from planner.search.plan_schema import Candidate
from planner.search.planning import estimate, plan
from planner.search.replaying import Options, extent, predicted, prepare, with_trace
from planner.search.setup import Setup, setup

SHARED_KEYS = ("throughput_rps", "goodput_rps", "output_tokens_per_s")
"""Rates of the part of the deployment that was replayed, scaled to the whole."""


@dataclass(frozen=True)
class ReplayAnswer:
    """A replay with what it was a replay of."""

    scenario: Scenario
    identity: Identity
    candidate: Candidate
    trace: Trace
    seed: int
    share: tuple[int, int]
    replayed: Replayed
    too_long: int = 0
    """Requests left out because they exceed the context limit or a rank's whole cache."""

    @property
    def deployment(self) -> str:
        return deployment(self.candidate)

    def document(self) -> dict[str, Any]:
        """The JSON document of ``planner replay --json``: the same bytes for the same seed."""
        kept, of = self.share
        found = self.replayed.summary()
        scaled = {k: float(f"{found[k] * of / kept:.6g}") for k in SHARED_KEYS}
        return {
            "scenario": self.scenario.name,
            "deployment": self.deployment,
            "identity": self.identity.model_dump(mode="json"),
            "trace": {
                "name": self.trace.name,
                "requests": len(self.trace),
                "rate_rps": _known(self.trace.rate_rps * of / kept),
                "interarrival_cv": _known(self.trace.gap_cv),
                "input_tokens_mean": _known(float(self.trace.input_tokens.mean())),
                "output_tokens_mean": _known(float(self.trace.output_tokens.mean())),
                "dropped_rows": self.trace.dropped,
                "too_long": self.too_long,
            },
            "seed": self.seed,
            "workers_replayed": kept,
            "workers_of": of,
            **found,
            **scaled,
            "occupancy": self.replayed.occupancy(),
            "predicted": predicted(self.candidate),
        }


def _known(value: float) -> float | None:
    return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else None


def chosen(
    scenario: Scenario,
    catalog: Catalog,
    layout: Layouts | None = None,
    node: str | None = None,
    concurrency: float | None = None,
) -> Candidate:
    """The plan's best candidate, or the given layout's estimate. Raises InfeasibleError where nothing serves."""
    if layout is not None:
        return estimate(scenario, layout, node=node, concurrency=concurrency, catalog=catalog).candidate
    answer = plan(scenario, catalog=catalog)
    if answer.best is None:
        raise InfeasibleError(headline(answer))
    return answer.best


def replay_scenario(
    scenario: Scenario,
    *,
    trace: Trace | None = None,
    requests: int | None = None,
    seed: int = 0,
    layout: Layouts | None = None,
    node: str | None = None,
    concurrency: float | None = None,
    candidate: Candidate | None = None,
    options: Options | None = None,
    catalog: Catalog | None = None,
    progress: Progress | None = None,
) -> ReplayAnswer:
    """Replays the scenario's workload, or ``trace``, on a candidate (default: the plan's best one).

    A trace takes the place of the scenario's lengths, arrivals and prefix reuse, in the plan as well. Without
    ``requests`` a trace is replayed whole, a workload for eight mean times of a request; where that is more than
    200,000 requests a part of the workers is replayed under the same part of the load.
    """
    known = catalog or open_catalog()
    question, whole = scenario, trace
    if trace is not None:
        # What no engine accepts is left out before the lengths of the others are planned for.
        trace = trace.where(trace.input_tokens + trace.output_tokens <= _longest(setup(scenario, known)))
        question = with_trace(scenario, trace)
    found = candidate or chosen(question, known, layout, node, concurrency)
    s = setup(question, known)
    share = (1, 1)
    if trace is None:
        count, share = extent(s, found, requests)
        trace = workload_trace(question.workload, count, seed)
        if s.rate_rps is not None:
            trace = trace.at_rate(trace.rate_rps * share[0] / share[1])
    elif requests is not None:
        trace = trace.head(requests)
    ready = prepare(s, found, len(trace), seed, replace(options or Options(), share=share))
    fitting = ready.fitting(trace)
    left_out = len(trace if whole is None or requests is not None else whole) - len(fitting)
    return ReplayAnswer(
        question, _identity(s, found), found, fitting, seed, share, ready.run(fitting, progress), left_out
    )


def _longest(s: Setup) -> int:
    """Tokens of the longest request that the engine accepts."""
    return s.scenario.engine.options.max_model_len or s.spec.max_context_tokens


def _identity(s: Setup, c: Candidate) -> Identity:
    return identity_of(s.scenario, s.spec, s.precision.as_dict(), gpu=c.accelerator, topology=deployment(c))

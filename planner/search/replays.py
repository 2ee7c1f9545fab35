"""``planner replay`` as a library call: a scenario's best candidate, or a layout, under its workload or a trace."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from planner.catalog.loader import Catalog
from planner.catalog.loader import catalog as open_catalog
from planner.errors import InfeasibleError, InputError
from planner.layout.layouts import Layouts
from planner.replay.cluster import Progress
from planner.replay.generate import workload_trace
from planner.replay.results import Replayed, spread
from planner.replay.settings import Failure
from planner.replay.trace import Trace
from planner.scenario.identity import Identity, identity_of
from planner.scenario.schema import Scenario
from planner.search.headline import deployment, headline
from planner.search.plan_schema import Candidate
from planner.search.planning import ONE_WORKER, estimate, plan, pools_only
from planner.search.replaying import Options, extent, predicted, prepare, with_trace
from planner.search.setup import Setup, setup

HIT_GAP = 0.05
"""Prefix hits of replay and plan that differ by more are told."""
RUNS_ANYWAY = ("rate", "completion", "nodes")
"""Reasons, beside missed limits, for which a layout is not feasible and can be replayed all the same."""
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
    planned_hit: float = 0.0
    """Part of prompt tokens that the closed forms find in prefix caches."""
    failures: tuple[Failure, ...] = ()

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
            "priorities": self.priorities(),
            "predicted": predicted(self.candidate),
            "failures": [asdict(f) for f in self.failures],
            "notes": list(self.notes()),
        }

    def priorities(self) -> list[dict[str, Any]]:
        """TTFT of each priority class as replayed and as predicted, most urgent first; those of one rank together."""
        said = {c.name: c.ttft_ms.model_dump() for c in self.candidate.priorities}
        r, found = self.replayed, []
        for c in sorted(self.scenario.workload.priority_classes, key=lambda c: c.priority):
            of = r.counted & ~r.rejected & (self.trace.priority == c.priority)
            times = {"ttft_ms": spread(r.ttft_s[of]), "predicted_ttft_ms": said.get(c.name)}
            found.append({"name": c.name, "priority": c.priority, "requests": int(of.sum()), **times})
        return found

    def notes(self) -> tuple[str, ...]:
        """What a reader must know before comparing the replay with the closed forms."""
        pools = (ONE_WORKER,) if pools_only(self.scenario) and self.candidate.serving == "agg" else ()
        return (*pools, *self._of_failures(), *self._of_caches())

    def _of_failures(self) -> list[str]:
        said = []
        for f in self.failures:
            late = "" if f.at_s <= self.replayed.span_s else ", after the last request: it changes nothing"
            said.append(
                f"Worker {f.worker} fails at {f.at_s:g} s and is back {f.recovery_s:g} s later{late}. The closed forms "
                "know no failure."
            )
        if said:
            said.append("Rates are those of the requests that leave while the counted ones arrive.")
        return said

    def _of_caches(self) -> list[str]:
        found = self.replayed.occupancy()["cached_share_of_prompts"]
        if not found < self.planned_hit - HIT_GAP:
            return []
        why = (
            "caches start empty, and a longer replay comes closer (--requests)"
            if self.scenario.workload.prefix_reuse is not None
            else "its caches start empty and may drop what comes again"
        )
        return [
            f"{found:.0%} of prompt tokens come from the cache in the replay, {self.planned_hit:.0%} in the plan: "
            f"{why}."
        ]


def _known(value: float) -> float | None:
    return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else None


def chosen(
    scenario: Scenario,
    catalog: Catalog,
    layout: Layouts | None = None,
    node: str | None = None,
    concurrency: float | None = None,
) -> Candidate:
    """The plan's best candidate, or the given layout's estimate, within its limits or not.

    Raises InfeasibleError where nothing serves, or where the layout cannot be or does not fit.
    """
    if layout is not None:
        found = estimate(scenario, layout, node=node, concurrency=concurrency, catalog=catalog)
        broken = [r for r in found.rejected if not (r.reason.startswith("slo_") or r.reason in RUNS_ANYWAY)]
        if broken:
            raise InfeasibleError(f"not feasible: {'; '.join(r.example for r in broken)}")
        return found.candidate
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
    200,000 requests a part of the workers is replayed under the same part of the load. Raises InputError for draft
    tokens of a model that can make none.
    """
    known = catalog or open_catalog()
    question, whole = scenario, trace
    if trace is not None:
        # What no engine accepts is left out before the lengths of the others are planned for.
        trace = trace.where(trace.input_tokens + trace.output_tokens <= _longest(setup(scenario, known)))
        question = with_trace(scenario, trace)
    s = setup(question, known)
    _check_drafts(s, options)
    found = candidate or chosen(question, known, layout, node, concurrency)
    share = (1, 1)
    if trace is None:
        count, share = extent(s, found, requests)
        trace = workload_trace(question.workload, count, seed)
        if s.rate_rps is not None and share != (1, 1):
            trace = trace.at_rate(trace.rate_rps * share[0] / share[1])
    elif requests is not None:
        trace = trace.head(requests)
    chosen_options = replace(options or Options(), share=share)
    ready = prepare(s, found, len(trace), seed, chosen_options)
    fitting = ready.fitting(trace)
    left_out = len(trace if whole is None or requests is not None else whole) - len(fitting)
    return ReplayAnswer(
        question,
        _identity(s, found),
        found,
        fitting,
        seed,
        share,
        ready.run(fitting, progress),
        left_out,
        _planned_hit(s, found) if chosen_options.prefix_cache else 0.0,
        chosen_options.failures,
    )


def _check_drafts(s: Setup, options: Options | None) -> None:
    """Drafts come from the model's own block or from the scenario's draft head, as in a plan."""
    if options is None or not options.speculation.acceptance:
        return
    if s.spec.mtp is None and s.scenario.engine.options.speculation is None:
        head = "a draft head is named by the scenario's engine.options.speculation"
        allowed = f"absent: {s.spec.id} has no multi-token-prediction block ({head})"
        raise InputError("speculation", options.speculation.acceptance, allowed)


def _planned_hit(s: Setup, c: Candidate) -> float:
    return float(s.traffic.prefix_hit_rate) if c.prefix_cache is None else c.prefix_cache.hit_rate


def _longest(s: Setup) -> int:
    """Tokens of the longest request that the engine accepts."""
    return s.scenario.engine.options.max_model_len or s.spec.max_context_tokens


def _identity(s: Setup, c: Candidate) -> Identity:
    return identity_of(s.scenario, s.spec, s.precision.as_dict(), gpu=c.accelerator, topology=deployment(c))

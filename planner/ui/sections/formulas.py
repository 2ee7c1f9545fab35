"""The "how is this computed" boxes."""

from __future__ import annotations

from planner.search.plan_schema import Candidate, Phase, Plan
from planner.ui import formula
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.sections.how import how
from planner.ui.words import counted_requests


def memory(candidate: Candidate) -> None:
    """How the memory budget adds up."""
    how("memory", {"": formula.memory(candidate.memory_gib)})


def step(candidate: Candidate, phase: Phase) -> None:
    """How the step time adds up."""
    how("step", {"": formula.step(candidate, phase)})


def figures(plan: Plan, candidate: Candidate) -> None:
    """How cost and concurrency follow from rates and times."""
    output = plan.scenario.workload.output_tokens.mean()
    shown: dict[str, Formula | None] = {
        _("Cost per million output tokens"): formula.cost(candidate),
        _("Output tokens/s per GPU"): formula.rate(candidate, output),
        _("Time to first token"): formula.ttft(candidate),
        _("Time per output token"): formula.tpot(candidate),
        _("Memory left per GPU"): formula.memory_left(candidate),
        counted_requests(plan.scenario, candidate)[0]: formula.in_flight(plan.scenario, candidate),
    }
    how("figures", shown, _("How are the figures computed?"))

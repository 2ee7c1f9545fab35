"""What files for people say of one candidate, and of points of the frontier."""

from __future__ import annotations

from planner.scenario.identity import Identity
from planner.search.headline import deployment, headline, ranked_by, sig3
from planner.search.plan_schema import Candidate, ParetoPoint, Plan
from planner.units import stays_whole


def headline_of(plan: Plan, candidate: Candidate) -> str:
    """:func:`planner.search.headline.headline` of the plan, were ``candidate`` its first."""
    return headline(plan.model_copy(update={"candidates": (candidate,)}))


def identity_of(plan: Plan, candidate: Candidate) -> Identity:
    """The plan's identity, with the hardware of ``candidate`` in the place of the first's."""
    if candidate is plan.best:
        return plan.identity
    return plan.identity.model_copy(update={"gpu": candidate.accelerator, "topology": deployment(candidate)})


def best_text(plan: Plan, candidate: Candidate) -> str:
    """That ``candidate`` is not the first of its plan, and which one is."""
    ranked = f"Candidate {candidate.rank} of {len(plan.candidates)} by {ranked_by(plan)}"
    return f"{ranked}. The first: {headline(plan)}"


def layout_text(c: Candidate) -> str:
    """Layout of a worker; workers and layouts of both pools where they are separate, nodes where they differ."""
    if c.prefill_pool is None:
        return c.layout.describe()
    pool = c.prefill_pool
    apart = pool.node != c.node
    prefill = f"prefill {pool.workers} × ({pool.layout.describe()})" + (f" on {pool.node}" if apart else "")
    decode = f"decode {c.replicas} × ({c.layout.describe()})" + (f" on {c.node}" if apart else "")
    return f"{prefill}, {decode}"


def point_layout(plan: Plan, point: ParetoPoint) -> str:
    """:func:`layout_text` of a point of the frontier; one that is no candidate has its decode workers only."""
    listed = next((c for c in plan.candidates if c.rank == point.rank), None)
    if listed is not None:
        return layout_text(listed)
    own = point.layout.describe()
    return own if point.serving == "agg" else f"decode {point.replicas} × ({own}); prefill pool not listed"


def counted(value: float | None) -> str:
    """A count or a rate, to compare with the one that was asked: whole where it stays so, else three digits."""
    return f"{value:,.0f}" if value is not None and stays_whole(value) else sig3(value)

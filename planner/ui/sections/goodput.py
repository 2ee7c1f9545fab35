"""What goodput counts, and why it is lower than the part that a limit at a percentile lets pass."""

from __future__ import annotations

from planner.search.plan_schema import Candidate
from planner.ui.i18n import _
from planner.ui.text import paragraph

FEW = 0.9
"""Below this part of the requests goodput is explained: limits at p95 or p99 alone let a reader expect more."""


def good_share(c: Candidate) -> float | None:
    """Part of all requests that meet every limit, the plan's own figure; None where none are served."""
    return c.goodput_rps / c.throughput_rps if c.throughput_rps else None


def why_lower(c: Candidate) -> str:
    """Why many requests miss a limit that holds; empty where few do, and where a limit is broken."""
    share = good_share(c)
    if share is None or share >= FEW or not c.slo or not all(k.met for k in c.slo):
        return ""
    reasons = []
    if any(k.metric == "tbt_ms" and k.percentile != "mean" for k in c.slo):
        reasons.append(
            _(
                "A limit on the time between tokens is judged over the gaps of all requests together, but a request "
                "counts only if that part of its own gaps is within it: close to the limit about half of them are."
            )
        )
    if sum(k.percentile != "mean" for k in c.slo) > 1:
        reasons.append(_("A request counts only if it meets every limit at once."))
    return paragraph([_("Every limit holds, yet many requests miss one."), *reasons])

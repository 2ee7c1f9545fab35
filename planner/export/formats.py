"""Every export by name: from a plan and one of its candidates to text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from planner.catalog import Catalog
    from planner.search.plan_schema import Plan

FORMATS = (
    "vllm",
    "sglang",
    "trtllm",
    "leaderworkerset",
    "dynamo",
    "llm-d",
    "report-md",
    "report-html",
)
REPORTS = ("report-md", "report-html")
ENGINES = ("vllm", "sglang", "trtllm")
SUFFIXES = {"vllm": ".sh", "sglang": ".sh", "trtllm": ".sh", "report-md": ".md", "report-html": ".html"}
"""File endings; manifests and values end in .yaml."""


def export_text(plan: Plan, name: str, candidate: int = 1, *, catalog: Catalog | None = None) -> str:
    """The export ``name`` of one candidate (its rank, from 1); ``catalog`` is the one planned with, absent the usual.

    Raises UnknownNameError for a format that does not exist, InfeasibleError where the plan has no candidate (reports
    are written all the same), InputError where the format cannot express the layout.
    """
    if name not in FORMATS:
        raise UnknownNameError("--format", name, FORMATS)
    if name in REPORTS:
        from planner.export.report.content import report
        from planner.export.report.html import as_html
        from planner.export.report.markdown import as_markdown

        content = report(plan, candidate)
        return as_markdown(content) if name == "report-md" else as_html(content)
    from planner.export.launch import launch_script
    from planner.export.manifests.dynamo import dynamo
    from planner.export.manifests.leaderworkerset import leaderworkerset
    from planner.export.manifests.llm_d import llm_d
    from planner.export.roles import Deployment, deployment

    d = deployment(plan, candidate, name if name in ENGINES else None, catalog)
    if name in ENGINES:
        return launch_script(d, name)
    if d.checkpoint.lacking:
        allowed = f"formats of a known checkpoint, or the specification of one with {d.checkpoint.lacking}"
        raise InputError("precision", d.model, allowed)
    manifests: dict[str, Callable[[Deployment], str]] = {
        "leaderworkerset": leaderworkerset,
        "dynamo": dynamo,
        "llm-d": llm_d,
    }
    try:
        return manifests[name](d)
    except InputError as error:
        if error.given in ENGINES:  # the plan's engine, which no option of the export names
            raise InputError("engine.name", error.given, error.allowed) from None
        raise


def suffix(name: str) -> str:
    """File ending of a format."""
    return SUFFIXES.get(name, ".yaml")


def endings(name: str) -> tuple[str, ...]:
    """File endings that a format may be written under, its usual one first."""
    usual = suffix(name)
    return (usual, *{".yaml": (".yml",), ".html": (".htm",)}.get(usual, ()))

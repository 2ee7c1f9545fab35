"""The worked examples that a session may start from: the scenarios shipped in ``examples/``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario
from planner.ui.i18n import _

FIRST = "deepseek-v3-h800"
"""What a first-time visitor sees."""
REFUSED = "infeasible"
"""How the names of examples start that nothing serves."""


@dataclass(frozen=True)
class Example:
    """A shipped scenario; ``id`` is its file name without ending."""

    id: str
    scenario: Scenario


def folder() -> Path:
    """Where the examples are: inside an installed wheel, else in the repository."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_data" / "examples"
    return inside if inside.is_dir() else package.parent / "examples"


@cache
def examples() -> tuple[Example, ...]:
    """All examples, the first one first, those that show a refusal last, the others by name."""
    found = [Example(path.stem, load_scenario(path)) for path in sorted(folder().glob("*.yaml"))]
    return tuple(sorted(found, key=lambda e: (e.id != FIRST, e.id.startswith(REFUSED), e.scenario.name.lower())))


def titles() -> dict[str, str]:
    """Example id -> what it is about, in the language in use; its own name where there is no other."""
    known = {
        "deepseek-v3-h800": _("Chat · DeepSeek-V3 service · H800"),
        "deepseek-r1-h200": _("Chat · DeepSeek-R1 · one H200 node"),
        "gpt-oss-120b-h100": _("Benchmark · gpt-oss-120b · H100"),
        "kimi-k2-gb200": _("Agents · Kimi-K2 · GB200 NVL72"),
        "llama-3.3-70b-mi300x": _("Chat · Llama-3.3-70B · MI300X"),
        "qwen3-32b-l40s": _("Chat · Qwen3-32B · L40S"),
        "infeasible-405b-one-h100": _("Does not fit · 405B on one H100"),
        "qwen3-235b-long-document-h20": _("Long-document Q&A · Qwen3-235B · H20"),
        "qwen3-coder-480b-code-h200": _("Code completion · Qwen3-Coder · H200"),
        "deepseek-r1-reasoning-b200": _("Reasoning · DeepSeek-R1-0528 · B200"),
    }
    return {e.id: known.get(e.id, e.scenario.name) for e in examples()}


def example(id: str) -> Example:
    """The example of that id; raises KeyError where there is none."""
    return {e.id: e for e in examples()}[id]

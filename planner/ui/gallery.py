"""The worked examples that a session may start from: the scenarios shipped in ``examples/``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from planner.scenario.load import load_scenario
from planner.scenario.schema import Scenario

FIRST = "deepseek-v3-h800"
"""What a first-time visitor sees."""


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
    """All examples, the first one first, the others by name."""
    found = [Example(path.stem, load_scenario(path)) for path in sorted(folder().glob("*.yaml"))]
    return tuple(sorted(found, key=lambda e: (e.id != FIRST, e.scenario.name.lower())))


def example(id: str) -> Example:
    """The example of that id; raises KeyError where there is none."""
    return {e.id: e for e in examples()}[id]

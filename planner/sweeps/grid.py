"""Grids: a base scenario and lists of values by dotted key."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from planner.catalog.validation import check_mapping, validate
from planner.errors import InputError
from planner.scenario.base import Schema
from planner.scenario.files import inside
from planner.scenario.load import CARRIED, read_text
from planner.scenario.safe_yaml import MAX_SCENARIO_BYTES, load_yaml

MAX_SCENARIOS = 1_000_000
MOST_NAME = 200
"""Characters of a scenario's name."""


class Grid(Schema):
    """A file of ``planner sweep``."""

    schema_version: Literal["planner.sweep/1"] = Field(alias="schema", description="Version of this format.")
    base: str | dict[str, Any] = Field(
        description="A scenario file by its path from this file's folder, in it or below it; or a scenario written out."
    )
    grid: dict[str, Annotated[list[Any], Field(min_length=1, max_length=100_000)]] = Field(
        description="Values by dotted key of the scenario; a whole number in a key is a place in a list."
    )


def load_grid(path: Path) -> list[dict[str, Any]]:
    """The scenarios of a grid file as plain data, in order: the last key varies fastest.

    Raises InputError where the file is not a grid, a key's path does not exist in the base, or the grid has more than a
    million points.
    """
    raw = check_mapping(load_yaml(read_text(path, MAX_SCENARIO_BYTES), path.name), path.name)
    grid = validate(Grid, raw, path.name)
    base = grid.base
    if isinstance(base, str):
        file = _beside(path, base)
        base = check_mapping(load_yaml(read_text(file, MAX_SCENARIO_BYTES), file.name), file.name)
    if CARRIED in base:
        raise InputError(
            f"base: {CARRIED}",
            "hardware of the file's own",
            "a base without it: a sweep takes such entries from the folder in PLANNER_CATALOG_DIR",
        )
    return expand(base, grid.grid)


def expand(base: Mapping[str, Any], grid: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Every combination of the grid's values put into ``base``; each is named after its values.

    A value goes by the shortest end of its key that no other key of the grid has.
    """
    size = math.prod(len(v) for v in grid.values())
    if size > MAX_SCENARIOS:
        raise InputError("grid", f"{size:,} scenarios", f"at most {MAX_SCENARIOS:,}")
    out, titles = [], short_keys(list(grid))
    for values in itertools.product(*grid.values()):
        one = copy.deepcopy(dict(base))
        for key, value in zip(grid, values, strict=True):
            put(one, key, value)
        changes = ", ".join(f"{title} {_short(value)}" for title, value in zip(titles, values, strict=True))
        if grid:
            base_name = str(one.get("name", "scenario"))[: max(MOST_NAME - len(changes) - 2, 0)]
            one["name"] = f"{base_name}: {changes}"[:MOST_NAME]  # what tells rows apart is kept
        out.append(one)
    return out


def short_keys(keys: list[str]) -> list[str]:
    """The shortest dotted end of each key that tells it from the others: ``ttft_ms.p95`` and ``tpot_ms.p95``."""
    parts = [key.split(".") for key in keys]

    def end(i: int, length: int) -> list[str]:
        return parts[i][-length:]

    out = []
    for i, own in enumerate(parts):
        others = [j for j in range(len(parts)) if j != i]
        length = 1
        while length < len(own) and any(end(j, length) == end(i, length) for j in others):
            length += 1
        out.append(".".join(end(i, length)))
    return out


def _beside(path: Path, base: str) -> Path:
    try:
        return inside(path.resolve().parent, base, "base")
    except InputError as error:
        allowed = f"an existing file in the folder of {path.name} or below it, by its path from there"
        raise InputError(error.field, error.given, allowed) from None


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """Sets one dotted key; mappings on the way are made where the base has none, places in lists must exist."""
    here: Any = data
    *way, last = path.split(".")
    for key in way:
        here = _step(here, key, path, make=True)
    if isinstance(here, list):
        _step(here, last, path, make=False)
        here[int(last)] = copy.deepcopy(value)
    elif isinstance(here, dict):
        here[last] = copy.deepcopy(value)
    else:
        raise InputError(f"grid.{path}", last, "a key below a mapping or a list of the base scenario")


def _step(here: Any, key: str, path: str, make: bool) -> Any:
    if isinstance(here, list):
        if not key.isdigit() or int(key) >= len(here):
            raise InputError(f"grid.{path}", key, f"a place from 0 to {len(here) - 1} in the list")
        return here[int(key)]
    if isinstance(here, dict):
        return here.setdefault(key, {}) if make else here[key]
    raise InputError(f"grid.{path}", key, "a key below a mapping or a list of the base scenario")


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else text[:39] + "…"

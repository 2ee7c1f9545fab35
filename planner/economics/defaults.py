"""Starting values with their sources: one file of ``hardware_db`` for each schema, read once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate


class Coefficient(Strict):
    value: float
    status: Literal["datasheet", "measured", "derived", "assumed"]
    source: str
    date: str
    note: str = ""


S = TypeVar("S", bound=Strict)


def shipped(file: str) -> Path:
    """A file of the shipped ``hardware_db``."""
    return data_root() / "hardware_db" / file


@lru_cache(maxsize=16)
def read_defaults(schema: type[S], path: Path) -> S:
    """The values of a file; raises InputError where it does not hold what ``schema`` asks for."""
    return validate(schema, read_yaml(path), path.name)

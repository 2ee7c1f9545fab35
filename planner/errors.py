"""Errors that people read: which field, what was given, what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any


class PlannerError(Exception):
    """Base of every error this package raises on purpose; they cross from one process to another."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, vars(self))


class InputError(PlannerError):
    """Bad input: names the field, what was given and what is allowed (command line: exit code 2)."""

    def __init__(self, field: str, given: object, allowed: str) -> None:
        self.field = field
        self.given = given
        self.allowed = allowed
        super().__init__(f"{field}: got {_short(given)}; {allowed}")


class UnknownNameError(InputError):
    """A name that is not in a catalogue or schema; says the nearest valid ones.

    ``listed_by`` is the command that lists them all, named where the message cannot.
    """

    def __init__(self, field: str, given: str, valid: Iterable[str], listed_by: str | None = None) -> None:
        names = sorted(valid)
        near = nearest(given, names)
        meant = [name for name in near if _DIGITS.findall(name) == _DIGITS.findall(given)]
        if meant:
            hint = f"did you mean {' or '.join(meant)}?"
        elif near:  # another generation or size is no slip of the keyboard
            hint = f"not known here; nearest: {', '.join(near)}"
        else:
            hint = f"allowed: {_some(given, names, listed_by)}"
        super().__init__(field, given, hint)


class UnsupportedArchitectureError(InputError):
    """A model configuration that is not understood; carries the keys that caused it."""

    def __init__(self, keys: Iterable[str], why: str, file: str = "config.json") -> None:
        self.keys = tuple(keys)
        super().__init__(file, ", ".join(self.keys), why)


class InfeasibleError(PlannerError):
    """Nothing fits (command line: exit code 3); the message says which limit binds."""


def _again(kind: type[PlannerError], args: tuple[Any, ...], attributes: dict[str, Any]) -> PlannerError:
    """The error as it was: what its constructor takes is not what it says."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def nearest(given: str, valid: Iterable[str], count: int = 2, cutoff: float = 0.5) -> list[str]:
    """The valid names most like ``given`` (difflib's ratio of at least ``cutoff``), best first."""
    by_key = {v.lower(): v for v in valid}
    return [by_key[m] for m in difflib.get_close_matches(given.lower(), by_key, n=count, cutoff=cutoff)]


def _some(given: str, names: list[str], listed_by: str | None) -> str:
    """All names where they are few; else those most like ``given``, how many more there are and what lists them."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    shown = nearest(given, names, MOST_NAMES, cutoff=0.0)
    more = f"{', '.join(shown)} and {len(names) - len(shown)} more"
    return more if listed_by is None else f"{more}, listed by {listed_by}"


LISTED_BY = {
    "model": "planner catalog models",
    "accelerator": "planner catalog accelerators",
    "node": "planner catalog nodes",
}
"""Kind of a catalogue entry -> the command that lists all of them."""
MOST_NAMES = 12
"""Names that a message lists."""
_DIGITS = re.compile(r"\d+")


def _short(value: object, limit: int = 80) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

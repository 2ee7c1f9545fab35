"""Errors that people read: which field, what was given, what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class PlannerError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(PlannerError):
    """Bad input: names the field, what was given and what is allowed (command line: exit code 2)."""

    def __init__(self, field: str, given: object, allowed: str) -> None:
        self.field = field
        self.given = given
        self.allowed = allowed
        super().__init__(f"{field}: got {_short(given)}; {allowed}")


class UnknownNameError(InputError):
    """A name that is not in a catalogue or schema; says the nearest valid ones."""

    def __init__(self, field: str, given: str, valid: Iterable[str]) -> None:
        names = sorted(valid)
        near = nearest(given, names)
        meant = [name for name in near if _DIGITS.findall(name) == _DIGITS.findall(given)]
        if meant:
            hint = f"did you mean {' or '.join(meant)}?"
        elif near:  # another generation or size is no slip of the keyboard
            hint = f"not known here; nearest: {', '.join(near)}"
        else:
            hint = f"allowed: {', '.join(names[:12])}"
        super().__init__(field, given, hint)


class UnsupportedArchitectureError(InputError):
    """A model configuration that is not understood; carries the keys that caused it."""

    def __init__(self, keys: Iterable[str], why: str, file: str = "config.json") -> None:
        self.keys = tuple(keys)
        super().__init__(file, ", ".join(self.keys), why)


class InfeasibleError(PlannerError):
    """Nothing fits (command line: exit code 3); the message says which limit binds."""


def nearest(given: str, valid: Iterable[str], count: int = 2) -> list[str]:
    """The valid names most like ``given``, best first; empty when nothing is close."""
    by_key = {v.lower(): v for v in valid}
    return [by_key[m] for m in difflib.get_close_matches(given.lower(), by_key, n=count, cutoff=0.5)]


_DIGITS = re.compile(r"\d+")


def _short(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

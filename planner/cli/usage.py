"""The parser's own errors as the planner says such things: the field, what was given, what is allowed.

Their classes live in click or in typer and their words in one of several libraries, by typer's version: what is not
recognised here is passed on as the parser says it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.errors import InputError, nearest

_ALLOWED = (
    (r"Input should be greater than or equal to (\S+)", "at least {}"),
    (r"Input should be less than or equal to (\S+)", "at most {}"),
    (r"Input should be greater than (\S+)", "more than {}"),
    (r"Input should be less than (\S+)", "less than {}"),
    (r"Input should be a valid integer.*|.* is not a valid int(?:eger)?( range)?\.?", "a whole number"),
    (r"Input should be a valid number.*|.* is not a valid float( range)?\.?", "a number"),
    (r".* is not in the range x>=(\S+?)\.?", "at least {}"),
    (r".* is not in the range (.+?)\.?", "a number with {}"),
)
"""What a parser says of a value -> what is allowed."""


def input_error(error: Exception, args: Sequence[str]) -> InputError | None:
    """``error`` of the parser of ``args`` with its field and what was given; None where it does not tell them."""
    message = " ".join(str(getattr(error, "message", "")).split())
    unknown = re.match(r"No such command '(.*?)'", message)
    if unknown is not None:
        names = list(getattr(getattr(getattr(error, "ctx", None), "command", None), "commands", ()))
        return _command(unknown[1], names) if names else None
    found = _option(args, getattr(getattr(error, "param", None), "opts", ()))
    if found is None or not message:
        return None
    for pattern, words in _ALLOWED:
        match = re.fullmatch(pattern, message)
        if match is not None:
            return InputError(*found, words.format(match[1]))
    return InputError(*found, f"{message[:1].lower()}{message[1:]}".removeprefix("input should be ").rstrip("."))


def _command(given: str, names: list[str]) -> InputError:
    near = nearest(given, names)
    allowed = f"did you mean {' or '.join(near)}?" if near else f"allowed: {', '.join(names)}"
    return InputError("command", given, allowed)


def _option(args: Sequence[str], names: Sequence[str]) -> tuple[str, str] | None:
    """The last of ``args`` that sets one of an option's ``names``, and to what."""
    for i in reversed(range(len(args))):
        name, joined, value = args[i].partition("=")
        if name not in names or not name.startswith("-"):
            continue
        if joined:
            return name, value
        if i + 1 < len(args):
            return name, args[i + 1]
    return None

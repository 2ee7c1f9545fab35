"""Words of a command line for a shell or a Kubernetes container: all quoted, nothing expanded by accident."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Arguments = list[tuple[str, "Value"]]
"""Flags with their values; None is a switch, a tuple several values."""
WIDTH = 110


@dataclass(frozen=True)
class Var:
    """A value known only where the command runs: a shell variable, or a variable that Kubernetes fills in.

    ``suffix`` is text right behind it, such as ``:20000``.
    """

    shell: str
    pod: str
    suffix: str = ""


Word = str | int | float | Var
Value = Word | tuple[Word, ...] | None

HEAD = Var("HEAD", "LWS_LEADER_ADDRESS")
RANK = Var("NODE_RANK", "LWS_WORKER_INDEX")


def shell_word(word: Word) -> str:
    """A word as a shell reads it: literals quoted, variables in double quotes."""
    if isinstance(word, Var):
        return f'"${{{word.shell}}}{word.suffix}"'
    return shlex.quote(plain(word))


def pod_word(word: Word) -> str:
    """A word of a container's command: ``$(NAME)`` is filled in by Kubernetes, a literal ``$(`` is kept."""
    if isinstance(word, Var):
        return f"$({word.pod}){word.suffix}"
    return plain(word).replace("$(", "$$(")


def plain(word: str | int | float) -> str:
    """Text of a literal; floats without noise. Control characters, which no name needs, become spaces."""
    text = f"{word:g}" if isinstance(word, float) else str(word)
    return re.sub(r"[\x00-\x1f\x7f\u2028\u2029]", " ", text)


def values(value: Value) -> tuple[Word, ...]:
    """A flag's values, none for a switch."""
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def shell_command(program: Sequence[Word], arguments: Iterable[tuple[str, Value]]) -> str:
    """A command with one flag and its values a line."""
    lines = [" ".join(shell_word(w) for w in program)]
    for flag, value in arguments:
        lines.append("  " + " ".join([shlex.quote(flag), *(shell_word(w) for w in values(value))]))
    return " \\\n".join(lines)


def pod_arguments(arguments: Iterable[tuple[str, Value]]) -> list[str]:
    """The same flags as a container's list of arguments."""
    return [word for flag, value in arguments for word in (flag, *(pod_word(w) for w in values(value)))]


def comment(text: str) -> list[str]:
    """``text`` as comment lines that hold in shell and YAML; line breaks inside it cannot end the comment."""
    words, lines, line = plain(text).split(), [], "#"
    for word in words:
        if len(line) + 1 + len(word) > WIDTH and line != "#":
            lines.append(line)
            line = "#"
        line += f" {word}"
    return [*lines, line]


def dns_name(text: str, limit: int = 40) -> str:
    """A Kubernetes name (RFC 1123 label) from any text: lower case, digits and hyphens, at most ``limit`` long."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:limit].strip("-")
    if not name:
        return "model"
    return name if name[0].isalpha() else f"m-{name}"[:limit].strip("-")


def model_argument(checkpoint: str) -> str:
    """The checkpoint as an argument; one that begins like a flag is made a relative path."""
    text = plain(checkpoint).strip()
    return f"./{text}" if text.startswith("-") else text

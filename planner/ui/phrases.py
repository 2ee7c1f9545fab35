"""The planner's own sentences in the language in use.

The library speaks English and keeps its numbers in the sentence. :mod:`planner.ui.templates` has the templates that it
fills in: a sentence is matched against them, its parts are kept (numbers, ids) or translated in turn, and the
template's translation is filled with them. A sentence that no template knows stays English; a test holds the
templates against the library's typed reasons and rules and against real plans.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from planner.ui.i18n import DEFAULT, _, language
from planner.ui.templates import TEMPLATES, UNKNOWN

PARTS = frozenset(("who", "why", "step", "resource", "term", "way", "metric", "kind", "word", "other"))
"""Fields that are phrases themselves; every other field is kept as it stands."""
_ID = re.compile(r"^[\w.+/-]+$")
_FREE = frozenset(("names", "source", "text", "given", "model", "field"))
"""Fields that may hold anything; a layout is several words, every other field is one."""
_JOINTS = (("; ", "；"), (" or ", " 或 "), (": ", "："))
"""Where sentences are put together, and how in a language that writes no space there."""


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    out = []
    for template in TEMPLATES:
        parts = re.split(r"\{(\w+)\}", template)
        made = "".join(re.escape(p) if i % 2 == 0 else rf"(?P<{p}>{_shape(p)})" for i, p in enumerate(parts))
        out.append((template, re.compile(rf"^{made}$")))
    return tuple(out)


def _shape(field: str) -> str:
    name = field.rstrip("0123456789")
    if name in PARTS or name in _FREE:
        return r".+?"
    if name == "share":
        return r"\S+?(?: %)?"
    if name in ("needed", "available"):
        return rf"(?:{UNKNOWN}|\S+?)"
    return r"[A-Z][A-Z0-9+ a-z-]*?" if name == "layout" else r"\S+?"


def translated(text: str) -> str:
    """A sentence of the planner in the language in use; as it is where no template knows it."""
    spoken = language()
    if spoken == DEFAULT:
        return text
    found = _found(spoken, " ".join(text.split()).rstrip("."))
    return text if found is None else found


def known(text: str) -> bool:
    """Whether the templates cover a sentence."""
    return _found(language(), " ".join(text.split()).rstrip(".")) is not None


def _split(text: str, joint: str) -> list[str]:
    """``text`` at the joints that stand outside brackets."""
    pieces = [""]
    for part in re.split(f"({re.escape(joint)})", text):
        if part == joint and pieces[-1].count("(") <= pieces[-1].count(")"):
            pieces.append("")
        else:
            pieces[-1] += part
    return pieces


@lru_cache(maxsize=8192)
def _found(spoken: str, text: str) -> str | None:
    """``spoken`` is the language in use; it only tells entries of the cache apart."""
    for template, pattern in _patterns():
        match = pattern.match(text)
        if match is None:
            continue
        filled = {}
        for name, value in match.groupdict().items():
            if name.rstrip("0123456789") not in PARTS:
                filled[name] = _(UNKNOWN) if value == UNKNOWN else value
                continue
            inner = _found(spoken, value)
            if inner is None and not _ID.match(value):
                break
            filled[name] = inner if inner is not None else value
        else:
            return _(template).format(**filled)
    for joint, drawn in _JOINTS:
        pieces = _split(text, joint)
        if len(pieces) > 1:
            done = [_found(spoken, p) or (p if _ID.match(p) else None) for p in pieces]
            if all(d is not None for d in done):
                return drawn.join(d for d in done if d is not None)
    return None

"""Text from outside (names, files, error messages) made safe to place in Markdown or in a figure's label."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import get_args

from planner.scenario.engine_schema import EngineName
from planner.ui.i18n import _, language
from planner.ui.phrases import translated
from planner.units import spaced

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-!|~$:&])")

_HAN = re.compile(r"[\u4e00-\u9fff]")
"""A Chinese sentence ends with a full stop of its own."""

_IDS = frozenset(get_args(EngineName))
"""Words that stay small at the start of a sentence."""


def plain(text: object) -> str:
    """``text`` as literal text inside Markdown: no link, image, colour, formula, emoji code or HTML comes of it."""
    flat = " ".join(str(text).split())
    return _MARKDOWN.sub(r"\\\1", flat)


def label(text: object) -> str:
    """``text`` as literal text inside a Plotly label, which understands a few HTML tags."""
    return html.escape(" ".join(str(text).split()))


def wrapped(text: object, width: int = 60) -> str:
    """``label`` broken into lines of about ``width`` characters, for hover boxes."""
    lines: list[str] = []
    for word in " ".join(str(text).split()).split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "<br>".join(html.escape(line) for line in lines)


def sentence(text: str) -> str:
    """``text`` with a full stop, and a capital first letter where it starts with a plain word (not with an id); the
    planner's own sentences in the language in use.
    """
    flat = " ".join(text.split())
    if not flat:
        return flat
    there = translated(flat)
    if there != flat:
        there = spaced(there)
        return there if there[-1] in "。！？…" else f"{there}。"
    flat = spaced(flat)
    first = flat.split(" ", 1)[0].rstrip(",.:;")
    if first.isalpha() and first.islower() and first not in _IDS:
        flat = flat[0].upper() + flat[1:]
    if flat[-1] in ".!?…。！？":
        return flat
    return f"{flat}。" if _HAN.search(flat) else f"{flat}."


def lowered(text: str) -> str:
    """``text`` with a small first letter, to stand inside a sentence; abbreviations stay."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def listed(items: Iterable[str]) -> str:
    """Several things in a row, as the language separates them."""
    return _(", ").join(items)


def paragraph(sentences: Iterable[str]) -> str:
    """Sentences one after the other; Chinese sets no space between them."""
    return ("" if language() == "zh" else " ").join(sentences)


def pair(name: str, text: str) -> str:
    """What something is called, and what is said of it."""
    return _("{name}: {text}").format(name=name, text=text)

"""Pieces of LaTeX for the formulas beside numbers."""

from __future__ import annotations

from planner.ui.numbers import sig


def total(terms: list[str]) -> str:
    """A sum; it breaks behind a sign where it does not fit its column (planner.ui.sections.how)."""
    return " + ".join(terms) or "0"


def num(value: float | None, digits: int = 3) -> str:
    """A number with thousands set apart by thin spaces."""
    return sig(value, digits).replace(",", r"\,")


def whole(value: float) -> str:
    """A number of things to its last digit."""
    return f"{value:,.0f}".replace(",", r"\,")


def text(words: str) -> str:
    """Words inside a formula."""
    return rf"\text{{{escaped(words)}}}"


def escaped(words: str) -> str:
    """Words with what LaTeX reads as commands made literal."""
    return "".join(f"\\{ch}" if ch in "#$%&_{}" else " " if ch in "\\~^" else ch for ch in words)

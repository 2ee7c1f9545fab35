"""Pieces of LaTeX for the formulas beside numbers."""

from __future__ import annotations

from planner.ui.numbers import sig

TERMS_A_LINE = 2


def lines(left: str, terms: list[str], right: str = "") -> str:
    """A sum broken into lines of a few terms, so that it stays inside a narrow column."""
    rows = [terms[i : i + TERMS_A_LINE] for i in range(0, len(terms), TERMS_A_LINE)] or [["0"]]
    joined = r" \\ &\ {}+ ".join(" + ".join(row) for row in rows)
    return rf"\begin{{aligned}} {left} &{'=' if left else ''}\ {joined} {right} \end{{aligned}}"


def num(value: float | None, digits: int = 3) -> str:
    """A number with thousands set apart by thin spaces."""
    return sig(value, digits).replace(",", r"\,")


def text(words: str) -> str:
    """Words inside a formula."""
    return rf"\text{{{escaped(words)}}}"


def escaped(words: str) -> str:
    """Words with what LaTeX reads as commands made literal."""
    return "".join(f"\\{ch}" if ch in "#$%&_{}" else " " if ch in "\\~^" else ch for ch in words)

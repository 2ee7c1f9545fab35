"""What a report is made of, before it is Markdown or HTML; all text is plain, escaping is the writers' work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table whose first ``text_columns`` columns are words and the others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1


@dataclass(frozen=True)
class Code:
    """Preformatted text."""

    text: str


@dataclass(frozen=True)
class Picture:
    """An inline SVG of the HTML page; Markdown shows ``instead``."""

    svg: str
    caption: str
    instead: Table | None = None


Block = Paragraph | Bullets | Table | Code | Picture


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    """A title and its sections."""

    title: str
    sections: tuple[Section, ...]

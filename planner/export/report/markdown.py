"""The report as Markdown; text that Markdown would read as markup is escaped."""

from __future__ import annotations

import re

from planner.export.report.blocks import Block, Bullets, Code, Paragraph, Picture, Report, Table
from planner.units import spaced


def as_markdown(report: Report) -> str:
    """One Markdown document (GitHub tables)."""
    parts = [f"# {_text(report.title)}"]
    for section in report.sections:
        parts.append(f"## {section.title}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Paragraph(text, strong):
            return f"**{_text(text)}**" if strong else _text(text)
        case Bullets(items):
            return "\n".join(f"- {_text(item)}" for item in items)
        case Table():
            return _table(block)
        case Code(text):
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
            return f"{fence}yaml\n{text.rstrip()}\n{fence}"
        case Picture(_, caption, instead):
            return _text(caption) if instead is None else f"{_text(caption)}\n\n{_table(instead)}"


def _table(table: Table) -> str:
    rule = ["---" if i < table.text_columns else "---:" for i in range(len(table.columns))]
    rows = [table.columns, *table.rows]
    lines = ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join(rule) + "|", *lines[1:]])


def _text(text: str) -> str:
    """Line breaks become spaces, percentages are written one way; characters that start markup or HTML are escaped."""
    return re.sub(r"([\\`*_\[\]<>|#&~])", r"\\\1", " ".join(spaced(text).split()))

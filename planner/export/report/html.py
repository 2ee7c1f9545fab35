"""The report as one HTML file: no script, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

from html import escape

from planner.export.report.blocks import Block, Bullets, Code, Paragraph, Picture, Report, Table
from planner.units import spaced

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --rule: #d0d7de; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --rule: #3d444d; --paper: #0d1117; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 0 auto; padding: 1.5rem; }
h2 { border-bottom: 1px solid var(--rule); padding-bottom: .2rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--rule); padding: .25rem .7rem .25rem 0; text-align: left; vertical-align: top; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; } td.n { white-space: nowrap; }
td:nth-child(4):not(.n) { min-width: 12rem; }
pre { overflow-x: auto; border: 1px solid var(--rule); padding: .7rem; font-size: .85rem; }
figure { margin: 1rem 0; } figcaption { color: var(--dim); font-size: .9rem; }
svg { width: 100%; height: auto; max-width: 46rem; } svg text { fill: var(--ink); font-size: 12px; }
@media (max-width: 600px) { body { padding: 1rem; } svg text { font-size: 17px; } }
svg .grid { stroke: var(--rule); stroke-width: 1; }
@media print { body { max-width: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Should a text ever slip through as markup, the browser still loads and runs nothing."""


def as_html(report: Report) -> str:
    """One self-contained HTML document."""
    title = escape(report.title)
    body = [f"<h1>{title}</h1>"]
    for section in report.sections:
        body.append(f"<h2>{escape(section.title)}</h2>")
        body += [_block(block) for block in section.blocks]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _block(block: Block) -> str:
    match block:
        case Paragraph(text, strong):
            inner = _text(text)
            return f"<p><strong>{inner}</strong></p>" if strong else f"<p>{inner}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"
        case Table():
            return _table(block)
        case Code(text):
            return f"<pre>{escape(text)}</pre>"
        case Picture(svg, caption, instead):
            table = "" if instead is None else f"<details><summary>Table</summary>{_table(instead)}</details>"
            return f"<figure>{svg}<figcaption>{_text(caption)}</figcaption></figure>{table}"


def _table(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        marks = ("" if i < table.text_columns else ' class="n"' for i in range(len(cells)))
        scope = ' scope="col"' if tag == "th" else ""
        return (
            "<tr>"
            + "".join(f"<{tag}{m}{scope}>{_text(c)}</{tag}>" for c, m in zip(cells, marks, strict=True))
            + "</tr>"
        )

    rows = "".join(row(cells, "td") for cells in table.rows)
    return f'<div class="wide"><table><thead>{row(table.columns, "th")}</thead><tbody>{rows}</tbody></table></div>'


def _text(text: str) -> str:
    """Escaped, percentages written one way."""
    return escape(spaced(text))

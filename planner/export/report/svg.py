"""Figures of the report as SVG text: no script, no outside style, colours that both themes carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Okabe and Ito's colour-blind-safe set (https://jfly.uni-koeln.de/color/)."""
WIDTH = 720
LETTER = 9
"""Room for a letter of the largest size that the page shows figures at (on a phone)."""


def scatter(points: Sequence[tuple[float, float, str, bool]], x_title: str, y_title: str, height: int = 320) -> str:
    """A scatter plot of (x, y, hover text, filled); axes are logarithmic over more than a factor of ten."""
    left, right, top, bottom = 88, 24, 12, 48
    xs, ys = _axis([p[0] for p in points]), _axis([p[1] for p in points])
    w, h = WIDTH - left - right, height - top - bottom
    out = [_open(height, f"{y_title} against {x_title}")]
    for value in xs.ticks:
        x = left + xs.place(value) * w
        out.append(f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + h}"/>')
        out.append(_label(x, top + h + 16, _short(value), "middle"))
    for value in ys.ticks:
        y = top + (1 - ys.place(value)) * h
        out.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{left + w}" y2="{y:.1f}"/>')
        out.append(_label(left - 6, y + 4, _short(value), "end"))
    for x_value, y_value, text, filled in points:
        x, y = left + xs.place(x_value) * w, top + (1 - ys.place(y_value)) * h
        fill = COLOURS[0] if filled else "none"
        out.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if filled else 4}" fill="{fill}" stroke="{COLOURS[0]}">'
            f"<title>{escape(text)}</title></circle>"
        )
    out.append(_label(left + w / 2, height - 6, x_title, "middle"))
    out.append(
        f'<text transform="translate(18 {top + h / 2:.1f}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>'
    )
    return "".join([*out, "</svg>"])


def bars(rows: Sequence[tuple[str, float, float]], unit: str) -> str:
    """Horizontal bars of (name, shown, hidden): hidden work is hatched behind the shown one."""
    left, line, top = 190, 24, 6
    height = top * 2 + line * len(rows)
    most = max((shown + hidden for _, shown, hidden in rows), default=0.0) or 1.0
    texts = [f"{_short(shown)} {unit}" + (f" + {_short(hidden)} hidden" if hidden else "") for _, shown, hidden in rows]
    scale = (WIDTH - left - 12 - LETTER * max(map(len, texts), default=0)) / most
    out = [_open(height, f"Time by operator in {unit}")]
    for i, (name, shown, hidden) in enumerate(rows):
        y = top + i * line
        out.append(_label(left - 8, y + 15, name, "end"))
        out.append(f'<rect x="{left}" y="{y + 4}" width="{shown * scale:.1f}" height="15" fill="{COLOURS[0]}"/>')
        if hidden:
            out.append(
                f'<rect x="{left + shown * scale:.1f}" y="{y + 4}" width="{hidden * scale:.1f}" height="15" '
                f'fill="none" stroke="{COLOURS[0]}" stroke-dasharray="3 2"/>'
            )
        out.append(_label(left + (shown + hidden) * scale + 6, y + 15, texts[i], "start"))
    return "".join([*out, "</svg>"])


class _axis:
    """Where values lie between 0 and 1, and round ticks."""

    def __init__(self, values: Sequence[float]) -> None:
        low, high = min(values), max(values)
        self.log = low > 0 and high / low > 10
        if self.log:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
            self.ticks = [10.0**k for k in range(round(math.log10(low)), round(math.log10(high)) + 1)]
        else:
            step = _round_step((high - low) or abs(high) or 1.0)
            low, high = math.floor(low / step) * step, math.ceil(high / step) * step
            if high <= low:
                high = low + step
            self.ticks = [low + step * k for k in range(round((high - low) / step) + 1)]
        self.low, self.high = low, high

    def place(self, value: float) -> float:
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def _round_step(span: float) -> float:
    raw = span / 5
    power = 10 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw)


def _short(value: float) -> str:
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{float(f'{value:.3g}'):,.6g}" if abs(value) < 1e6 else f"{value:.2g}"


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _open(height: int, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>{escape(title)}</title>"
    )

"""Where names stand beside marks, so that they cover no other mark, name or line and stay inside the figure, in a
narrow window as in a wide one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels, y downwards."""
Place = tuple[float, float]
"""Across and up as parts of the plot, 0 to 1."""

WINDOWS = ((290.0, 280.0), (560.0, 330.0), (850.0, 360.0))
"""Plots (width, height in pixels) that names must be clear in: a phone, a tablet, a desktop window."""
POSITIONS = (
    "middle right",
    "bottom right",
    "middle left",
    "bottom center",
    "top left",
    "top center",
    "bottom left",
    "top right",
)
"""Plotly's positions of a text, those that read best first."""
LINE_PX, LATIN_PX, WIDE_PX, GAP_PX = 13.0, 6.0, 11.5, 2.0
"""A line of text at 11 points, its narrow and its Chinese letters, and the room around it."""
_FIRST_WIDE = 0x2E80
_SAMPLES = 24


@dataclass(frozen=True)
class Mark:
    """A mark with the name that it would like to have (empty: none)."""

    at: Place
    size_px: float
    name: str = ""


def places(marks: Sequence[Mark], lines: Sequence[Sequence[Place]], most: int) -> dict[int, str]:
    """Index of a mark -> position of its name, for at most ``most`` marks in the order given; a name that stands clear
    nowhere is left out. ``lines`` are to be kept free as well.
    """
    taken: list[list[Box]] = [[] for _window in WINDOWS]
    found: dict[int, str] = {}
    for i, mark in enumerate(marks):
        if len(found) >= most:
            break
        if not mark.name:
            continue
        for position in POSITIONS:
            boxes = [_text_box(mark, position, window) for window in WINDOWS]
            if all(
                _inside(box, window)
                and not any(_touch(box, _mark_box(other, window)) for j, other in enumerate(marks) if j != i)
                and not any(_touch(box, there) for there in taken[k])
                and not any(_crosses(box, line, window) for line in lines)
                for k, (box, window) in enumerate(zip(boxes, WINDOWS, strict=True))
            ):
                found[i] = position
                for k, box in enumerate(boxes):
                    taken[k].append(box)
                break
    return found


def width_px(text: str) -> float:
    """About how wide a text is drawn."""
    return sum(WIDE_PX if ord(ch) >= _FIRST_WIDE else LATIN_PX for ch in text)


def _centre(at: Place, window: tuple[float, float]) -> tuple[float, float]:
    return at[0] * window[0], (1.0 - at[1]) * window[1]


def _mark_box(mark: Mark, window: tuple[float, float]) -> Box:
    x, y = _centre(mark.at, window)
    r = mark.size_px / 2
    return x - r, y - r, x + r, y + r


def _text_box(mark: Mark, position: str, window: tuple[float, float]) -> Box:
    x, y = _centre(mark.at, window)
    r, wide = mark.size_px / 2 + GAP_PX, width_px(mark.name)
    up, across = position.split(" ")
    left = {"right": x + r, "left": x - r - wide, "center": x - wide / 2}[across]
    top = {"bottom": y + r, "top": y - r - LINE_PX, "middle": y - LINE_PX / 2}[up]
    return left, top, left + wide, top + LINE_PX


def _inside(box: Box, window: tuple[float, float]) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= window[0] and box[3] <= window[1]


def _touch(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _crosses(box: Box, line: Sequence[Place], window: tuple[float, float]) -> bool:
    return any(box[0] <= x <= box[2] and box[1] <= y <= box[3] for x, y in _along(line, window))


def _along(line: Sequence[Place], window: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Points on a line, close enough to hit every box of a line of text that it crosses."""
    corners = [_centre(at, window) for at in line]
    for (x0, y0), (x1, y1) in pairwise(corners):
        steps = max(_SAMPLES, int(max(abs(x1 - x0), abs(y1 - y0)) / (LINE_PX / 4)))
        for k in range(steps + 1):
            yield x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps

"""One colour per term, the same in every figure, on light and on dark.

The eight hues of Okabe and Ito, "Color Universal Design" (2008), which the common kinds of colour blindness keep
apart; amber is darkened so that it shows on white. Meaning never rests on colour alone: figures also label, order
or hatch.
"""

from __future__ import annotations

BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
AMBER = "#E69F00"
VERMILION = "#D55E00"
PINK = "#CC79A7"
OLIVE = "#B5A642"
GREY = "#8A8A8A"

MEMORY: dict[str, str] = {
    "weights": BLUE,
    "kv": AMBER,
    "workspace": GREEN,
    "collectives": PINK,
    "graphs": SKY,
    "runtime": GREY,
    "margin": OLIVE,
}
"""Terms of the memory budget."""

BOUND: dict[str, str] = {
    "compute": VERMILION,
    "memory": BLUE,
    "network": PINK,
    "latency": GREY,
    "host": OLIVE,
}
"""What limits an operator; memory bandwidth shares the weights' blue, the network the collectives' pink."""

UNKNOWN = SKY
"""Several limits at once, or none that is known: unlike each of :data:`BOUND`."""
LIMIT = VERMILION
"""Limits: an SLO, a capacity."""

SERIES: tuple[tuple[str, str], ...] = (
    (BLUE, "circle"),
    (AMBER, "square"),
    (GREEN, "diamond"),
    (PINK, "triangle-up"),
    (SKY, "cross"),
    (OLIVE, "triangle-down"),
    (GREY, "pentagon"),
    (VERMILION, "star"),
)
"""Colour and marker of things without a fixed meaning (node types), in order."""


def series(index: int) -> tuple[str, str]:
    """Colour and marker symbol of the ``index``-th thing; repeats after eight."""
    return SERIES[index % len(SERIES)]

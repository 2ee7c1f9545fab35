"""What all figures share: margins, legend, hover box, behaviour under a finger."""

from __future__ import annotations

import math
from typing import Any

import plotly.graph_objects as go

CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "pan2d", "autoScale2d"],
}
"""Plotly's own buttons: enlarge, shrink, restore, save as picture."""


def finish(figure: go.Figure, height: int, legend_title: str | None = None) -> go.Figure:
    """Common layout. Dragging scrolls the page instead of drawing a zoom box: on a phone there is no other way past
    a figure.
    """
    # Whole entries replaced: merging them in place is four times slower, and this is half the time of a small figure.
    figure.update_layout(
        overwrite=True,
        height=height,
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        dragmode=False,
        hovermode="closest",
        hoverlabel={"align": "left", "namelength": -1},
        legend={
            "orientation": "h",
            "traceorder": "normal",
            # At the figure's upper edge. Beside the plot it keeps the place of an earlier width where a turned phone
            # has room for more entries in a row, and covers the upper part of the plot.
            "yref": "container",
            "yanchor": "top",
            "y": 1.0,
            "xanchor": "left",
            "x": 0,
            "font": {"size": 11},
            "title": {"text": legend_title or "", "font": {"size": 11}},
            "itemclick": False,
            "itemdoubleclick": False,
        },
        modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)"},
        uniformtext={"minsize": 10, "mode": "hide"},
    )
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure


_THOUSAND = 1e3


def spread(values: list[float]) -> float:
    """Largest over smallest positive value; 1 where there is none."""
    positive = [v for v in values if v > 0]
    return max(positive) / min(positive) if positive else 1.0


def log_axis(values: list[float]) -> bool:
    """Whether a logarithmic axis reads better: all positive, over more than a factor of ten."""
    return bool(values) and min(values) > 0 and spread(values) > 10


def annotation_at(value: float, *, log: bool) -> float:
    """Where an annotation stands that belongs to ``value``: Plotly takes the values of a logarithmic axis for traces,
    shapes and lines, but their logarithms for annotations (and for an axis's own range).
    """
    return math.log10(value) if log else value


def tick_format(values: list[float]) -> str:
    """How ticks along ``values`` are written: thousands as 5k and 70M, fractions as such, never with a power of ten."""
    return ".3~s" if values and max(values) >= _THOUSAND and min(values) >= 1 else ",.3~r"

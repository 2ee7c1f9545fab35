"""Memory of the fullest GPU, term by term, against its capacity."""

from __future__ import annotations

import plotly.graph_objects as go

from planner.search.plan_schema import Candidate, MemoryGib
from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import gib, percent, sig
from planner.ui.text import label
from planner.ui.words import memory_terms

BAR_PX, FRAME_PX = 66, 160
SHOWN_SHARE = 0.07
"""A term's number is written into the bar from this part of the capacity on; hovering shows all."""


def memories(candidate: Candidate) -> dict[str, MemoryGib]:
    """Bar label -> budget: one of the worker, or one of each pool."""
    prefill = candidate.prefill_pool.memory_gib if candidate.prefill_pool else None
    if prefill is None:
        return {_("GPU"): candidate.memory_gib}
    decode = candidate.decode_pool.memory_gib if candidate.decode_pool else None
    return {_("Prefill"): prefill, _("Decode"): decode or candidate.memory_gib}


def memory_bar(candidate: Candidate) -> go.Figure:
    """One stacked bar per pool, GiB along x, with a line at the capacity."""
    return memory_bars(memories(candidate))


def memory_bars(bars: dict[str, MemoryGib]) -> go.Figure:
    """One stacked bar per budget. A term below zero (no room for it) is left out: the others pass the capacity then."""
    figure = go.Figure()
    for term, (name, _help) in memory_terms().items():
        values = [max(getattr(m, term), 0.0) for m in bars.values()]
        if not any(values):
            continue
        figure.add_bar(
            orientation="h",
            y=[label(b) for b in bars],
            x=values,
            name=label(name),
            marker={"color": palette.MEMORY[term], "line": {"color": "white", "width": 0.5}},
            text=[sig(v) if v >= SHOWN_SHARE * m.capacity else "" for v, m in zip(values, bars.values(), strict=True)],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            customdata=[[gib(v), percent(v / m.capacity)] for v, m in zip(values, bars.values(), strict=True)],
            hovertemplate=f"<b>{label(name)}</b><br>%{{customdata[0]}} · %{{customdata[1]}} "
            + _("of the capacity")
            + "<extra></extra>",
        )
    _capacities(figure, bars)
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_xaxes(title_text=_("GiB"), rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    return finish(figure, FRAME_PX + BAR_PX * len(bars))


def _capacities(figure: go.Figure, bars: dict[str, MemoryGib]) -> None:
    for i, memory in enumerate(bars.values()):
        figure.add_shape(
            type="line",
            x0=memory.capacity,
            x1=memory.capacity,
            y0=i - 0.45,
            y1=i + 0.45,
            line={"color": palette.LIMIT, "width": 3},
        )
    last = next(iter(bars.values()))
    figure.add_annotation(
        x=last.capacity,
        y=-0.5,
        yanchor="middle",
        xanchor="right",
        xshift=-4,
        showarrow=False,
        text=_("capacity {gib}").format(gib=gib(last.capacity)),
        font={"color": palette.LIMIT, "size": 12},
    )

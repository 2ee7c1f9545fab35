"""Figures of the memory page: what fits by length, two ways to give out the cache, formats, parameters."""

from __future__ import annotations

import plotly.graph_objects as go

from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import count, percent, sig
from planner.ui.sections.memory_data import Admission, ClassRow, FitCurve, Share
from planner.ui.text import label, pair
from planner.ui.words import precision_classes
from planner.units import GIB

HEIGHT = 360
ROW_PX, FRAME_PX = 34, 110
LEGEND_PX = 190
"""Room for a legend of many entries on a phone."""


def sequences_by_length(curve: FitCurve, tokens: float, longest: int) -> go.Figure:
    """Sequences in one worker (log) by tokens a sequence holds (log); a line at ``tokens`` of the calculator."""
    figure = go.Figure()
    for values, name, colour, dash in (
        (curve.paged, _("pages, given out as needed"), palette.MEMORY["kv"], "solid"),
        (curve.reserved, _("reserved for {n} tokens").format(n=count(longest)), palette.GREY, "dash"),
    ):
        shown = (values > 0) & ((curve.tokens <= longest) | (dash == "solid"))
        if not shown.any():
            continue
        figure.add_scatter(
            x=curve.tokens[shown],
            y=values[shown],
            mode="lines",
            name=label(name),
            line={"color": colour, "width": 3, "dash": dash},
            customdata=[
                [count(float(round(t))), count(float(v))]
                for t, v in zip(curve.tokens[shown], values[shown], strict=True)
            ],
            hovertemplate=_("%{customdata[0]} tokens: %{customdata[1]} sequences") + "<extra></extra>",
        )
    figure.add_vline(x=tokens, line={"color": palette.SKY, "width": 2, "dash": "dot"})
    figure.update_xaxes(title_text=_("Tokens in a sequence"), type="log", tickformat="~s", dtick="D2")
    figure.update_yaxes(title_text=_("Sequences in one worker"), type="log", tickformat=".3~s", dtick="D2")
    return finish(figure, HEIGHT)


def admission_bars(a: Admission) -> go.Figure:
    """Requests that one worker holds by paging and by reservation."""
    rows = [
        (_("Paging, on average"), a.paged, palette.MEMORY["kv"]),
        (_("Paging, 99 of 100 moments"), a.paged_99, palette.MEMORY["kv"]),
        (_("Reserved by longest"), a.reserved, palette.GREY),
    ]
    figure = go.Figure()
    figure.add_bar(
        orientation="h",
        y=[label(r[0]) for r in rows],
        x=[r[1] for r in rows],
        marker={"color": [r[2] for r in rows], "opacity": [1.0, 0.75, 1.0]},
        text=[count(r[1]) for r in rows],
        textposition="auto",
        hovertemplate="<b>%{y}</b><br>" + _("%{x:,} requests") + "<extra></extra>",
        showlegend=False,
    )
    figure.update_xaxes(title_text=_("Requests in one worker"), rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(bargap=0.35)
    return finish(figure, FRAME_PX + ROW_PX * len(rows))


def precision_bars(rows: tuple[ClassRow, ...]) -> go.Figure:
    """GiB of each class of weights in its format, and what 16 bits would add (hatched)."""
    shown = [r for r in rows if r.bytes > 0]
    names = [label(precision_classes().get(r.tensor_class, r.tensor_class)) for r in shown]
    figure = go.Figure()
    figure.add_bar(
        orientation="h",
        y=names,
        x=[r.bytes / GIB for r in shown],
        name=_("in memory"),
        marker={"color": palette.MEMORY["weights"]},
        customdata=[[label(r.format), sig(r.bytes / GIB)] for r in shown],
        hovertemplate="<b>%{y}</b><br>" + pair("%{customdata[0]}", "%{customdata[1]} GiB") + "<extra></extra>",
    )
    saved = [max(r.saved_bytes, 0.0) / GIB for r in shown]
    if any(saved):
        figure.add_bar(
            orientation="h",
            y=names,
            x=saved,
            name=_("saved against 16 bits"),
            marker={
                "color": "rgba(138,138,138,0.18)",
                "line": {"color": palette.GREY, "width": 1},
                "pattern": {"shape": "/", "fgcolor": palette.GREY, "size": 6},
            },
            customdata=[[sig(v)] for v in saved],
            hovertemplate="<b>%{y}</b><br>" + _("saved: %{customdata[0]} GiB") + "<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.3)
    figure.update_xaxes(title_text=_("GiB of the whole model"), rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    return finish(figure, FRAME_PX + 26 * len(shown))


CLASS_COLOURS = {
    "routed_experts": palette.BLUE,
    "attention": palette.AMBER,
    "dense_mlp": palette.GREEN,
    "shared_experts": palette.PINK,
    "embedding": palette.SKY,
    "head": palette.OLIVE,
}


def parameters_bars(shares: tuple[Share, ...]) -> go.Figure:
    """Two bars: parameters that memory holds, parameters that one token passes through, by class."""
    bars = (_("held in memory"), _("used by one token"))
    totals = (sum(s.total for s in shares), sum(s.active for s in shares))
    figure = go.Figure()
    small = [s for s in shares if s.tensor_class not in CLASS_COLOURS]
    shown = [s for s in shares if s.tensor_class in CLASS_COLOURS]
    if small:
        shown.append(Share("", sum(s.total for s in small), sum(s.active for s in small)))
    for s in shown:
        name = precision_classes().get(s.tensor_class, _("other"))
        values = (s.total / 1e9, s.active / 1e9)
        figure.add_bar(
            orientation="h",
            y=[label(b) for b in bars],
            x=values,
            name=label(name),
            marker={"color": CLASS_COLOURS.get(s.tensor_class, palette.GREY), "line": {"color": "white", "width": 0.5}},
            customdata=[[sig(v), percent(v * 1e9 / t if t else 0.0)] for v, t in zip(values, totals, strict=True)],
            hovertemplate=f"<b>{label(name)}</b><br>%{{customdata[0]}} "
            + _("billion")
            + " · %{customdata[1]}<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_xaxes(title_text=_("Billion parameters"), rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    finish(figure, FRAME_PX + LEGEND_PX - 40 + ROW_PX * 2)
    return figure.update_layout(legend={"maxheight": LEGEND_PX})

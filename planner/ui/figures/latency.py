"""Latency under load: percentiles against their limits, by load, by token budget; where separate pools pay."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from planner.search.plan_schema import Candidate
from planner.ui import palette
from planner.ui.figures.common import annotation_at, finish, log_axis, tick_format
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import count, dollars, duration, percent, sig
from planner.ui.sections.load_data import Cell, Curve, known
from planner.ui.text import label, pair, sentence, wrapped
from planner.ui.words import latencies, percentiles

LEVELS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
DISTRIBUTION_PX, CURVE_PX, MAP_PX = 380, 430, 400
COLOUR = {"ttft_ms": palette.BLUE, "tbt_ms": palette.AMBER, "tpot_ms": palette.GREEN, "e2e_ms": palette.PINK}


def nines(level: float) -> float:
    """Where a percentile stands on an axis that spreads the tail: -log10(1 - p)."""
    return -math.log10(1.0 - level)


def distribution(
    candidate: Candidate, metric: str, limits: Sequence[tuple[str, str, float]], interval: tuple[float, float] | None
) -> go.Figure:
    """Part of requests (or gaps) that are faster (up, the tail spread out) than a time (across), with its limits.

    ``interval`` is the 80 % interval as factors on every time: the band.
    """
    values = {p: v for p, v in known(getattr(candidate, metric)).items() if p in LEVELS}
    x = list(values.values())
    y = [nines(LEVELS[p]) for p in values]
    figure = go.Figure()
    if interval is not None and x:
        figure.add_scatter(
            x=[v * interval[0] for v in x] + [v * interval[1] for v in reversed(x)],
            y=y + y[::-1],
            mode="lines",
            fill="toself",
            fillcolor="rgba(138,138,138,0.22)",
            line={"width": 0},
            name=_("80 % interval"),
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines+markers",
        line={"color": COLOUR[metric], "width": 3},
        marker={"size": 9},
        name=latencies()[metric][1],
        customdata=[[p, duration(v)] for p, v in values.items()],
        hovertemplate=pair("%{customdata[0]}", "%{customdata[1]}") + "<extra></extra>",
    )
    mine = [(p, v) for m, p, v in limits if m == metric]
    for percentile, limit in mine:
        _limit(figure, percentile, limit)
    everything = [*x, *(v for _p, v in mine)]
    log = log_axis(everything)
    figure.update_xaxes(
        title_text=_("{name}, ms").format(name=label(latencies()[metric][0])),
        type="log" if log else "linear",
        tickformat=tick_format(everything),
        **({"dtick": "D2"} if log else {"rangemode": "tozero"}),
    )
    figure.update_yaxes(
        title_text=_("faster than this"),
        tickvals=[nines(v) for v in LEVELS.values()],
        ticktext=[percent(v) for v in LEVELS.values()],
        range=[nines(0.4), nines(0.993)],
    )
    return finish(figure, DISTRIBUTION_PX)


def _limit(figure: go.Figure, percentile: str, limit: float) -> None:
    at = nines(LEVELS[percentile]) if percentile in LEVELS else None
    figure.add_scatter(
        x=[limit, limit],
        y=[nines(0.4), nines(0.993)] if at is None else [at, nines(0.993)],
        mode="lines",
        line={"color": palette.LIMIT, "width": 2, "dash": "dash"},
        name=_("limit {limit} ({percentile})").format(
            limit=duration(limit), percentile=label(percentiles()[percentile])
        ),
        hoverinfo="skip",
    )
    if at is not None:
        figure.add_scatter(
            x=[limit],
            y=[at],
            mode="markers",
            marker={
                "symbol": "line-ew",
                "size": 22,
                "color": palette.LIMIT,
                "line": {"width": 3, "color": palette.LIMIT},
            },
            showlegend=False,
            hovertemplate=_("the curve has to pass left of here") + "<extra></extra>",
        )


DASHES = {"mean": "solid", "p95": "dash", "p99": "dot"}


def by_load(curve: Curve, limits: Sequence[tuple[str, str, float]], planned: float, title: str) -> go.Figure:
    """TTFT above, TBT below, by load; a line at ``planned``."""
    figure = _two_rows(curve, limits, [title.format(sig(float(v))) for v in curve.x])
    figure.add_vline(x=planned, line={"color": palette.SKY, "width": 2, "dash": "dot"})
    return figure


def by_share(curve: Curve, limits: Sequence[tuple[str, str, float]]) -> go.Figure:
    """By part of the planned load."""
    percentages = Curve(100 * curve.x, curve.ms, curve.good, curve.meets)
    figure = by_load(percentages, limits, 100.0, _("{} % of the planned load"))
    figure.update_xaxes(title_text=_("% of the planned load"), row=2, col=1)
    return finish(figure, CURVE_PX)


def by_concurrency(curve: Curve, limits: Sequence[tuple[str, str, float]], planned: float) -> go.Figure:
    """By requests in flight in one worker."""
    figure = by_load(curve, limits, planned, _("{} requests in flight"))
    figure.update_xaxes(type="log", tickformat="~s", dtick="D2")
    figure.update_xaxes(title_text=_("Requests in flight in one worker"), row=2, col=1)
    return finish(figure, CURVE_PX)


def by_budget(curve: Curve, limits: Sequence[tuple[str, str, float]], now: float) -> go.Figure:
    """By tokens of one step (log)."""
    figure = by_load(curve, limits, now, _("{} tokens in a step"))
    figure.update_xaxes(type="log", tickformat="~s", dtick="D2")
    figure.update_xaxes(title_text=_("Token budget of one step"), row=2, col=1)
    return finish(figure, CURVE_PX)


def _two_rows(curve: Curve, limits: Sequence[tuple[str, str, float]], names: list[str]) -> go.Figure:
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.1)
    for row, (metric, levels) in enumerate(curve.ms.items(), start=1):
        shown: list[float] = []
        for level, values in levels.items():
            finite = values[np.isfinite(values)]
            if not finite.size:
                continue
            shown += finite.tolist()
            name = f"{latencies()[metric][1]} {percentiles()[level]}"
            figure.add_scatter(
                x=curve.x,
                y=values,
                mode="lines+markers",
                line={"color": COLOUR[metric], "width": 2.5, "dash": DASHES[level]},
                marker={"size": 5},
                name=name,
                customdata=[[n, duration(float(v))] for n, v in zip(names, values, strict=True)],
                hovertemplate=f"<b>{name}</b><br>" + pair("%{customdata[0]}", "%{customdata[1]}") + "<extra></extra>",
                row=row,
                col=1,
            )
        near = [(p, v) for m, p, v in limits if m == metric and (not shown or v < 10 * max(shown))]
        shown += [v for _p, v in near]
        log = log_axis(shown)
        for percentile, limit in near:
            _limit_across(figure, row, percentile, limit, log=log)
        figure.update_yaxes(
            title_text=_("{metric}, ms").format(metric=latencies()[metric][1]),
            type="log" if log else "linear",
            tickformat=tick_format(shown),
            **({"dtick": "D2"} if log else {"rangemode": "tozero"}),
            row=row,
            col=1,
        )
    return figure


def _limit_across(figure: go.Figure, row: int, percentile: str, limit: float, *, log: bool) -> None:
    """A limit as a line through a row of the figure, with its name at the left end."""
    figure.add_hline(y=limit, line={"color": palette.LIMIT, "width": 1.5, "dash": "dash"}, row=row, col=1)
    figure.add_annotation(
        x=0,
        xref="x domain",
        xanchor="left",
        y=annotation_at(limit, log=log),
        yanchor="bottom",
        showarrow=False,
        text=_("limit ({percentile})").format(percentile=label(percentiles()[percentile])),
        font={"color": palette.LIMIT, "size": 11},
        row=row,
        col=1,
    )


def split_heatmap(cells: Sequence[Cell], load_title: str) -> go.Figure:
    """What separate pools save (blue) or cost more (orange), by prompt length (up) and load (across)."""
    loads = sorted({c.load for c in cells})
    lengths = sorted({c.input_tokens for c in cells})
    at = {(c.input_tokens, c.load): c for c in cells}
    grid = [[at[(length, load)] for load in loads] for length in lengths]
    saving = [[0.0 if c.saving is None else 100 * c.saving for c in row] for row in grid]
    figure = go.Figure()
    figure.add_heatmap(
        z=saving,
        x=[count(float(f"{v:.3g}")) for v in loads],
        y=[count(round(v)) for v in lengths],
        colorscale=[[0.0, palette.AMBER], [0.5, "#e8e8e8"], [1.0, palette.SKY]],
        zmin=-60,
        zmax=60,
        xgap=3,
        ygap=3,
        text=[[_cell(c) for c in row] for row in grid],
        texttemplate="%{text}",
        textfont={"color": "black", "size": 12},
        customdata=[[_cell_hover(c, load_title) for c in row] for row in grid],
        hovertemplate="%{customdata}<extra></extra>",
        showscale=False,
        hoverongaps=True,
    )
    figure.update_xaxes(title_text=load_title, type="category", showgrid=False)
    figure.update_yaxes(title_text=_("Input tokens"), type="category", showgrid=False)
    return finish(figure, MAP_PX)


EQUAL = 0.005
"""Parts of the cost that count as none."""


def _cell(c: Cell) -> str:
    if c.saving is not None:
        if abs(c.saving) < EQUAL:
            return _("the same")
        if c.saving > 0:
            return _("split −{share}").format(share=percent(c.saving))
        # Of the split cost, so that both ways read as what the cheaper one saves.
        return _("together −{share}").format(share=percent(-c.saving / (1.0 - c.saving)))
    if c.agg is not None:
        return _("only together")
    if c.split is not None:
        return _("only split")
    return _("neither")


def _cell_hover(c: Cell, load_title: str) -> str:
    lines = [
        pair(_("Input tokens"), count(round(c.input_tokens))),
        pair(label(load_title), sig(c.load)),
    ]
    for name, side in ((_("together"), c.agg), (_("split"), c.split)):
        if side is None:
            lines.append(pair(f"<b>{label(name)}</b>", _("nothing holds the limits")))
            continue
        gpus = ngettext("{n} GPU", "{n} GPUs", side.gpus).format(n=count(side.gpus))
        if side.usd is not None:
            gpus = _("{usd} per million output tokens").format(usd=dollars(side.usd)) + f" · {gpus}"
        lines.append(pair(f"<b>{label(name)}</b>", gpus))
        lines.append(label(side.text))
        lines.append(wrapped(sentence(side.binding)))
    if c.reason:
        lines.append(wrapped(sentence(c.reason)))
    return "<br>".join(lines)

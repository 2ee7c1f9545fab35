"""Every feasible deployment in the plane of two figures, and the frontier that nothing beats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import plotly.graph_objects as go

from planner.search.plan_schema import Candidate, Layout, ParetoPoint, Plan
from planner.ui import palette
from planner.ui.figures.common import annotation_at, finish, log_axis, tick_format
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import count, dollars, duration, sig
from planner.ui.text import label, pair
from planner.ui.words import node_label, percentiles, servings, short_deployment

HEIGHT = 430
NAME_PX = 26
"""Room for the name of a limit, which stands on the plot's upper edge, below the legend."""


@dataclass(frozen=True)
class Point:
    """A candidate or frontier point with the figures that an axis may show; ``rank`` None is not in the table."""

    rank: int | None
    node: str
    serving: str
    layout: Layout
    text: str
    gpus: int
    concurrency: float
    values: dict[str, float | None]
    on_frontier: bool


@dataclass(frozen=True)
class Axis:
    """A figure to draw along an axis."""

    id: str
    name: str
    title: str
    show: Callable[[float | None], str]
    low_is_better: bool = True
    metric: str | None = None
    """The SLO's metric, where a limit may be drawn."""


def axes() -> dict[str, Axis]:
    """What can be drawn along either axis."""
    listed = [
        Axis("tpot", _("Time per token"), _("Time per output token, ms"), duration, metric="tpot_ms"),
        Axis("ttft", _("Time to first"), _("Time to first token, ms"), duration, metric="ttft_ms"),
        Axis("tbt_p99", _("Gap between tokens, p99"), _("Time between tokens, p99, ms"), duration, metric="tbt_ms"),
        Axis("ttft_p99", _("Time to first, p99"), _("Time to first token, p99, ms"), duration, metric="ttft_ms"),
        Axis("cost", _("Cost"), _("US dollars per million output tokens"), dollars),
        Axis("rate", _("Tokens per GPU"), _("Output tokens per second and GPU"), sig, low_is_better=False),
        Axis(
            "goodput",
            _("Goodput per GPU"),
            _("Requests per second and GPU within every limit"),
            sig,
            low_is_better=False,
        ),
        Axis("gpus", _("GPUs"), _("GPUs"), count),
        Axis("energy", _("Energy"), _("Joules per output token"), sig),
    ]
    return {a.id: a for a in listed}


def available(plan: Plan) -> dict[str, Axis]:
    """The axes for which the plan has numbers."""
    points = _points(plan)
    return {k: a for k, a in axes().items() if any(p.values[k] is not None for p in points)}


def frontier(plan: Plan, x: str = "tpot", y: str = "cost", chosen: int | None = None) -> go.Figure:
    """Deployments by ``x`` and ``y`` (ids of :func:`axes`); ``chosen`` is the rank that wears a ring.

    ``customdata`` of a point is [rank] (-1 where the table has no such row).
    """
    across, up = axes()[x], axes()[y]
    points = [p for p in _points(plan) if p.values[x] is not None and p.values[y] is not None]
    figure = go.Figure()
    _line(figure, points, across, up)
    groups = list(dict.fromkeys((p.node, p.serving) for p in points))
    for i, (node, serving) in enumerate(groups):
        members = [p for p in points if (p.node, p.serving) == (node, serving)]
        _markers(figure, members, across, up, f"{node_label(node)} · {servings()[serving]}", i)
    _ring(figure, points, x, y, chosen)
    for axis, update in ((across, figure.update_xaxes), (up, figure.update_yaxes)):
        values = [p.values[axis.id] or 0.0 for p in points]
        _limits(figure, plan, axis, axis is across, values)
        log = log_axis(values)
        update(title_text=axis.title, type="log" if log else "linear", tickformat=tick_format(values))
        if log:
            update(dtick="D2")
        else:
            update(rangemode="tozero")
    finish(figure, HEIGHT)
    if figure.layout.annotations:  # a limit's name stands between the plot and the legend
        figure.layout.margin.t = NAME_PX
    return figure


def _points(plan: Plan) -> list[Point]:
    """Candidates, then frontier points that are not among them."""
    frontier_ranks = {p.rank for p in plan.pareto if p.rank is not None}
    out = [_of_candidate(c, c.rank in frontier_ranks) for c in plan.candidates]
    out += [_of_pareto(p) for p in plan.pareto if p.rank is None]
    return out


def _of_candidate(c: Candidate, on_frontier: bool) -> Point:
    return Point(
        c.rank,
        c.node,
        c.serving,
        c.layout,
        short_deployment(c),
        c.gpus,
        c.concurrency,
        {
            "tpot": c.tpot_ms.mean,
            "ttft": c.ttft_ms.mean,
            "cost": c.usd_per_mtok.output,
            "rate": c.output_tokens_per_s_per_gpu,
            "gpus": float(c.gpus),
            "energy": c.joules_per_token,
            "goodput": c.goodput_rps / c.gpus,
            "ttft_p99": c.ttft_ms.p99,
            "tbt_p99": c.tbt_ms.p99,
        },
        on_frontier,
    )


def _of_pareto(p: ParetoPoint) -> Point:
    return Point(
        None,
        p.node,
        p.serving,
        p.layout,
        f"{count(p.replicas)} × ({p.layout.describe()})",
        p.gpus,
        p.concurrency,
        {
            "tpot": p.tpot_ms,
            "ttft": p.ttft_ms,
            "cost": p.usd_per_mtok_output,
            "rate": p.output_tokens_per_s_per_gpu,
            "gpus": float(p.gpus),
            "energy": p.joules_per_token,
            "goodput": None if p.goodput_rps is None else p.goodput_rps / p.gpus,
            "ttft_p99": p.ttft_p99_ms,
            "tbt_p99": p.tbt_p99_ms,
        },
        True,
    )


def envelope(points: Iterable[tuple[float, float]], x_low: bool, y_low: bool) -> list[tuple[float, float]]:
    """The points that none beats in both coordinates, along x from its best end."""
    sx, sy = (1.0 if x_low else -1.0), (1.0 if y_low else -1.0)
    best = float("inf")
    out = []
    for px, py in sorted(points, key=lambda p: (sx * p[0], sy * p[1])):
        if sy * py < best:
            best = sy * py
            out.append((px, py))
    return out


def _line(figure: go.Figure, points: list[Point], across: Axis, up: Axis) -> None:
    pairs = [(p.values[across.id] or 0.0, p.values[up.id] or 0.0) for p in points]
    edge = envelope(pairs, across.low_is_better, up.low_is_better)
    if len(edge) < 2:
        return
    figure.add_scatter(
        x=[p[0] for p in edge],
        y=[p[1] for p in edge],
        mode="lines",
        line={"color": palette.GREY, "width": 1.5, "dash": "dot"},
        name=_("not beaten in both"),
        hoverinfo="skip",
    )


def _markers(figure: go.Figure, members: list[Point], across: Axis, up: Axis, name: str, index: int) -> None:
    colour, symbol = palette.series(index)
    marker = {
        "color": colour,
        "symbol": [symbol if p.rank is not None else f"{symbol}-open" for p in members],
        "size": [9 if p.on_frontier else 6 for p in members],
        "opacity": [1.0 if p.on_frontier else 0.6 for p in members],
        "line": {"width": 1, "color": colour},
    }
    figure.add_scatter(
        x=[p.values[across.id] for p in members],
        y=[p.values[up.id] for p in members],
        mode="markers",
        marker=marker,
        name=label(name),
        customdata=[[p.rank if p.rank is not None else -1] for p in members],
        text=[_hover(p, across, up) for p in members],
        hovertemplate="%{text}<extra></extra>",
        selected={"marker": {"opacity": 1.0}},
        unselected={"marker": {"opacity": 0.6}},
    )


def _hover(p: Point, across: Axis, up: Axis) -> str:
    """Five lines: on a phone a longer box covers the figure, and the rest is in the table and on the page."""
    gpus = ngettext("{n} GPU", "{n} GPUs", p.gpus).format(n=count(p.gpus))
    lines = [
        f"<b>{label(p.text)}</b>",
        f"{label(node_label(p.node))} · {label(servings()[p.serving])} · {label(gpus)}",
        *(label(pair(axis.title, axis.show(p.values[axis.id]))) for axis in (across, up)),
        _("Not among the candidates listed")
        if p.rank is None
        else _("Candidate {rank}: click to choose").format(rank=p.rank),
    ]
    return "<br>".join(lines)


def _ring(figure: go.Figure, points: list[Point], x: str, y: str, chosen: int | None) -> None:
    for p in points:
        if chosen is not None and p.rank == chosen:
            figure.add_scatter(
                x=[p.values[x]],
                y=[p.values[y]],
                mode="markers",
                marker={
                    "symbol": "circle-open",
                    "size": 20,
                    "color": palette.VERMILION,
                    "line": {"width": 3, "color": palette.VERMILION},
                },
                name=_("chosen"),
                hoverinfo="skip",
            )


def _limits(figure: go.Figure, plan: Plan, axis: Axis, vertical: bool, values: list[float]) -> None:
    """The SLO's limits, where they are near enough not to squeeze the points into a corner."""
    for metric, percentile, limit in plan.scenario.slo.limits():
        if metric != axis.metric or not values or limit > 4 * max(values):
            continue
        ends = {"x0": limit, "x1": limit, "y0": 0, "y1": 1, "yref": "paper"}
        if not vertical:
            ends = {"y0": limit, "y1": limit, "x0": 0, "x1": 1, "xref": "paper"}
        figure.add_shape(
            type="line", line={"color": palette.LIMIT, "width": 1.5, "dash": "dash"}, layer="below", **ends
        )
        at = annotation_at(limit, log=log_axis(values))
        place = (
            {"x": at, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": "right"}
            if vertical
            else {"y": at, "x": 1, "xref": "paper", "yanchor": "bottom", "xanchor": "right"}
        )
        figure.add_annotation(
            text=_("limit {limit} ({percentile})").format(
                limit=duration(limit), percentile=label(percentiles()[percentile])
            ),
            showarrow=False,
            font={"color": palette.LIMIT, "size": 12},
            **place,
        )

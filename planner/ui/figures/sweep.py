"""How the answer moves with one variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from planner.search.plan_schema import Candidate
from planner.ui import palette
from planner.ui.figures.common import finish, log_axis, tick_format
from planner.ui.i18n import _
from planner.ui.numbers import count, dollars, duration, sig
from planner.ui.sweep import Point, Variable
from planner.ui.text import label, pair
from planner.ui.words import deployment

HEIGHT = 360


@dataclass(frozen=True)
class Metric:
    """A figure of a deployment."""

    id: str
    name: str
    title: str
    of: Callable[[Candidate], float | None]
    show: Callable[[float | None], str]


def metrics() -> dict[str, Metric]:
    """What can be drawn upwards."""
    listed = [
        Metric("cost", _("Cost"), _("US dollars per million output tokens"), lambda c: c.usd_per_mtok.output, dollars),
        Metric("gpus", _("GPUs"), _("GPUs"), lambda c: float(c.gpus), count),
        Metric(
            "rate",
            _("Tokens per GPU"),
            _("Output tokens per second and GPU"),
            lambda c: c.output_tokens_per_s_per_gpu,
            sig,
        ),
        Metric("ttft", _("Time to first"), _("Time to first token, ms"), lambda c: c.ttft_ms.mean, duration),
        Metric("tpot", _("Time per token"), _("Time per output token, ms"), lambda c: c.tpot_ms.mean, duration),
        Metric("energy", _("Energy"), _("Joules per output token"), lambda c: c.joules_per_token, sig),
    ]
    return {m.id: m for m in listed}


def sweep(variable: Variable, points: Sequence[Point], metric: Metric) -> go.Figure:
    """``metric`` of the recommended deployment over the variable's values; crosses on the axis are values that nothing
    serves.
    """
    fine = [p for p in points if p.best is not None and metric.of(p.best) is not None]
    rest = [p for p in points if p.best is None]
    at = (lambda p: p.value) if variable.numeric else (lambda p: label(variable.show(p.value)))
    figure = go.Figure()
    figure.add_scatter(
        x=[at(p) for p in fine],
        y=[metric.of(p.best) for p in fine if p.best is not None],
        mode="lines+markers" if variable.numeric else "markers",
        line={"color": palette.BLUE, "width": 2},
        marker={"size": 9, "color": palette.BLUE},
        name=_("recommended deployment"),
        text=[_hover(variable, p, metric) for p in fine],
        hovertemplate="%{text}<extra></extra>",
    )
    if rest:
        figure.add_scatter(
            x=[at(p) for p in rest],
            y=[0] * len(rest),
            mode="markers",
            marker={"symbol": "x", "size": 11, "color": palette.LIMIT},
            name=_("nothing serves it"),
            hovertemplate="%{x}<extra></extra>",
            cliponaxis=False,
        )
    now = [p for p in fine if p.value == variable.now]
    if now and now[0].best is not None:
        figure.add_scatter(
            x=[at(now[0])],
            y=[metric.of(now[0].best)],
            mode="markers",
            marker={"symbol": "circle-open", "size": 18, "line": {"width": 3}, "color": palette.VERMILION},
            name=_("as it is"),
            hoverinfo="skip",
        )
    numbers = [float(p.value) for p in points] if variable.numeric else []
    heights = [value for p in fine if p.best is not None and (value := metric.of(p.best)) is not None]
    log = log_axis(numbers)
    figure.update_xaxes(title_text=label(variable.axis), type="log" if log else None)
    if numbers:
        figure.update_xaxes(tickformat=tick_format(numbers), dtick="D2" if log else None)
    figure.update_yaxes(title_text=label(metric.title), tickformat=tick_format(heights), rangemode="tozero")
    return finish(figure, HEIGHT)


def _hover(variable: Variable, point: Point, metric: Metric) -> str:
    assert point.best is not None
    return "<br>".join(
        (
            f"<b>{label(pair(variable.axis, variable.show(point.value)))}</b>",
            label(pair(metric.title, metric.show(metric.of(point.best)))),
            label(deployment(point.best)),
        )
    )

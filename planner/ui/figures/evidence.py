"""Predicted against measured, errors by group, coverage of intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from planner.evidence.evidence_table import EvidenceTable
from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import count, duration, percent, signed
from planner.ui.sections.evidence_data import Coverage, GroupError, largest
from planner.ui.text import label, pair

SCATTER_PX = 520
ROW_PX, FRAME_PX = 34, 120
BAND = 1.25
"""Lines are drawn at this factor around equality."""
_TICKS = ".3~s"


def predicted_against_measured(
    table: EvidenceTable,
    metric: str,
    values: Sequence[str],
    chosen: NDArray[np.bool_],
    near: NDArray[np.bool_],
) -> go.Figure:
    """Predicted (up) against measured (across), ms on logarithmic axes; one colour per group of ``values``, rings
    around runs in ``near``.
    """
    measured, predicted = table.runs[metric], table.predicted[metric]
    shown = chosen & np.isfinite(measured) & np.isfinite(predicted) & (measured > 0) & (predicted > 0)
    figure = go.Figure()
    if not shown.any():
        return finish(figure, SCATTER_PX)
    both = np.concatenate([measured[shown], predicted[shown]])
    ends = [float(both.min()) / 1.3, float(both.max()) * 1.3]
    _equality(figure, ends)
    named = largest(values, shown)
    for index, name in enumerate([*named, None]):
        members = shown & np.array([v == name if name is not None else v not in named for v in values])
        if not members.any():
            continue
        rows = np.flatnonzero(members)
        colour, symbol = palette.series(index)
        figure.add_scattergl(
            x=measured[rows],
            y=predicted[rows],
            mode="markers",
            name=label(name if name is not None else _("others")),
            marker={"color": colour, "symbol": symbol, "size": 6, "opacity": 0.65},
            customdata=[hover(table, int(r), metric) for r in rows],
            hovertemplate="%{customdata}<extra></extra>",
        )
    _rings(figure, table, metric, shown & near)
    for update, title in ((figure.update_xaxes, _("measured, ms")), (figure.update_yaxes, _("predicted, ms"))):
        update(title_text=title, type="log", tickformat=_TICKS, dtick=1, range=[float(np.log10(e)) for e in ends])
    finish(figure, SCATTER_PX)
    return figure.update_layout(legend={"maxheight": 160})


def _equality(figure: go.Figure, ends: list[float]) -> None:
    figure.add_scatter(
        x=ends,
        y=ends,
        mode="lines",
        line={"color": palette.GREY, "width": 2},
        name=_("equal"),
        hoverinfo="skip",
    )
    for i, factor in enumerate((BAND, 1 / BAND)):
        figure.add_scatter(
            x=ends,
            y=[e * factor for e in ends],
            mode="lines",
            line={"color": palette.GREY, "width": 1, "dash": "dot"},
            name=_("a quarter off"),
            showlegend=i == 0,
            hoverinfo="skip",
        )


def _rings(figure: go.Figure, table: EvidenceTable, metric: str, rows: NDArray[np.bool_]) -> None:
    if not rows.any():
        return
    figure.add_scattergl(
        x=table.runs[metric][rows],
        y=table.predicted[metric][rows],
        mode="markers",
        name=_("nearest to this plan"),
        marker={"symbol": "circle-open", "size": 13, "color": palette.VERMILION, "line": {"width": 2}},
        hoverinfo="skip",
    )


def hover(table: EvidenceTable, row: int, metric: str) -> str:
    """The identity tuple of a run, its measured and its predicted value."""
    text, runs = table.runs.text, table.runs
    measured, predicted = float(runs[metric][row]), float(table.predicted[metric][row])
    precision = "/".join(t for t in (text["linear_precision"][row], text["moe_precision"][row]) if t)
    lines = [
        f"<b>{label(text['model'][row])}</b>",
        label(" · ".join(t for t in (text["gpu"][row], text["engine"][row], text["engine_version"][row]) if t)),
        label(" · ".join(t for t in (precision, text["serving"][row], table.layouts[row]) if t)),
        _("{input} in, {output} out, {n} in flight").format(
            input=count(float(runs["input_tokens"][row])),
            output=count(float(runs["output_tokens"][row])),
            n=count(float(runs["concurrency"][row])),
        ),
        _("measured {measured}, predicted {predicted} ({error})").format(
            measured=duration(measured), predicted=duration(predicted), error=signed(predicted / measured - 1.0)
        ),
        label(text["bench"][row]),
    ]
    return "<br>".join(line for line in lines if line)


def errors_by_group(errors: Sequence[GroupError], metric: str) -> go.Figure:
    """Median error of each group as a bar, the 90th percentile as a mark; percent."""
    rows = [e for e in errors if metric in e.metrics]
    names = [label(f"{e.value} ({count(e.metrics[metric]['points'])})") for e in rows]
    figure = go.Figure()
    figure.add_bar(
        orientation="h",
        y=names,
        x=[100 * e.metrics[metric]["median_ape"] for e in rows],
        name=_("half of the runs are nearer than"),
        marker={"color": palette.BLUE},
        customdata=[[percent(e.metrics[metric]["median_ape"]), signed(e.metrics[metric]["bias"])] for e in rows],
        hovertemplate="<b>%{y}</b><br>"
        + _("median error {median}, bias {bias}").format(median="%{customdata[0]}", bias="%{customdata[1]}")
        + "<extra></extra>",
    )
    p90 = [100 * e.metrics[metric]["p90_ape"] for e in rows]
    figure.add_scatter(
        x=p90,
        y=names,
        mode="markers",
        name=_("nine of ten are nearer than"),
        marker={
            "symbol": "line-ns",
            "size": 16,
            "color": palette.VERMILION,
            "line": {"width": 3, "color": palette.VERMILION},
        },
        customdata=[percent(v / 100) for v in p90],
        hovertemplate="<b>%{y}</b><br>" + _("90th percentile {p90}").format(p90="%{customdata}") + "<extra></extra>",
    )
    figure.update_xaxes(title_text=_("error, % of the measured value"), rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(bargap=0.35)
    finish(figure, FRAME_PX + ROW_PX * max(len(rows), 2))
    return figure.update_layout(legend={"maxheight": 80})


def coverage_bars(found: Sequence[Coverage], names: dict[str, str]) -> go.Figure:
    """Part of the runs inside the 80 % and 50 % intervals, with lines at what it should be."""
    figure = go.Figure()
    rows = [label(names[c.metric]) for c in found]
    for values, nominal, colour in (
        ([c.inside80 for c in found], 0.8, palette.SKY),
        ([c.inside50 for c in found], 0.5, palette.BLUE),
    ):
        figure.add_bar(
            orientation="h",
            y=rows,
            x=[100 * v for v in values],
            name=_("inside the {level} interval").format(level=percent(nominal)),
            marker={"color": colour},
            text=[percent(v) for v in values],
            textposition="inside",
            textangle=0,
            hovertemplate=pair("<b>%{y}</b>", "%{x:.0f} %") + "<extra></extra>",
        )
        figure.add_vline(x=100 * nominal, line={"color": palette.LIMIT, "width": 2, "dash": "dash"})
    figure.update_layout(barmode="group", bargap=0.3)
    figure.update_xaxes(title_text=_("% of the runs"), range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    return finish(figure, FRAME_PX + 60 * len(found))

"""Rent, own and API side by side; cost by load; power drawn and provisioned."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from planner.ui import palette
from planner.ui.figures.common import finish, tick_format
from planner.ui.i18n import _
from planner.ui.numbers import dollars, percent, sig
from planner.ui.sections.cost_data import ByLoad, Power, Way
from planner.ui.text import label
from planner.units import KILO

ROW_PX, FRAME_PX, LEGEND_ROW_PX = 52, 130, 18
LINE_PX = 400
HOURS_A_DAY = 24
SIDE, NOTE_STEP = 0.4, 0.08
"""Beyond this part of the width notes stand left of their line; each one lower than the one before."""


def ways_bars(ways: Sequence[Way]) -> go.Figure:
    """US dollars per day of each way, stacked by part."""
    figure = go.Figure()
    parts = list(dict.fromkeys(part for way in ways for part in way.parts))
    for index, part in enumerate(parts):
        values = [HOURS_A_DAY * way.parts.get(part, 0.0) for way in ways]
        colour, _symbol = palette.series(index)
        figure.add_bar(
            orientation="h",
            y=[label(w.name) for w in ways],
            x=values,
            name=label(part),
            marker={
                "color": colour,
                "line": {"color": "white", "width": 0.5},
                "pattern": {"shape": "/" if index >= len(palette.SERIES) else ""},  # where colours repeat
            },
            customdata=[[dollars(v)] for v in values],
            hovertemplate=f"<b>{label(part)}</b><br>%{{customdata[0]}} " + _("a day") + "<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_xaxes(title_text=_("US dollars a day"), rangemode="tozero", tickformat="~s")
    figure.update_yaxes(autorange="reversed")
    return finish(figure, FRAME_PX + LEGEND_ROW_PX * len(parts) // 2 + ROW_PX * len(ways))


def cost_by_load(found: ByLoad, crossings: dict[str, float], mean: float | None = None) -> go.Figure:
    """US dollars per million output tokens by part of the planned load; ``crossings`` (name -> part) and the ``mean``
    of the day are marked.
    """
    figure = go.Figure()
    colours = (palette.BLUE, palette.GREEN, palette.AMBER, palette.PINK)
    dashes = ("solid", "dash", "dot", "dashdot")
    for (name, values), colour, dash in zip(found.usd_per_mtok.items(), colours, dashes, strict=False):
        figure.add_scatter(
            x=100 * found.share,
            y=values,
            mode="lines",
            name=label(name),
            line={"color": colour, "width": 3, "dash": dash},
            customdata=[[dollars(float(v))] for v in values],
            hovertemplate=_("%{x:.0f} % of the load: %{customdata[0]} per million output tokens") + "<extra></extra>",
        )
    marked = [(_("{name} from {share}"), name, share, palette.LIMIT, "dash") for name, share in crossings.items()]
    if mean is not None:
        marked.append((_("mean of the day {share}"), "", mean, palette.SKY, "dot"))
    for row, (text, name, share, colour, dash) in enumerate(marked):
        left = share > SIDE
        figure.add_vline(x=100 * share, line={"color": colour, "width": 1.5, "dash": dash})
        figure.add_annotation(
            x=100 * share,
            y=1.0 - NOTE_STEP * row,
            yref="paper",
            yanchor="top",
            xanchor="right" if left else "left",
            xshift=-4 if left else 4,
            showarrow=False,
            text=text.format(name=label(name), share=percent(share)),
            font={"color": colour, "size": 12},
        )
    ticks = tick_format([float(v) for values in found.usd_per_mtok.values() for v in values])
    figure.update_xaxes(title_text=_("% of the planned load, on average"), range=[0, 100])
    figure.update_yaxes(title_text=_("US dollars per million output tokens"), type="log", tickformat=ticks, dtick="D2")
    return finish(figure, LINE_PX)


def power_bars(power: Power) -> go.Figure:
    """Kilowatts drawn on average and provisioned, by part."""
    rows = (_("drawn on average"), _("to provision"))
    figure = go.Figure()
    for name, average, provisioned, colour in (
        (_("power of GPUs"), power.gpus_w, power.gpus_provisioned_w, palette.BLUE),
        (_("rest of the nodes"), power.rest_w, power.rest_provisioned_w, palette.AMBER),
        (_("cooling and distribution"), power.facility_w, power.facility_provisioned_w, palette.SKY),
    ):
        values = [average / KILO, provisioned / KILO]
        if not any(values):
            continue
        figure.add_bar(
            orientation="h",
            y=[label(r) for r in rows],
            x=values,
            name=label(name),
            marker={"color": colour, "line": {"color": "white", "width": 0.5}},
            customdata=[[sig(v)] for v in values],
            hovertemplate=f"<b>{label(name)}</b><br>%{{customdata[0]}} kW<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_xaxes(title_text=_("kW of the whole deployment"), rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    return finish(figure, FRAME_PX + ROW_PX * 2)

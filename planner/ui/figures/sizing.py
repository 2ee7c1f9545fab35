"""The fleet over a day, and the parts of a recovery."""

from __future__ import annotations

import plotly.graph_objects as go

from planner.search.sizing_schema import DayPlan, RecoveryPlan
from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import count, duration, sig
from planner.ui.text import pair

DAY_PX, RECOVERY_PX = 340, 190


def day_figure(day: DayPlan) -> go.Figure:
    """GPUs of each hour as bars, the load as a line on an axis of its own."""
    hours = list(range(len(day.hourly_gpus)))
    figure = go.Figure()
    figure.add_bar(
        x=hours,
        y=list(day.hourly_gpus),
        marker={"color": palette.BLUE},
        name=_("GPUs, autoscaled"),
        customdata=[[f"{h:02d}:00", count(n)] for h, n in zip(hours, day.hourly_replicas, strict=True)],
        hovertemplate=_("{hour}: {gpus} GPUs, {n} workers").format(
            hour="%{customdata[0]}", gpus="%{y:,}", n="%{customdata[1]}"
        )
        + "<extra></extra>",
    )
    figure.add_scatter(
        x=hours,
        y=[day.average_gpus] * len(hours),
        mode="lines",
        line={"color": palette.GREY, "width": 2, "dash": "dash"},
        name=_("GPUs on average"),
        hovertemplate=_("{n} GPUs on average").format(n=sig(day.average_gpus)) + "<extra></extra>",
    )
    figure.add_scatter(
        x=hours,
        y=list(day.hourly_rps),
        mode="lines+markers",
        line={"color": palette.AMBER, "width": 2.5},
        marker={"size": 5},
        yaxis="y2",
        name=_("Requests per second"),
        customdata=[[f"{h:02d}:00", sig(r)] for h, r in zip(hours, day.hourly_rps, strict=True)],
        hovertemplate=_("{hour}: {n} requests/s").format(hour="%{customdata[0]}", n="%{customdata[1]}")
        + "<extra></extra>",
    )
    figure.update_xaxes(title_text=_("Hour of the day"), dtick=3, showgrid=False)
    figure.update_yaxes(title_text=_("GPUs"), rangemode="tozero")
    finish(figure, DAY_PX)
    figure.update_layout(
        yaxis2={
            "title": {"text": _("Requests per second")},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "tickmode": "auto",
            "nticks": 5,
            "showgrid": False,
            "automargin": True,
        }
    )
    return figure


def recovery_parts() -> dict[str, tuple[str, str]]:
    """Field of the recovery -> its name and colour, in the order of time."""
    return {
        "detection_s": (_("noticing"), palette.GREY),
        "restart_s": (_("restart"), palette.SKY),
        "weights_s": (_("weights"), palette.BLUE),
        "warm_up_s": (_("warm-up"), palette.GREEN),
        "graphs_s": (_("CUDA graphs"), palette.AMBER),
        "reprefill_s": (_("lost requests again"), palette.PINK),
    }


def recovery_figure(recovery: RecoveryPlan) -> go.Figure:
    """One bar, part after part."""
    figure = go.Figure()
    for field, (name, colour) in recovery_parts().items():
        seconds = getattr(recovery, field)
        if seconds:
            figure.add_bar(
                x=[seconds],
                y=[""],
                orientation="h",
                marker={"color": colour},
                name=name,
                text=duration(1e3 * seconds),
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                hovertemplate=pair(name, duration(1e3 * seconds)) + "<extra></extra>",
            )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text=_("Seconds after the failure"), rangemode="tozero")
    figure.update_yaxes(showticklabels=False)
    return finish(figure, RECOVERY_PX)

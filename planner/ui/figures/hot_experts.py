"""What uneven use of experts does to the fullest rank and to the step, with and without copies of hot experts."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import duration, sig
from planner.ui.sections.layout_data import HotExperts
from planner.ui.text import pair

HEIGHT = 470


def hot_experts_lines(hot: HotExperts, chosen: float) -> go.Figure:
    """Above: tokens of the fullest rank over the mean. Below: decode step. Both by the experts' unevenness."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    rows = (
        (1, hot.plain, hot.copies, lambda v: sig(v)),
        (2, hot.plain_ms, hot.copies_ms, lambda v: duration(v)),
    )
    for row, plain, copies, write in rows:
        for values, name, colour, dash in (
            (plain, _("no copies"), palette.VERMILION, "solid"),
            (copies, _("{n} copies of hot experts").format(n=hot.redundant), palette.GREEN, "dash"),
        ):
            figure.add_scatter(
                x=hot.skew,
                y=values,
                mode="lines",
                name=name,
                showlegend=row == 1,
                line={"color": colour, "width": 3, "dash": dash},
                customdata=[write(float(v)) for v in values],
                hovertemplate=f"<b>{name}</b><br>" + pair("%{x:.2f}", "%{customdata}") + "<extra></extra>",
                row=row,
                col=1,
            )
    figure.add_vline(x=chosen, line={"color": palette.SKY, "width": 2, "dash": "dot"})
    figure.update_xaxes(title_text=_("Unevenness of experts (CV)"), row=2, col=1)
    figure.update_yaxes(title_text=_("fullest / mean"), rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text=_("decode step, ms"), rangemode="tozero", row=2, col=1)
    return finish(figure, HEIGHT)

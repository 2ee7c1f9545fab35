"""What ranks send: bytes by kind and tier, and the matrix of who sends to whom."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import sig
from planner.ui.sections.layout_data import Sent
from planner.ui.text import label
from planner.units import MIB

ROW_PX, FRAME_PX = 40, 110
MATRIX_PX = 430
SINGLY = 16
"""Ranks up to which each one is named on the axes of the matrix."""
TIER = {"scale_up": palette.GREEN, "network": palette.PINK}


def kinds() -> dict[str, str]:
    """Kinds of communication in words."""
    return {
        "tp_all_reduce": _("Sums of slices (TP all-reduce)"),
        "moe_gather": _("Tokens gathered around experts"),
        "moe_dispatch": _("Tokens to experts (dispatch)"),
        "moe_combine": _("Expert outputs back (combine)"),
        "pp_send": _("To the next stage (PP)"),
    }


def tiers() -> dict[str, str]:
    """Tiers of the fabric in words."""
    return {"scale_up": _("inside the fast domain"), "network": _("over the network")}


def traffic_bars(sent: tuple[Sent, ...]) -> go.Figure:
    """MiB that one GPU sends in a step, by kind, stacked by tier."""
    figure = go.Figure()
    names = [label(kinds()[s.kind]) for s in sent]
    for tier, words in tiers().items():
        values = [getattr(s, tier) / MIB for s in sent]
        if not any(values):
            continue
        figure.add_bar(
            orientation="h",
            y=names,
            x=values,
            name=label(words),
            marker={"color": TIER[tier]},
            customdata=[[sig(v)] for v in values],
            hovertemplate="<b>%{y}</b><br>%{customdata[0]} MiB " + label(words) + "<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_xaxes(title_text=_("MiB sent by one GPU in a step"), rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    return finish(figure, FRAME_PX + ROW_PX * len(sent))


def traffic_heatmap(matrix: NDArray[np.float64], domain: int) -> go.Figure:
    """Who sends to whom, MiB per step on a logarithmic colour scale; lines between fast domains."""
    size = matrix.shape[0]
    mib = matrix / MIB
    shown = np.where(mib > 0, np.log10(np.maximum(mib, 1e-9)), np.nan)
    figure = go.Figure()
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    ticks = np.arange(np.ceil(low), np.floor(high) + 1) if high - low >= 1 else np.unique([low, high])
    figure.add_heatmap(
        z=shown,
        x=list(range(size)),
        y=list(range(size)),
        zmin=low - (0.5 if high - low < 0.1 else 0.0),
        zmax=high,
        colorscale="Cividis",
        customdata=mib,
        hovertemplate=_("rank %{y} → rank %{x}: %{customdata:.3g} MiB") + "<extra></extra>",
        colorbar={
            "title": {"text": "MiB", "side": "top"},
            "tickvals": ticks.tolist(),
            "ticktext": [sig(10.0**t) for t in ticks],
            "thickness": 12,
            "len": 0.9,
        },
    )
    if domain < size:
        low_end, high_end = -0.5, size - 0.5
        figure.update_layout(
            shapes=[
                {"type": "line", "line": {"color": palette.GREY, "width": 1}, **ends}
                for at in (edge - 0.5 for edge in range(domain, size, domain))
                for ends in (
                    {"x0": at, "x1": at, "y0": low_end, "y1": high_end},
                    {"y0": at, "y1": at, "x0": low_end, "x1": high_end},
                )
            ]
        )
    steps = {"tick0": 0, "dtick": 1} if size <= SINGLY else {}
    figure.update_xaxes(title_text=_("to rank"), constrain="domain", showgrid=False, **steps)
    figure.update_yaxes(title_text=_("from rank"), autorange="reversed", showgrid=False, **steps)
    return finish(figure, MATRIX_PX)

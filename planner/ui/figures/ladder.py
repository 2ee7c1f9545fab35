"""The ladder as bars: output per GPU, rung by rung."""

from __future__ import annotations

import plotly.graph_objects as go

from planner.search.ladder import REPLICAS, Ladder
from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import sig
from planner.ui.text import label, pair, wrapped

RUNGS = 6
"""Most rungs of a ladder."""
ROW_PX, FRAME_PX = 34, 90


def rung_name(name: str) -> str:
    """A rung's name in the language in use."""
    names = {
        "one replica, fixed concurrency": _("one worker, fixed batches"),
        "continuous batching": _("continuous batching"),
        "prefix cache": _("prefix cache"),
        "EP overlap": _("expert parallelism with overlap"),
        "P/D split": _("separate prefill and decode pools"),
        f"{REPLICAS} replicas, prefix-aware routing": _("{n} copies, prefix-aware routing").format(n=REPLICAS),
    }
    return names.get(name, name)


def ladder_figure(found: Ladder) -> go.Figure:
    """One bar a rung, the first on top."""
    names = [rung_name(r.name) for r in found.rungs]
    values = [r.tokens_per_s_per_gpu for r in found.rungs]
    figure = go.Figure()
    figure.add_bar(
        x=values,
        y=[wrapped(name, 24) for name in names],
        orientation="h",
        marker={"color": palette.BLUE},
        text=[sig(v) for v in values],
        textposition="auto",
        customdata=[[label(r.deployment)] for r in found.rungs],
        hovertemplate=pair("%{y}", "%{text}") + "<br>%{customdata[0]}<extra></extra>",
        showlegend=False,
    )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text=_("Output tokens per second and GPU"), rangemode="tozero")
    return finish(figure, FRAME_PX + ROW_PX * len(names))

"""What the nearest misses need against what there is."""

from __future__ import annotations

import plotly.graph_objects as go

from planner.search.plan_schema import NearestMiss
from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import quantity
from planner.ui.text import label, pair, sentence, wrapped
from planner.ui.words import node_label

ROW_PX, FRAME_PX = 40, 120


def comparable(misses: tuple[NearestMiss, ...]) -> list[NearestMiss]:
    """The misses that one axis can hold: those with numbers in the unit of the first."""
    known = [m for m in misses if m.needed is not None and m.available is not None]
    return [m for m in known if (m.unit, m.reason) == (known[0].unit, known[0].reason)]


def misses_bar(misses: tuple[NearestMiss, ...]) -> go.Figure | None:
    """Needed as bars, available as a mark on each; None where nothing can be compared."""
    rows = comparable(misses)
    if not rows:
        return None
    names = [f"{i}. {_name(m)}" for i, m in enumerate(rows, start=1)]
    figure = go.Figure()
    figure.add_bar(
        orientation="h",
        y=names,
        x=[m.needed for m in rows],
        name=_("needed"),
        marker={"color": palette.BLUE},
        text=[quantity(m.needed, m.unit) for m in rows],
        textposition="outside",
        cliponaxis=False,
        hovertext=[wrapped(sentence(m.text)) for m in rows],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.add_scatter(
        x=[m.available for m in rows],
        y=names,
        mode="markers",
        name=_("available"),
        marker={
            "symbol": "line-ns",
            "size": 26,
            "color": palette.LIMIT,
            "line": {"width": 4, "color": palette.LIMIT},
        },
        hovertext=[label(pair(_("available"), quantity(m.available, m.unit))) for m in rows],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.update_yaxes(autorange="reversed")
    # room for the number behind the longest bar, on a phone as well
    longest = max(max(m.needed or 0.0, m.available or 0.0) for m in rows)
    figure.update_xaxes(title_text=label(rows[0].unit or ""), range=[0.0, 1.3 * longest])
    figure.update_layout(bargap=0.35)
    return finish(figure, FRAME_PX + ROW_PX * len(rows))


def _name(m: NearestMiss) -> str:
    return label(f"{node_label(m.node)}, {m.layout.describe()}")

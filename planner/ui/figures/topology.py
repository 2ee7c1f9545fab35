"""One worker drawn on its nodes: GPUs as squares in the colour of their group, their NICs below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from planner.layout.placement import Placement
from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import count
from planner.ui.sections.layout_data import group_of
from planner.ui.text import label

NODES_ACROSS = 4
SMALL_NODE, SMALL_ROW, LARGE_ROW = 8, 4, 12
"""GPUs of a node that stand in rows of four; larger ones (racks) in rows of twelve."""
GAP = 1.0
ROW_PX, FRAME_PX = 40, 70
CODES = len(palette.SERIES)


@dataclass(frozen=True)
class _Grid:
    """Where nodes and GPUs stand, in units of a GPU's square; y grows downwards."""

    across: int
    node_width: int
    node_rows: int

    def node(self, index: int) -> tuple[float, float]:
        return (
            (index % self.across) * (self.node_width + GAP),
            (index // self.across) * (self.node_rows + GAP + 0.6),
        )

    def gpu(self, node: int, gpu: int) -> tuple[float, float]:
        x, y = self.node(node)
        return x + gpu % self.node_width, y + gpu // self.node_width + 0.6


def topology(placed: Placement, kind: str, kind_name: str, experts: Mapping[int, str] | None = None) -> go.Figure:
    """Ranks of one worker in the colour of their group of ``kind``; ``experts`` adds a line to a rank's hover text."""
    shape = placed.node_type
    nodes = int(placed.node.max()) + 1
    row = SMALL_ROW if shape.gpus <= SMALL_NODE else LARGE_ROW
    grid = _Grid(min(nodes, NODES_ACROSS if row == SMALL_ROW else 1), min(row, shape.gpus), -(-shape.gpus // row))
    figure = go.Figure()
    _nodes(figure, grid, nodes, shape.id)
    _idle(figure, grid, placed, nodes)
    groups = group_of(placed, kind)
    many = int(groups.max()) + 1
    columns = grid.across * (grid.node_width + GAP)
    size = 22 if columns <= 10 else 17
    for code in range(min(many, CODES)):
        ranks = np.flatnonzero(groups % CODES == code)
        colour, _symbol = palette.series(code)
        spots = [grid.gpu(int(placed.node[r]), int(placed.gpu[r])) for r in ranks]
        figure.add_scatter(
            x=[p[0] for p in spots],
            y=[p[1] for p in spots],
            mode="markers+text",
            marker={"symbol": "square", "size": size, "color": colour, "line": {"width": 1, "color": "white"}},
            text=[str(int(r)) for r in ranks],
            textfont={"size": 10 if size > 18 else 8, "color": _ink(colour)},
            name=_("{kind} {number}").format(kind=label(kind_name), number=code),
            customdata=[_hover(placed, int(r), kind_name, int(groups[r]), experts) for r in ranks],
            hovertemplate="%{customdata}<extra></extra>",
            showlegend=1 < many <= CODES,
        )
    bottom = max(grid.node(n)[1] for n in range(nodes)) + grid.node_rows + 0.6
    figure.update_xaxes(visible=False, range=[-0.9, columns - GAP + 0.1], fixedrange=True)
    figure.update_yaxes(visible=False, range=[bottom, -0.6], fixedrange=True)
    return finish(figure, round(FRAME_PX + ROW_PX * (bottom + 0.6)))


def _ink(colour: str) -> str:
    """Black on light colours, white on dark ones."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"


def _nodes(figure: go.Figure, grid: _Grid, nodes: int, node_type: str) -> None:
    for n in range(nodes):
        x, y = grid.node(n)
        figure.add_shape(
            type="rect",
            x0=x - 0.7,
            x1=x + grid.node_width - 0.3,
            y0=y - 0.5,
            y1=y + grid.node_rows + 0.35,
            line={"color": palette.GREY, "width": 1},
            fillcolor="rgba(138,138,138,0.10)",
            layer="below",
        )
        figure.add_annotation(
            x=x - 0.6,
            y=y - 0.5,
            text=_("node {n}").format(n=n),
            hovertext=label(node_type),
            showarrow=False,
            xanchor="left",
            yanchor="top",
            font={"size": 10, "color": palette.GREY},
        )


def _idle(figure: go.Figure, grid: _Grid, placed: Placement, nodes: int) -> None:
    """GPUs of the nodes that this worker leaves to others."""
    used = set(zip(placed.node.tolist(), placed.gpu.tolist(), strict=True))
    free = [(n, g) for n in range(nodes) for g in range(placed.node_type.gpus) if (n, g) not in used]
    if not free:
        return
    spots = [grid.gpu(*f) for f in free]
    figure.add_scatter(
        x=[p[0] for p in spots],
        y=[p[1] for p in spots],
        mode="markers",
        marker={"symbol": "square-open", "size": 14, "color": palette.GREY},
        name=_("not this worker's"),
        customdata=[[n, g] for n, g in free],
        hovertemplate=_("node %{customdata[0]}, GPU %{customdata[1]}: free for another worker") + "<extra></extra>",
    )


def _hover(placed: Placement, r: int, kind_name: str, group: int, experts: Mapping[int, str] | None) -> str:
    at = placed.coordinates
    lines = [
        "<b>" + _("rank {r}").format(r=r) + "</b>",
        _("node {node}, GPU {gpu}").format(node=int(placed.node[r]), gpu=int(placed.gpu[r])),
        _("NIC and rail {nic}").format(nic=int(placed.nic[r])) if placed.nic is not None else _("NICs not sourced"),
        _("group {group} of {kind}").format(group=group, kind=label(kind_name)),
        f"TP {int(at['tp'][r])} · DP {int(at['attention_dp'][r])} · EP {int(at['ep'][r])} · PP {int(at['pp'][r])}",
    ]
    if experts:
        lines.append(label(experts.get(int(at["ep"][r]), "")))
    return "<br>".join(lines)


def legend_note(groups: int) -> str | None:
    """Said where colours repeat."""
    if groups <= CODES:
        return None
    return _("{n} groups: colours repeat after {codes}; hover for the group.").format(n=count(groups), codes=CODES)

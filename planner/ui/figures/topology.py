"""One worker drawn on its nodes: GPUs as squares in the colour of their group, their NICs below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

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
ROW_PX, FRAME_PX = 30, 60
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
            (index // self.across) * (self.node_rows + 1.6),
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
    columns = grid.across * (grid.node_width + GAP)
    _gpus(figure, grid, placed, groups, [_hover(placed, r, kind_name, int(g), experts) for r, g in enumerate(groups)])
    _nics(figure, grid, placed, nodes)
    bottom = max(grid.node(n)[1] for n in range(nodes)) + grid.node_rows + 0.7
    figure.update_xaxes(visible=False, range=[-0.9, columns - GAP + 0.1], fixedrange=True)
    figure.update_yaxes(visible=False, range=[bottom, -0.6], fixedrange=True)
    return finish(figure, round(FRAME_PX + ROW_PX * (bottom + 0.6)))


def _gpus(figure: go.Figure, grid: _Grid, placed: Placement, groups: NDArray[np.int64], hover: list[str]) -> None:
    """Ranks as cells that grow with the figure; the number is the rank."""
    spots = [grid.gpu(int(n), int(g)) for n, g in zip(placed.node, placed.gpu, strict=True)]
    colours = [palette.series(code)[0] for code in range(CODES)]
    # All at once: shapes added one by one are each checked with all before them.
    squares = [
        {
            "type": "rect",
            "x0": x - 0.44,
            "x1": x + 0.44,
            "y0": y - 0.42,
            "y1": y + 0.42,
            "line": {"width": 0},
            "fillcolor": colours[int(groups[r]) % CODES],
            "layer": "below",
        }
        for r, (x, y) in enumerate(spots)
    ]
    figure.update_layout(shapes=[*figure.layout.shapes, *squares])
    figure.add_scatter(
        x=[p[0] for p in spots],
        y=[p[1] for p in spots],
        mode="markers+text",
        marker={"symbol": "square", "size": 14, "opacity": 0.0},
        text=[str(r) for r in range(len(spots))],
        textfont={
            "size": 10 if grid.across * grid.node_width <= 8 else 8,
            "color": [_ink(colours[int(g) % CODES]) for g in groups],
        },
        customdata=hover,
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )


def _nics(figure: go.Figure, grid: _Grid, placed: Placement, nodes: int) -> None:
    """NICs along the lower edge of each node."""
    count_ = placed.node_type.nics
    if not count_:
        return
    x, y, texts = [], [], []
    for n in range(nodes):
        left, top = grid.node(n)
        for nic in range(count_):
            x.append(left - 0.5 + (nic + 0.5) * grid.node_width / count_)
            y.append(top + grid.node_rows + 0.3)
            texts.append(_("node {node}, NIC {nic}: rail {nic}").format(node=n, nic=nic))
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers",
        marker={"symbol": "diamond", "size": 6, "color": palette.GREY},
        name=_("NIC"),
        customdata=texts,
        hovertemplate="%{customdata}<extra></extra>",
    )


def _ink(colour: str) -> str:
    """Black on light colours, white on dark ones."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"


def _nodes(figure: go.Figure, grid: _Grid, nodes: int, node_type: str) -> None:
    corners = [grid.node(n) for n in range(nodes)]
    frames = [
        {
            "type": "rect",
            "x0": x - 0.7,
            "x1": x + grid.node_width - 0.3,
            "y0": y - 0.5,
            "y1": y + grid.node_rows + 0.55,
            "line": {"color": palette.GREY, "width": 1},
            "fillcolor": "rgba(138,138,138,0.10)",
            "layer": "below",
        }
        for x, y in corners
    ]
    names = [
        {
            "x": x - 0.6,
            "y": y - 0.5,
            "text": _("node {n}").format(n=n),
            "hovertext": label(node_type),
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 10, "color": palette.GREY},
        }
        for n, (x, y) in enumerate(corners)
    ]
    figure.update_layout(shapes=frames, annotations=names)


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
        marker={"symbol": "square-open", "size": 11, "color": palette.GREY},
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

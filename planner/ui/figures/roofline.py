"""The accelerator's roof, and where the operators of a plan's steps stand under it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from planner.ui import palette
from planner.ui.figures.common import finish, tick_format
from planner.ui.figures.placing import Mark, places
from planner.ui.i18n import _
from planner.ui.numbers import duration, percent, sig
from planner.ui.sections.layout_data import OperatorPoint
from planner.ui.text import label
from planner.ui.words import bounds, phases, term_name
from planner.units import TERA

HEIGHT = 480
NAMED = 3
"""Operators of a phase that are named in the figure on average, largest first; hovering names all."""
DASHES = ("solid", "dash", "dot", "dashdot")


def roofline(points: tuple[OperatorPoint, ...], peaks: Mapping[str, float], bandwidth: float) -> go.Figure:
    """TFLOP/s (log) by FLOPs per byte (log). ``peaks`` in FLOP/s by data type, ``bandwidth`` in B/s."""
    figure = go.Figure()
    used = {k: v for k, v in peaks.items() if k in {p.compute for p in points}} or dict(peaks)
    x = [p.intensity for p in points]
    left = min([*x, 1.0]) / 2
    right = max([*x, *(peak / bandwidth for peak in used.values())]) * 3
    roofs: list[list[tuple[float, float]]] = []
    for dash, (kind, peak) in zip(DASHES, sorted(used.items(), key=lambda kv: kv[1]), strict=False):
        ridge = peak / bandwidth
        roofs.append([(left, left * bandwidth / TERA), (ridge, peak / TERA), (right, peak / TERA)])
        figure.add_scatter(
            x=[at for at, _up in roofs[-1]],
            y=[up for _at, up in roofs[-1]],
            mode="lines",
            line={"color": palette.GREY, "width": 2, "dash": dash},
            name=_("roof, {kind}").format(kind=label(kind)),
            hovertemplate=_("{kind}: {peak} TFLOP/s, {bw} TB/s, ridge at {ridge} FLOP/B").format(
                kind=label(kind), peak=sig(peak / TERA), bw=sig(bandwidth / TERA), ridge=sig(ridge)
            )
            + "<extra></extra>",
        )
    lowest = min([p.flops_per_s / TERA for p in points], default=1.0)
    top = max(used.values()) / TERA
    across = (float(np.log10(left)), float(np.log10(right)))
    up = (float(np.log10(min(lowest, top / 100) / 2)), float(np.log10(top * 2)))
    ordered = sorted(points, key=lambda p: -p.share)
    named = _names(ordered, roofs, across, up)
    for phase in dict.fromkeys(p.phase for p in points):
        members = sorted((p for p in points if p.phase == phase), key=lambda p: -p.ms)
        _phase(figure, members, phase, named)
    _key(figure, points)
    figure.update_xaxes(
        title_text=_("FLOPs per byte moved"), type="log", tickformat=_ticks(across), dtick=1, range=across
    )
    figure.update_yaxes(title_text=_("TFLOP/s of one GPU"), type="log", tickformat=_ticks(up), dtick=1, range=up)
    return finish(figure, HEIGHT)


def _ticks(logarithms: tuple[float, float]) -> str:
    return tick_format([10.0**end for end in logarithms])


Range = tuple[float, float]
"""Logarithms of both ends of an axis."""


def _names(
    ordered: list[OperatorPoint], roofs: list[list[tuple[float, float]]], across: Range, up: Range
) -> dict[tuple[str, str], tuple[str, str]]:
    """(phase, term) -> name and its position, for the marks that take most of their step and stand clear."""

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            (float(np.log10(max(x, 1e-12))) - across[0]) / (across[1] - across[0]),
            (float(np.log10(max(y, 1e-12))) - up[0]) / (up[1] - up[0]),
        )

    many: dict[str, int] = {}
    marks = []
    for p in ordered:
        many[p.phase] = many.get(p.phase, 0) + 1
        name = term_name(p.term) if many[p.phase] <= 2 * NAMED else ""
        marks.append(Mark(place(p.intensity, p.flops_per_s / TERA), _size_px(p), name))
    found = places(marks, [[place(x, y) for x, y in roof] for roof in roofs], 2 * NAMED)
    return {(ordered[i].phase, ordered[i].term): (marks[i].name, position) for i, position in found.items()}


def _size_px(p: OperatorPoint) -> float:
    return 9.0 + 22.0 * p.share**0.5


def _phase(
    figure: go.Figure, members: list[OperatorPoint], phase: str, named: dict[tuple[str, str], tuple[str, str]]
) -> None:
    names = [named.get((p.phase, p.term), ("", "top center")) for p in members]
    figure.add_scatter(
        x=[p.intensity for p in members],
        y=[p.flops_per_s / TERA for p in members],
        mode="markers+text",
        marker={
            "symbol": _symbol(phase),
            "size": [_size_px(p) for p in members],
            "color": [palette.BOUND.get(p.bound or "", palette.UNKNOWN) for p in members],
            "opacity": 0.85,
            "line": {"width": 1, "color": "white"},
        },
        text=[label(name) for name, _position in names],
        textposition=[position for _name, position in names],
        textfont={"size": 11},
        showlegend=False,
        customdata=[_hover(p) for p in members],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _symbol(phase: str) -> str:
    return "circle" if phase == "decode" else "square"


def _key(figure: go.Figure, points: tuple[OperatorPoint, ...]) -> None:
    """What shapes and colours stand for, as marks that only the legend shows."""
    entries = [(phases()[p], _symbol(p), palette.GREY) for p in dict.fromkeys(p.phase for p in points)]
    entries += [
        (bounds()[b], "diamond", palette.BOUND.get(b, palette.UNKNOWN))
        for b in dict.fromkeys(p.bound for p in points)
        if b
    ]
    for name, symbol, colour in entries:
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=label(name), marker={"symbol": symbol, "size": 10, "color": colour}
        )


def _hover(p: OperatorPoint) -> str:
    lines = [
        f"<b>{label(term_name(p.term))}</b> · {label(phases()[p.phase])}",
        _("{ms}, {share} of the step").format(ms=duration(p.ms), share=percent(p.share)),
        _("{flops} TFLOP/s at {intensity} FLOP/B").format(flops=sig(p.flops_per_s / TERA), intensity=sig(p.intensity)),
    ]
    if p.bound:
        lines.append(_("Limited by {bound}").format(bound=label(bounds()[p.bound])))
    lines.append(_("{share} of the roof").format(share=percent(p.of_roof)))
    return "<br>".join(lines)

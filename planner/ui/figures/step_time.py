"""Where the time of a step goes: operators one after another on the critical path, and what they hide."""

from __future__ import annotations

import plotly.graph_objects as go

from planner.search.plan_schema import Candidate, Phase, Term
from planner.ui import palette
from planner.ui.figures.common import finish
from planner.ui.i18n import _
from planner.ui.numbers import duration, percent
from planner.ui.text import label
from planner.ui.words import bounds, term_name

SMALLEST_SHARE = 0.01
"""Terms below this part of the step, hidden time included, are drawn as one."""
ROW_PX, FRAME_PX = 24, 150


def step_time(candidate: Candidate, phase: Phase) -> go.Figure:
    """A waterfall of one kind of step, in the order of the plan's terms; x is milliseconds.

    Solid: exposed time, which the step waits for. Hatched, behind it: time hidden behind other work.
    """
    terms = drawn_terms(candidate, phase)
    step = candidate.breakdown.step_ms.get(phase) or sum(t.exposed_ms for t in terms)
    starts = _starts(terms)
    figure = go.Figure()
    for bound in dict.fromkeys(t.bound for t in terms):
        rows = [(t, s) for t, s in zip(terms, starts, strict=True) if t.bound == bound]
        figure.add_bar(
            orientation="h",
            y=[_row(t) for t, _s in rows],
            x=[t.exposed_ms for t, _s in rows],
            base=[s for _t, s in rows],
            name=label(bounds()[bound]) if bound else _("several"),
            marker={"color": palette.BOUND[bound] if bound else palette.UNKNOWN},
            text=[_hover(t, step) for t, _s in rows],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    _hidden(figure, terms, starts, step)
    figure.update_layout(barmode="overlay", bargap=0.25)
    figure.update_yaxes(
        categoryorder="array", categoryarray=[_row(t) for t in terms], autorange="reversed", title_text=None
    )
    figure.update_xaxes(title_text=_("Milliseconds"), rangemode="tozero")
    return finish(figure, FRAME_PX + ROW_PX * max(len(terms), 6), legend_title=_("limited by"))


def drawn_terms(candidate: Candidate, phase: Phase) -> list[Term]:
    """The phase's terms in the plan's order; those too small to see are summed up at the end."""
    terms = [t for t in candidate.breakdown.terms if t.phase == phase]
    total = sum(t.exposed_ms for t in terms) or 1.0
    large = [t for t in terms if t.exposed_ms + t.hidden_ms >= SMALLEST_SHARE * total]
    small = [t for t in terms if t not in large]
    if len(small) < 2:
        return terms
    rest = Term(
        phase=phase,
        term=_("{n} smaller terms").format(n=len(small)),
        exposed_ms=sum(t.exposed_ms for t in small),
        hidden_ms=sum(t.hidden_ms for t in small),
        share=sum(t.share for t in small),
        bound=None,
    )
    return [*large, rest]


def _starts(terms: list[Term]) -> list[float]:
    at, out = 0.0, []
    for t in terms:
        out.append(at)
        at += t.exposed_ms
    return out


def _row(term: Term) -> str:
    return label(term_name(term.term))


def _hidden(figure: go.Figure, terms: list[Term], starts: list[float], step: float) -> None:
    rows = [(t, s) for t, s in zip(terms, starts, strict=True) if t.hidden_ms > 0]
    if not rows:
        return
    figure.add_bar(
        orientation="h",
        y=[_row(t) for t, _s in rows],
        x=[t.hidden_ms for t, _s in rows],
        base=[s + t.exposed_ms for t, s in rows],
        name=_("hidden"),
        marker={
            "color": "rgba(138,138,138,0.18)",
            "line": {"color": palette.GREY, "width": 1},
            "pattern": {"shape": "/", "fgcolor": palette.GREY, "size": 6},
        },
        text=[_hover(t, step) for t, _s in rows],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
    )


def _hover(t: Term, step: float) -> str:
    lines = [
        f"<b>{_row(t)}</b>",
        _("Exposed: {ms} ({share} of the step)").format(
            ms=duration(t.exposed_ms), share=percent(t.exposed_ms / step if step else t.share)
        ),
        _("Hidden behind other work: {ms}").format(ms=duration(t.hidden_ms) if t.hidden_ms else _("nothing")),
    ]
    if t.bound:
        lines.append(_("Limited by {bound}").format(bound=label(bounds()[t.bound])))
    return "<br>".join(lines)

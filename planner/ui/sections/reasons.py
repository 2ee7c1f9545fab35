"""Why the others fail, what comes nearest, what was assumed, how near the evidence is."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from planner.search.plan_schema import Candidate, Mark, NearestMiss, Plan, Rejection
from planner.ui import state
from planner.ui.figures.common import CONFIG
from planner.ui.figures.misses import misses_bar
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import count, quantity, sig
from planner.ui.remedies import remedies
from planner.ui.text import listed, lowered, plain, sentence
from planner.ui.words import node_label, operators, reason_name, servings, subject_name, term_name

_CURVE = "operator curve "
SHOWN = 4
"""Reasons and marks shown at once; the rest is one click away."""


def show_rejections(plan: Plan) -> None:
    """One sentence a reason, most frequent first."""
    if not plan.rejected:
        return
    st.subheader(_("Why others fail"), anchor=False)
    tried = _("{evaluated} combinations of layout and load were tried, {feasible} hold every limit.")
    if plan.evaluated:
        st.caption(tried.format(evaluated=count(plan.evaluated), feasible=count(plan.feasible)))
    ordered = sorted(plan.rejected, key=lambda r: -r.count)
    for i, one in enumerate(ordered[:SHOWN]):
        _rejection(plan, one, i)
    rest = ordered[SHOWN:]
    if rest:
        more = ngettext("{n} more reason", "{n} more reasons", len(rest)).format(n=len(rest))
        with st.expander(more, key="more.rejected"):
            for i, one in enumerate(rest, start=SHOWN):
                _rejection(plan, one, i)


def _rejection(plan: Plan, one: Rejection, place: int) -> None:
    st.markdown(rejection(one))
    _buttons(plan, one, f"rejected.{place}")


def _buttons(plan: Plan, refused: Rejection | NearestMiss, key: str, said: set[str] | None = None) -> None:
    """One button a remedy: the scenario changes only when it is pressed. Those in ``said`` are not offered again, and
    those offered are added to it.
    """
    offered = [r for r in remedies(plan.scenario, refused) if said is None or r.label not in said]
    if said is not None:
        said.update(r.label for r in offered)
    if not offered:
        return
    with st.container(horizontal=True, gap="small"):
        for i, remedy in enumerate(offered):
            st.button(
                _("Try: {change}").format(change=plain(remedy.label)),
                key=f"remedy.{key}.{i}",
                on_click=state.put,
                args=(dict(remedy.values),),
                icon=":material/build:",
                type="tertiary",
            )


def _some(items: list[str], more: str, key: str) -> None:
    """A list, its tail folded away under ``more`` (with {n})."""
    st.markdown("\n".join(items[:SHOWN]))
    if len(items) > SHOWN:
        with st.expander(more.format(n=len(items) - SHOWN), key=f"more.{key}"):
            st.markdown("\n".join(items[SHOWN:]))


def rejection(r: Rejection) -> str:
    """A reason as sentences, safe for Markdown."""
    parts = [
        ngettext("**{reason}** ({n} time).", "**{reason}** ({n} times).", r.count).format(
            reason=plain(reason_name(r.reason)), n=count(r.count)
        ),
        _("Nearest: {text}").format(text=plain(sentence(r.example))),
    ]
    numbers = need(r)
    if numbers and not says(r.example, r.needed):
        parts.append(numbers)
    if r.fix:
        parts.append(_("What would help: {fix}").format(fix=plain(sentence(r.fix))))
    return "- " + " ".join(parts).replace("。 ", "。")


def need(r: Rejection | NearestMiss) -> str:
    """Needed and available in one sentence, safe for Markdown; empty where the numbers are not known."""
    if r.needed is None or r.available is None:
        return ""
    return _("Needed {needed}, available {available}.").format(
        needed=plain(quantity(r.needed, r.unit)), available=plain(quantity(r.available, r.unit))
    )


def says(text: str, value: float | None) -> bool:
    """Whether ``text`` gives ``value`` already, to two or more digits."""
    if value is None:
        return False
    written = {sig(value), sig(value, 2), sig(value, 4), f"{value:g}", f"{value:,.0f}", f"{value:.1f}"}
    return any(w in text for w in written)


def show_misses(plan: Plan) -> None:
    """What almost serves the scenario, and the change that would make it do so."""
    if not plan.nearest_misses:
        return
    st.subheader(_("What comes nearest"), anchor=False)
    said: set[str] = set()
    for i, m in enumerate(plan.nearest_misses, start=1):
        with st.container(border=True):
            st.markdown(
                f"**{i}. {plain(node_label(m.node))} · {plain(m.layout.describe())} · {plain(servings()[m.serving])}**"
            )
            st.markdown(f"{plain(sentence(m.text))} {'' if says(m.text, m.needed) else need(m)}")
            if m.fix and m.fix not in said:
                st.markdown(_(":material/build: **What would help:** {fix}").format(fix=plain(sentence(m.fix))))
            _buttons(plan, m, f"miss.{i}", said)
            said.add(m.fix or "")
    figure = misses_bar(plan.nearest_misses)
    if figure is not None:
        st.plotly_chart(figure, config=CONFIG, key="misses", alt=_("Needed and available of the nearest misses"))


def show_evidence(candidate: Candidate) -> None:
    """How near measured runs are, and each number that stands on weaker ground."""
    evidence = candidate.evidence
    st.subheader(
        _("How certain"),
        help=_("Intervals come from errors against measured runs; outside of what was measured they are wider."),
        anchor=False,
    )
    if evidence.distance:
        st.markdown(plain(sentence(evidence.distance)))
    if evidence.extrapolated or evidence.marks:
        st.warning(_("Some numbers stand on weaker ground than the rest."), icon=":material/trending_flat:")
    lines = [f"- **{plain(name)}**: {plain(sentence(text))}" for name, text in grouped_marks(evidence.marks)]
    if lines:
        _some(lines, ngettext("{n} more", "{n} more", len(lines) - SHOWN), "marks")
    if not (evidence.distance or evidence.marks or evidence.extrapolated):
        st.caption(_("Nothing about this candidate is marked as extrapolated."))


def grouped_marks(marks: Iterable[Mark]) -> list[tuple[str, str]]:
    """(what, why) of marks; operators that are marked for the same reason are named together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for mark in marks:
        kind, _space, operator = mark.subject.partition(_CURVE)
        name = operator.split(" ")[0] if _space and not kind else ""
        if name and mark.text.startswith(f"{name} "):
            why = mark.text[len(name) + 1 :].removeprefix("was ")
            groups.setdefault((_CURVE, why), []).append(lowered(operators().get(name, term_name(name))))
        else:
            groups.setdefault((mark.subject, mark.text), []).append(subject_name(mark.subject))
    return [
        (_("Times of {names}").format(names=listed(dict.fromkeys(names))) if kind == _CURVE else names[0], why)
        for (kind, why), names in groups.items()
    ]


def show_assumptions(plan: Plan) -> None:
    """Every assumption, and the versions that the numbers were made with."""
    st.subheader(_("Assumed"), anchor=False)
    if plan.assumptions:
        st.markdown("\n".join(f"- {plain(sentence(a))}" for a in plan.assumptions))
    else:
        st.caption(_("Nothing was assumed beyond the scenario."))
    v = plan.versions
    st.caption(
        _("Planner {planner} · catalogue {catalogue} · coefficients {coefficients}").format(
            planner=plain(v.planner), catalogue=plain(v.catalogue), coefficients=plain(v.coefficients)
        )
    )

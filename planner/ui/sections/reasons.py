"""Why the others fail, what comes nearest, what was assumed, how near the evidence is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.scenario.schema import Scenario
from planner.search.better import asked_for
from planner.search.plan_schema import Candidate, Mark, NearestMiss, Plan, Rejection
from planner.ui import state
from planner.ui.answers import quiet_answer
from planner.ui.figures.common import CONFIG
from planner.ui.figures.misses import misses_bar
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import count, dollars, duration, quantity, sig
from planner.ui.remedies import Remedy, limited, proven, proven_better, remedies, with_values
from planner.ui.text import listed, lowered, pair, plain, sentence
from planner.ui.words import node_label, objectives, operators, reason_name, servings, subject_name, term_name

_CURVE = "operator curve "
SHOWN = 4
"""Reasons and marks shown at once; the rest is one click away."""


MOST_PROVEN = 4
"""Offers that are planned for one page; each takes a few plans."""
MOST_BETTER = 2
"""The same where a plan stands already."""


@dataclass(frozen=True)
class _Pending:
    """An offer to prove: its place on the page, what is refused, the change (None: its limit moved)."""

    place: DeltaGenerator
    refused: NearestMiss | Rejection
    start: Remedy | None
    key: str


class Offers:
    """The buttons that apply a change: each change is offered once, and only when pressed does the scenario change.

    A change is offered only with a plan to show for it. Where nothing serves the scenario, any plan will do, and a
    limit is moved only of what comes nearest; where a plan stands, the other plan must be better by what the scenario
    asks for, and what only loosens the question is not offered. Places are kept, and :meth:`prove` fills them once the
    rest of the page stands.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._said: set[str] = set()
        self._pending: list[_Pending] = []
        self._better: DeltaGenerator | None = None

    def show(self, refused: Rejection | NearestMiss, key: str) -> None:
        """Buttons for what would let ``refused`` through where nothing serves the scenario."""
        if self.plan.best is not None:
            return
        metric = limited(refused)
        found = remedies(self.plan.scenario, refused)
        if metric is None:
            for i, remedy in enumerate(found):
                self._put_off(remedy.label, refused, remedy, f"{key}.{i}")
        elif found and isinstance(refused, NearestMiss):
            self._put_off(metric, refused, None, key)

    def show_better(self) -> None:
        """Keeps a place for what a single limit keeps from being a better plan."""
        if self.plan.best is not None and self.plan.better:
            self._better = st.container()

    def _put_off(self, name: str, refused: Rejection | NearestMiss, start: Remedy | None, key: str) -> None:
        if name not in self._said and len(self._pending) < MOST_PROVEN:
            self._said.add(name)
            self._pending.append(_Pending(st.container(), refused, start, key))

    def prove(self) -> None:
        """Plans what was put off; the plan of the button that is then pressed is there already."""
        catalog = state.catalog()
        shown: list[set[str]] = []
        # Limits first: what takes a limit moved and something else besides is no offer where the limit alone is enough.
        for one in sorted(self._pending, key=lambda p: p.start is not None):
            with one.place:
                with st.spinner(_("Looking for a change that leads to a plan …"), show_time=True):
                    remedy = proven(self.plan.scenario, one.refused, lambda s: quiet_answer(s, catalog), one.start)
                if remedy is None and one.start is None:
                    st.caption(_("No plan was found by moving this limit."))
                elif remedy is None and one.start is not None:
                    told = _("{change}: may help, but is not enough; no plan was found with it.")
                    st.caption(told.format(change=plain(one.start.label)))
                elif remedy is not None and not any(less <= _fields(remedy) for less in shown):
                    shown.append(_fields(remedy))
                    _button(remedy.label, remedy, f"remedy.{one.key}")
        if self._better is not None:
            self._prove_better(self._better, lambda s: quiet_answer(s, catalog))

    def _prove_better(self, place: DeltaGenerator, ask: Callable[[Scenario], Plan]) -> None:
        headed = False
        for i, missed in enumerate(self.plan.better[:MOST_BETTER]):
            with place:
                with st.spinner(_("Looking for a change that leads to a better plan …"), show_time=True):
                    remedy = proven_better(self.plan.scenario, self.plan, missed, ask)
                if remedy is None:
                    continue
                if not headed:
                    st.subheader(_("What would allow a better plan"), anchor=False)
                    headed = True
                st.markdown(f"- {plain(sentence(missed.text))}")
                changed = ask(with_values(self.plan.scenario, [remedy]))
                _button(f"{remedy.label} → {_gain(self.plan, changed)}", remedy, f"better.{i}")


def _fields(remedy: Remedy) -> set[str]:
    return {field for field, _value in remedy.values}


def _gain(plan: Plan, changed: Plan) -> str:
    """What is asked for, with both plans' values."""
    wanted = plan.scenario.objective
    write = {"lowest_cost": dollars, "fewest_gpus": count, "lowest_ttft": duration, "lowest_tbt": duration}.get(
        wanted, sig
    )
    now, then = (write(asked_for(p.best, wanted)) for p in (plan, changed) if p.best is not None)
    return _("{objective}: {then} instead of {now}").format(objective=lowered(objectives()[wanted]), then=then, now=now)


def _button(label: str, remedy: Remedy, key: str) -> None:
    st.button(
        _("Try: {change}").format(change=plain(label)),
        key=key,
        on_click=state.put,
        args=(dict(remedy.values),),
        icon=":material/build:",
        type="tertiary",
        wrap=True,
    )


def show_rejections(plan: Plan, offers: Offers) -> None:
    """One sentence a reason, most frequent first."""
    if not plan.rejected:
        return
    st.subheader(_("Why others fail"), anchor=False)
    tried = _("{evaluated} combinations of layout and load were tried, {feasible} hold every limit.")
    if plan.evaluated:
        st.caption(tried.format(evaluated=count(plan.evaluated), feasible=count(plan.feasible)))
    ordered = sorted(plan.rejected, key=lambda r: -r.count)
    for i, one in enumerate(ordered[:SHOWN]):
        _rejection(one, offers, i)
    rest = ordered[SHOWN:]
    if rest:
        more = ngettext("{n} more reason", "{n} more reasons", len(rest)).format(n=len(rest))
        with st.expander(more, key="more.rejected"):
            for i, one in enumerate(rest, start=SHOWN):
                _rejection(one, offers, i)


def _rejection(one: Rejection, offers: Offers, place: int) -> None:
    st.markdown(rejection(one))
    offers.show(one, f"rejected.{place}")


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


def show_misses(plan: Plan, offers: Offers) -> None:
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
            offers.show(m, f"miss.{i}")
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
    lines = ["- " + pair(f"**{plain(name)}**", plain(sentence(text))) for name, text in grouped_marks(evidence.marks)]
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

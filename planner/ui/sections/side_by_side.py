"""Two plans side by side: first what they are results of, then their numbers."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from planner.errors import PlannerError
from planner.search.plan_schema import Plan
from planner.ui import comparison, gallery, state, upload
from planner.ui.answers import answer
from planner.ui.i18n import _
from planner.ui.numbers import NONE, sig, signed
from planner.ui.sections import errors
from planner.ui.sections.headline import priced, question
from planner.ui.sections.tables import table
from planner.ui.sidebar.files import shown_name
from planner.ui.text import plain
from planner.ui.words import deployment

_LEFT, _RIGHT, _FILE = "compare.left", "compare.right", "compare.file"
_NOW, _BEFORE, _UPLOAD = "now", "before", "upload"
Side = tuple[Plan, comparison.Candidate | None]
"""A plan and the deployment of it that is compared."""
FEW = 6
"""Differences between scenarios that are shown without a click."""


def offered() -> dict[str, str]:
    """What can be put on either side: key -> label."""
    out = {_NOW: _("This scenario")}
    if state.edited():
        out[_BEFORE] = _("This scenario before your changes")
    out |= {f"saved.{name}": name for name in state.saved()}
    if _uploaded() is not None:
        out[_UPLOAD] = _("Plan from a file")
    titles = gallery.titles()
    return out | {f"example.{e.id}": titles[e.id] for e in gallery.examples() if e.id != state.example_id()}


def show(now: Plan) -> None:
    """The choice of two, the differences, the numbers."""
    choices = offered()
    left_key, right_key = _pick(choices)
    with st.expander(_("Compare with a plan from a file")):
        st.file_uploader(
            _("Plan (YAML)"),
            type=["yaml", "yml"],
            key=_FILE,
            max_upload_size=upload.MAX_UPLOAD_BYTES >> 20,
            on_change=_put_right,
        )
    try:
        left, right = _plan(left_key, now), _plan(right_key, now)
    except PlannerError as error:
        st.error(errors.message(error), icon=":material/edit:")
        return
    for column, plan, key in zip(st.columns(2, gap="medium"), (left, right), (left_key, right_key), strict=True):
        with column, st.container(border=True, height="stretch"):
            best = _chosen(plan, key)
            st.markdown(f"**{plain(choices[key])}**")
            st.markdown(_answer(plan, best))
            st.caption(question(plan.scenario, priced=priced(plan)))
    a, b = _chosen(left, left_key), _chosen(right, right_key)
    _identity((left, a), (right, b), asked=_question(left, right))
    if a is None or b is None:
        st.info(_("Only one of them can be served: there are no numbers to compare."), icon=":material/block:")
        return
    rows = comparison.numbers(a, b)
    table(
        {
            _("Figure"): [r.name for r in rows],
            _("Left"): [r.left for r in rows],
            _("Right"): [r.right for r in rows],
            _("Right over left"): [_change(r.ratio) for r in rows],
        }
    )
    st.caption(_("In brackets: where measured runs fall 80 % of the time."))


def _answer(plan: Plan, chosen: comparison.Candidate | None) -> str:
    if chosen is None:
        return _("Nothing serves this as asked")
    return plain(deployment(chosen))


def _pick(choices: dict[str, str]) -> tuple[str, str]:
    keys = list(choices)
    first_other = keys[1] if len(keys) > 1 else keys[0]
    picked = []
    sides = ((_("Left"), _LEFT, _NOW), (_("Right"), _RIGHT, first_other))
    for column, (label, key, default) in zip(st.columns(2, gap="medium"), sides, strict=True):
        if st.session_state.get(key) not in choices:
            st.session_state[key] = default
        with column:
            picked.append(st.selectbox(label, keys, key=key, format_func=choices.__getitem__))
    return picked[0], picked[1]


def _uploaded() -> UploadedFile | None:
    file: UploadedFile | None = st.session_state.get(_FILE)
    return file


def _put_right() -> None:
    """A plan that has just been handed in is what one wants to see."""
    if _uploaded() is not None:
        st.session_state[_RIGHT] = _UPLOAD


def _plan(key: str, now: Plan) -> Plan:
    """Raises PlannerError."""
    kind, _dot, name = key.partition(".")
    if kind == _NOW:
        return now
    if kind == _BEFORE:
        return answer(state.loaded())
    if kind == "saved":
        return answer(state.saved()[name])
    if kind == "example":
        return answer(gallery.example(name).scenario)
    file = _uploaded()
    assert file is not None  # offered only where there is one
    name = shown_name(file.name)
    return upload.plan_from_text(upload.decode(file.getvalue(), name), name)


def _chosen(plan: Plan, key: str) -> comparison.Candidate | None:
    return state.chosen(plan) if key == _NOW else plan.best


def _identity(left: Side, right: Side, asked: int) -> None:
    """What the two are results of, then the versions that they were made with; ``asked`` is how many points of the
    scenarios differ, any of which may be the cause.
    """
    rows = comparison.identities(comparison.identity(*left), comparison.identity(*right))
    st.markdown(f"**{_('What they are results of')}**")
    if not rows:
        same = _("The same model, precision, engine, GPU and topology: the numbers compare directly.")
        st.success(same, icon=":material/check:")
    else:
        if asked:
            told = _("A difference in the numbers may come from any of these, and from where the scenarios differ.")
        elif len(rows) > 1:
            told = _("They differ in {n} points; a difference in the numbers may come from any of them.")
        else:
            told = _("They differ in one point only: a difference in the numbers comes from it.")
        st.caption(told.format(n=len(rows)))
        _table(rows)
    made = comparison.versions(left[0], right[0])
    if made:
        st.markdown(f"**{_('Versions')}**")
        _table(made)


def _question(left: Plan, right: Plan) -> int:
    """Where the questions differ, and in how many points."""
    # Keys wrap at their steps, so that both values have room on a phone.
    rows = [(key.replace(".", " › "), a, b) for key, a, b in comparison.scenarios(left, right)]
    if rows:
        with st.expander(_("Where the scenarios differ ({n})").format(n=len(rows)), expanded=len(rows) <= FEW):
            _table(rows)
    return len(rows)


def _table(rows: list[comparison.Difference]) -> None:
    table({_("Field"): [r[0] for r in rows], _("Left"): [r[1] for r in rows], _("Right"): [r[2] for r in rows]})


def _change(ratio: float | None) -> str:
    if ratio is None:
        return NONE
    if abs(ratio - 1.0) < 5e-4:
        return _("the same")
    if not 0.5 < ratio < 2.0:
        return f"× {sig(ratio)}"
    return signed(ratio - 1.0)

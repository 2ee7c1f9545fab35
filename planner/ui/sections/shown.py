"""Which deployment a page looks into: named, with its pools and the other candidates one choice away."""

from __future__ import annotations

import streamlit as st

from planner.search.plan_schema import Candidate
from planner.ui import state
from planner.ui.current import Current, current
from planner.ui.i18n import _
from planner.ui.numbers import dollars
from planner.ui.sections.headline import binding_limit
from planner.ui.subject import PoolWorkers, Subject, subject_of
from planner.ui.text import plain
from planner.ui.words import layout_help, layout_label, node_label, serving_help, settings_apart, short_deployment

LISTED = 30


def shown() -> Subject | None:
    """The deployment of the page, with its chooser drawn; None once what stands in its place has been shown."""
    found = current()
    if found is None:
        return None
    with st.spinner(_("Looking up the deployment …"), show_time=True):
        subject = subject_of(found)
    if subject is None:
        st.error(binding_limit(found.plan), icon=":material/block:")
        return None
    if subject.feasible:
        _chooser(found, subject.candidate)
    else:
        st.error(binding_limit(found.plan), icon=":material/block:")
        st.caption(
            _("Shown is the nearest miss: {what}. Its numbers are as they are, over the limit where they are.").format(
                what=plain(f"{layout_label(subject.candidate.layout)}, {node_label(subject.candidate.node)}")
            )
        )
    return subject


def _chooser(found: Current, candidate: Candidate) -> None:
    by_rank = {c.rank: c for c in found.plan.candidates[:LISTED]}
    by_rank.setdefault(candidate.rank, candidate)
    apart = settings_apart(by_rank.values())
    key = f"deployment.{found.key}"
    st.session_state[key] = candidate.rank
    st.selectbox(
        _("Deployment"),
        list(by_rank),
        key=key,
        format_func=lambda rank: _name(by_rank[rank], apart[rank]),
        on_change=lambda: state.choose(st.session_state[key]),
        help=f"{layout_help()}\n\n{serving_help()}",
    )


def _name(c: Candidate, settings: str) -> str:
    parts = [f"{c.rank}. {short_deployment(c)}{settings}", node_label(c.node)]
    if c.usd_per_mtok.output is not None:
        parts.append(_("{usd} per million output tokens").format(usd=dollars(c.usd_per_mtok.output)))
    return " · ".join(parts)


def pool_names() -> dict[str, str]:
    """Pools in words."""
    return {"both": _("All workers"), "prefill": _("Prefill pool"), "decode": _("Decode pool")}


def pool(subject: Subject, key: str, first: str = "decode") -> PoolWorkers:
    """The workers of one pool: of the pool chosen where there are two."""
    if "both" in subject.pools:
        return subject.pools["both"]
    key = f"pool.{key}"
    if st.session_state.get(key) not in subject.pools:
        st.session_state[key] = first
    names = pool_names()
    chosen = st.segmented_control(
        _("Pool"), list(subject.pools), key=key, format_func=lambda p: names[p], required=True
    )
    return subject.pools[chosen or first]


def nothing_to_price() -> None:
    """Said on pages about what a deployment delivers, where none delivers it."""
    st.info(
        _("It delivers nothing, so there is no cost or latency to show. Memory and layout show what is missing."),
        icon=":material/info:",
    )

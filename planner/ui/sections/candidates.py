"""The table of candidates: sortable, with units in the headers; choosing a row chooses the candidate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import streamlit as st

from planner.search.plan_schema import Candidate, Plan
from planner.ui import state
from planner.ui.i18n import _
from planner.ui.numbers import NONE, count, shown
from planner.ui.words import layout_help, node_label, servings, settings_apart, short_deployment

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 500
"""Rows sent to the browser; the plan's YAML has them all."""
_AS_ROUNDED = "%.6g"
"""The numbers of the frame are rounded already, as everywhere else on the page."""


def frame(plan: Plan) -> pd.DataFrame:
    """One row per candidate, best first; numbers as numbers, so that columns sort."""
    import pandas as pd

    apart = settings_apart(plan.candidates[:SHOWN])
    return pd.DataFrame([_row(c, apart[c.rank]) for c in plan.candidates[:SHOWN]])


def _shown(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else shown(value)


def _row(c: Candidate, settings: str) -> dict[str, Any]:
    return {
        "rank": c.rank,
        "layout": short_deployment(c) + settings,
        "node": node_label(c.node),
        "serving": servings()[c.serving],
        "gpus": c.gpus,
        "paid": c.gpus_paid,
        "usd": _shown(c.usd_per_mtok.output),
        "rate": _shown(c.output_tokens_per_s_per_gpu),
        "goodput": _shown(c.goodput_rps),
        "ttft": _shown(c.ttft_ms.mean),
        "tpot": _shown(c.tpot_ms.mean),
        "concurrency": _shown(c.concurrency),
        "kv": _shown(c.memory_gib.kv),
        "joules": _shown(c.joules_per_token),
        "extrapolated": c.evidence.extrapolated,
    }


def columns(layout_px: int) -> dict[str, Any]:
    """Headers with units, help texts, three significant digits, widths that show header and numbers whole."""

    def number(label: str, help: str, width: int) -> Any:
        return st.column_config.NumberColumn(label, help=help, format=_AS_ROUNDED, width=width)

    return {
        "rank": st.column_config.NumberColumn("#", help=_("1 is best by the objective."), pinned=True, width=40),
        "usd": number("$/Mtok", _("US dollars per million output tokens."), 72),
        "gpus": st.column_config.NumberColumn(
            _("GPUs"), help=_("Those that workers use; whole nodes are paid for."), width=66
        ),
        "paid": st.column_config.NumberColumn(
            _("paid"), help=_("GPUs that are paid for: those of whole nodes, spare ones included."), width=60
        ),
        "tpot": number("TPOT ms", _("Mean time per output token after the first, in milliseconds."), 78),
        "ttft": number("TTFT ms", _("Mean time to first token, in milliseconds."), 76),
        "layout": st.column_config.TextColumn(
            _("Workers × layout"),
            help=_("With an arrow: prefill workers → decode workers.") + " " + layout_help(),
            width=layout_px,
        ),
        "node": st.column_config.TextColumn(_("Node"), width=116),
        "rate": number("tok/s/GPU", _("Output tokens per second and GPU in use."), 84),
        "goodput": number(_("goodput"), _("Requests per second that meet every limit."), 82),
        "serving": st.column_config.TextColumn(_("Serving"), width=104),
        "concurrency": number(
            _("in workers"), _("Requests in the workers at once, on average; of separate pools, in decode workers."), 82
        ),
        "kv": number("KV GiB", _("KV cache of the fullest GPU."), 70),
        "joules": number("J/tok", _("Energy per output token, in joules."), 64),
        "extrapolated": st.column_config.CheckboxColumn(
            _("extrapolated"), help=_("Something about it lies outside what was measured."), width=100
        ),
    }


def order(plan: Plan) -> list[str]:
    """Columns from left to right, cost and what tells rows apart first, for a phone; as many as a desktop window
    shows without scrolling. The rest is in the table's own list of columns.
    """
    several = len({c.node for c in plan.candidates}) > 1
    paid = ["paid"] if any(c.gpus_paid not in (None, c.gpus) for c in plan.candidates) else []
    return ["rank", "usd", "layout", "gpus", *paid, "tpot", "ttft", *(["node"] if several else ["rate", "goodput"])]


WIDEST_PX = 340


def _layout_px(plan: Plan) -> int:
    """Width that shows the longest layout, within reason."""
    listed = plan.candidates[:SHOWN]
    apart = settings_apart(listed)
    longest = max((len(short_deployment(c) + apart[c.rank]) for c in listed), default=0)
    return min(max(round(6.4 * longest) + 24, 140), WIDEST_PX)


def show(plan: Plan, key: str) -> None:
    """The table; ``key`` tells one plan's selection from another's."""
    st.subheader(
        _("Candidates"),
        help=_(
            "Click a header to sort, the box before a row to see that deployment. "
            "The eye above the table offers more columns."
        ),
        anchor=False,
    )
    table = frame(plan).dropna(axis="columns", how="all")
    chart = f"candidates.{key}"
    st.dataframe(
        table,
        hide_index=True,
        placeholder=NONE,
        column_order=order(plan),
        column_config=columns(_layout_px(plan)),
        key=chart,
        on_select=lambda: _picked(chart, plan),
        selection_mode="single-row",
        height=min(38 + 35 * len(table), 388),
        alt=_("Candidates, best first"),
    )
    more = len(plan.candidates) - len(table)
    if more > 0:
        st.caption(_("{n} more are in the plan's YAML.").format(n=count(more)))


def _picked(chart: str, plan: Plan) -> None:
    rows = ((st.session_state.get(chart) or {}).get("selection") or {}).get("rows") or []
    state.choose(plan.candidates[rows[0]].rank if rows else None)

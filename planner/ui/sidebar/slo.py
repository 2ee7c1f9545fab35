"""What answers must hold: limits on latencies, and what ranks the rest."""

from __future__ import annotations

import streamlit as st

from planner.scenario.schema import LATENCY_METRICS
from planner.ui import draft, state
from planner.ui.i18n import _
from planner.ui.numbers import duration
from planner.ui.sidebar.form import Form, columns
from planner.ui.words import latencies, objectives, percentiles


def show(form: Form) -> None:
    """Latency limits, completion rate, objective."""
    st.subheader(
        _("Limits"),
        divider="gray",
        help=_("Service-level objective (SLO). An empty limit is not asked for; none is ever relaxed."),
    )
    for metric in LATENCY_METRICS:
        _limit(form, metric)
    form.real(
        "completion_percent",
        _("Requests completed, at least %"),
        optional=_("no limit"),
    )
    form.select(
        "objective",
        _("Best means"),
        objectives(),
        help=_(
            "Goodput: requests per second that meet every limit, over the GPUs that workers use, not those paid for."
        ),
    )


def _limit(form: Form, metric: str) -> None:
    label, short, help = latencies()[metric]
    left, right = columns([8, 5])
    with left:
        form.real(
            f"slo.{metric}.limit",
            _("{short}, ms").format(short=short),
            f"{label}. {help}",
            step=100.0 if metric in ("ttft_ms", "e2e_ms") else 5.0,
            optional=_("no limit"),
        )
    with right:
        form.select(f"slo.{metric}.percentile", _("at"), percentiles())
    further = draft.further_limits(state.loaded(), metric)
    if further:
        kept = ", ".join(f"{percentiles()[p]} ≤ {duration(v)}" for p, v in further.items())
        st.caption(_("Also asked: {kept}").format(kept=kept))

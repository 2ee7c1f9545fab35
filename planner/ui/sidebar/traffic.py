"""How long requests are, how they arrive, what the prefix cache holds."""

from __future__ import annotations

import streamlit as st

from planner.ui import draft, state
from planner.ui.field_names import length_labels
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import count
from planner.ui.sidebar.form import Form, columns
from planner.ui.words import arrival_kinds, length_kinds


def show(form: Form) -> None:
    """Lengths, arrival, hit rate."""
    st.subheader(_("Traffic"), divider="gray")
    _length(
        form, "in", _("Input tokens"), _("Prompt length of a request, cached prefix included. Long tail: lognormal.")
    )
    _length(form, "out", _("Output tokens"), _("Generated tokens of a request. Long tail: lognormal."))
    _arrival(form)
    _prefix_cache(form)


def _prefix_cache(form: Form) -> None:
    """The hit rate; where the scenario file says how prefixes are used again, that, and the hit rate without it."""
    reuse = state.loaded().workload.prefix_reuse
    if reuse is not None and form.switch(
        draft.REUSE,
        _("Prefixes used again, as in the scenario file"),
        _("The hit rate follows from what the caches hold; without it, you give the hit rate."),
    ):
        told = ngettext(
            "{prefixes} prefix of {tokens} tokens; the plan says under Assumed what part of the prompts it comes to.",
            "{prefixes} prefixes of {tokens} tokens; the plan says under Assumed what part of the prompts it comes to.",
            reuse.prefixes,
        )
        st.caption(told.format(prefixes=count(reuse.prefixes), tokens=count(reuse.tokens)))
        return
    form.real(
        "hit_percent",
        _("Prefix cache hits, % of input tokens"),
        _("Part of the prompt tokens whose keys and values are still cached from an earlier request."),
        step=5.0,
    )


def _length(form: Form, short: str, label: str, help: str) -> None:
    kinds, parts = length_kinds(), length_labels()
    if form.defaults[f"{short}.kind"] != "empirical":
        kinds.pop("empirical")
    left, right = columns([1, 1], align="top")
    with left:
        kind = form.select(f"{short}.kind", label, kinds, help=help)
    if kind == "fixed":
        with right:
            form.whole(f"{short}.tokens", parts["tokens"])
    elif kind == "uniform":
        with right:
            form.whole(f"{short}.min", parts["min_tokens"])
            form.whole(f"{short}.max", parts["max_tokens"])
    elif kind == "lognormal":
        with right:
            form.real(f"{short}.mean", parts["mean_tokens"], step=100.0)
            form.real(
                f"{short}.p95",
                parts["p95_tokens"],
                _("The 95th percentile: above the mean and at most 3.87 times the mean."),
                step=100.0,
            )


def _arrival(form: Form) -> None:
    kinds = arrival_kinds()
    if form.defaults["arrival.kind"] != "trace":
        kinds.pop("trace")
    kind = form.select(
        "arrival.kind",
        _("Arrival"),
        kinds,
        help=_(
            "Closed loop: a benchmark keeps a fixed number of requests in flight. "
            "Poisson: many independent users. Gamma: burstier or smoother than that."
        ),
    )
    if kind == "closed_loop":
        form.whole("arrival.concurrency", _("Requests in flight"))
    elif kind in ("poisson", "gamma"):
        form.real("arrival.rate", _("Requests per second"), step=1.0)
    if kind == "gamma":
        form.real(
            "arrival.cv",
            _("Variation of the gaps"),
            _("Standard deviation of the time between arrivals over its mean; 1 is Poisson."),
            step=0.1,
        )
    if kind != "closed_loop":
        form.real(
            "day.peak_to_mean",
            _("Busiest hour over the day's mean"),
            _(
                "The rate above is that of the busiest hour. With this ratio, or with 24 values in the scenario file, "
                "the Load page sizes the fleet over a day."
            ),
            step=0.1,
            optional=_("no daily profile"),
        )

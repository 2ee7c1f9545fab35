"""Percentiles against their limits, and how they move with load and with the token budget of a step."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from planner.search.in_flight import set_to_run
from planner.search.plan_schema import Candidate
from planner.ui.figures.common import CONFIG
from planner.ui.figures.latency import by_budget, by_concurrency, by_share, distribution
from planner.ui.formula import in_flight, tpot, ttft
from planner.ui.i18n import _
from planner.ui.numbers import count, duration, percent, sig
from planner.ui.sections.cards import Card, cards
from planner.ui.sections.goodput import good_share, why_lower
from planner.ui.sections.how import how
from planner.ui.sections.load_data import METRICS, budget_curve, known, load_curve, only_means, sizing_for
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import listed, pair, paragraph
from planner.ui.words import counted_requests, latencies, percentiles


def show_percentiles(subject: Subject) -> None:
    """Cards, table of percentiles, distributions against the limits."""
    c, scenario = subject.candidate, subject.scenario
    _goodput(subject)
    st.subheader(
        _("How long do requests wait?"),
        help="\n".join(f"- **{short}**: {meaning}" for _name, short, meaning in latencies().values()),
        anchor=False,
    )
    if only_means(c):
        st.warning(
            _("This plan has means only: limits at a percentile were judged on the mean."), icon=":material/info:"
        )
    table(_columns(subject), alt=_("Latency by percentile"))
    st.caption(
        _("{names}. What extrapolated intervals rest on is on the page Evidence.").format(
            names=listed(pair(short, name.lower()) for name, short, _meaning in latencies().values())
        )
    )
    metrics = [m for m in ("ttft_ms", "tbt_ms") if len(set(known(getattr(c, m))) - {"mean"}) > 1]
    for column, metric in zip(st.columns(max(len(metrics), 1), gap="medium"), metrics, strict=False):
        with column:
            st.plotly_chart(
                distribution(c, metric, scenario.slo.limits(), _factors(subject, metric)),
                config=CONFIG,
                key=f"load.{metric}",
                alt=_("Distribution of {name} against its limits").format(name=latencies()[metric][0]),
            )
    if metrics:
        st.caption(
            _(
                "Upwards: the part of all requests (of all gaps between tokens) that is faster, with the tail spread "
                "out. A limit at a percentile is held where the curve passes left of its mark."
            )
        )
    how(
        "load.percentiles",
        {
            counted_requests(scenario, c)[0]: in_flight(scenario, c),
            _("Time to first token"): ttft(c),
            _("Time per output token"): tpot(c),
        },
    )


def _goodput(subject: Subject) -> None:
    c = subject.candidate
    share = good_share(c)
    name, meaning = counted_requests(subject.scenario, c)
    shown = [
        Card(
            _("Goodput"),
            _("{n} req/s").format(n=sig(c.goodput_rps, 4)),
            "" if share is None else _("{share} of all requests").format(share=percent(share)),
            _("Requests per second that meet every limit at once."),
        ),
        Card(name, count(round(c.concurrency)), _room(c), meaning),
    ]
    wait, refused = c.wait_ms, c.rejection_probability
    if wait.p99 is not None:
        shown.append(
            Card(
                _("Wait before the first step, p99"),
                duration(wait.p99),
                _("mean {mean}").format(mean=duration(wait.mean)),
                _("From arrival until the scheduler takes the prompt up."),
            )
        )
    if refused is not None:
        shown.append(
            Card(
                _("No room on arrival"),
                percent(refused) if refused >= 1e-4 else _("under 0.01 %"),
                _("of the requests"),
                _("Requests that find every KV slot taken: they wait, or are refused where admission says so."),
            )
        )
    cards(shown)
    if why := why_lower(c):
        st.caption(why)


def _room(c: Candidate) -> str:
    """How many run at once as the engines are set, and how many memory would hold."""
    at_once = set_to_run(c)
    parts = [
        None if at_once is None else _("set to run {n} at once").format(n=count(at_once)),
        _("memory holds {n}").format(n=count(round(c.max_concurrency))) if c.max_concurrency else None,
    ]
    return listed(part for part in parts if part is not None)


def _columns(subject: Subject) -> dict[str, list[str | None]]:
    """A column for each latency, so that it fits a phone: percentiles, then the interval of the mean and the limit."""
    c = subject.candidate
    limits: dict[str, list[str]] = {}
    for metric, percentile, limit in subject.scenario.slo.limits():
        limits.setdefault(metric, []).append(f"{percentiles()[percentile]} ≤ {duration(limit)}")
    known_ = {m: v for m in METRICS if (v := known(getattr(c, m)))}
    levels = {p: name for p, name in percentiles().items() if any(p in v for v in known_.values())}
    columns: dict[str, list[str | None]] = {
        _("Latency"): [*levels.values(), _("80 % interval of the mean"), _("limit")],
    }
    for m, values in known_.items():
        columns[latencies()[m][1]] = [
            *(duration(values.get(p)) for p in levels),
            _interval(c, m),
            listed(limits.get(m, [])) or _("none"),
        ]
    return columns


def _interval(c: Candidate, metric: str) -> str | None:
    interval = c.interval.get(metric)
    if interval is None:
        return None
    return _("{low} to {high}").format(low=duration(interval.low80), high=duration(interval.high80))


def _factors(subject: Subject, metric: str) -> tuple[float, float] | None:
    """The 80 % interval of the mean as factors, taken for every percentile."""
    c = subject.candidate
    interval, mean = c.interval.get(metric), getattr(c, metric).mean
    return None if interval is None or not mean else (interval.low80 / mean, interval.high80 / mean)


def show_load(subject: Subject) -> None:
    """TTFT and TBT by load."""
    st.subheader(
        _("What if more or fewer come?"),
        help=_("The same workers with the same settings at other loads than the planned one."),
        anchor=False,
    )
    with st.spinner(_("Trying loads …"), show_time=True):
        curve = load_curve(subject)
    if curve is None:
        st.caption(_("Not drawn for separate pools in a closed loop: their load is the number of requests in flight."))
        return
    limits = subject.scenario.slo.limits()
    held = curve.x[curve.meets]
    if subject.setup.rate_rps is not None:
        good = percent(good_share(subject.candidate))
        sizing = sizing_for(subject)
        if sizing.carried_rps is not None:
            text = _(
                "Every limit holds up to **{share}** of the planned load. At the plan's load **{good}** of requests "
                "meet all."
            )
            share = f"{sig(100.0 * sizing.carried_rps / subject.setup.rate_rps, 4)} %"
        else:
            text = _(
                "Of the loads drawn, every limit holds up to **{share}** of the planned one. At the plan's load "
                "**{good}** of requests meet all."
            )
            share = percent(float(held.max()) if held.size else 0.0)
        st.markdown(text.format(share=share, good=good))
        figure = by_share(curve, limits)
    else:
        st.markdown(most_in_flight(curve.x, held))
        worker = subject.pools["both"]
        figure = by_concurrency(curve, limits, float(worker.concurrency[0]))
    st.plotly_chart(figure, config=CONFIG, key="load.load", alt=_("Latency by load"))


def most_in_flight(tried: NDArray[np.float64], held: NDArray[np.float64]) -> str:
    """Up to where limits hold, and whether that is a bound or where the curve ends."""
    if not held.size:
        return _("No number of requests in flight holds every limit.")
    if held.max() >= tried.max():
        text = _("Every limit holds up to **{n}** requests in flight in one worker, the most that is drawn; no bound.")
    else:
        text = _("Every limit holds up to **{n}** requests in flight in one worker.")
    return text.format(n=count(float(held.max())))


def show_budget(subject: Subject) -> None:
    """The token budget of a step: time between tokens against time to first token."""
    st.subheader(
        _("How large may a step's prompt part be?"),
        help=_(
            "Prompts are read in chunks beside decoding. A large token budget reads them sooner (short time to first "
            "token), but every request in flight waits for the longer step (long time between tokens)."
        ),
        anchor=False,
    )
    w = subject.pools.get("both")
    if w is None:
        st.caption(_("Separate pools have nothing to trade: no prompt is read beside decoding."))
        return
    with st.spinner(_("Trying token budgets …"), show_time=True):
        curve = budget_curve(subject)
    if curve is None or len(curve) < 2:
        st.caption(_("Other token budgets do not carry this load."))
        return
    now = int(w.token_budget[0])
    good = curve.x[curve.meets]
    sentence = _("The plan takes **{n} tokens** a step.").format(n=count(now))
    if good.size:
        held = _("Of those tried, {low} to {high} hold every limit.").format(
            low=count(float(good.min())), high=count(float(good.max()))
        )
    else:
        held = _("None of those tried holds every limit.")
    st.markdown(paragraph((sentence, held)))
    st.plotly_chart(
        by_budget(curve, subject.scenario.slo.limits(), float(now)),
        config=CONFIG,
        key="load.budget",
        alt=_("Latency by token budget of a step"),
    )

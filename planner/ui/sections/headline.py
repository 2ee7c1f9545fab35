"""The answer first: one sentence, five figures, what binds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

from planner.scenario.schema import DailyProfile, Scenario, Workload
from planner.search.plan_schema import Candidate, Plan, SloCheck
from planner.ui.i18n import _
from planner.ui.numbers import NONE, count, dollars, duration, durations, exact, gib, percent, sig, span, within
from planner.ui.phrases import translated
from planner.ui.sections import formulas
from planner.ui.sections.goodput import why_lower
from planner.ui.sections.reasons import grouped_marks
from planner.ui.text import lowered, pair, plain, sentence
from planner.ui.words import (
    arrival_kinds,
    deployment,
    latencies,
    layout_help,
    objectives,
    percentiles,
    reason_name,
    serving_help,
)


@dataclass(frozen=True)
class Figure:
    """One of the figures. ``chip`` (the 80 % interval where there is one) and ``note`` stand below the value,
    ``met`` is the SLO mark (None: no limit), ``sure`` whether the whole range meets it, ``marks`` say what the number
    is extrapolated from.
    """

    label: str
    value: str
    chip: str | None
    note: str
    help: str
    met: bool | None = None
    sure: bool = True
    marks: tuple[str, ...] = ()


def show(plan: Plan, candidate: Candidate) -> None:
    """Sentence, figures and binding limit of ``candidate``."""
    st.header(plain(deployment(candidate)), help=f"{layout_help()}\n\n{serving_help()}", anchor=False)
    st.caption(question(plan.scenario, priced=priced(plan)) + _which(plan, candidate))
    for text in candidate.evidence.cautions:
        st.warning(plain(sentence(text)), icon=":material/trending_flat:")
    row = st.container(horizontal=True, gap="small")
    for figure in figures(candidate, plan.scenario.workload):
        with row:
            _metric(figure)
    st.markdown(_("**What binds:** {text}").format(text=plain(sentence(candidate.binding))))
    left, right = st.columns(2, gap="small")
    if candidate.explanation:
        with left, st.expander(_("Why not better?"), key="why"):
            st.markdown("\n".join(f"- {plain(sentence(t))}" for t in candidate.explanation))
    with right if candidate.explanation else left:
        formulas.figures(plan, candidate)


def priced(plan: Plan) -> bool:
    """Whether costs can rank: those without a price come last, so that where the best has none, no other has one."""
    return plan.best is None or plan.best.usd_per_hour is not None


def question(scenario: Scenario, *, priced: bool = True) -> str:
    """The question in one line, safe for Markdown: what is served, for which traffic, ranked by what (where costs are
    asked for and no price is known, what ranks in their place).
    """
    work = scenario.workload
    arrival = work.arrival
    if arrival.kind == "closed_loop":
        load = _("{n} requests in flight").format(n=count(arrival.concurrency))
    else:
        load = _("{rate} requests/s, {kind}").format(rate=exact(arrival.rate()), kind=arrival_kinds()[arrival.kind])
    return _("{model} · {load} · {input} tokens in, {output} out · {objective}").format(
        model=plain(scenario.model),
        load=plain(load),
        input=exact(round(work.input_tokens.mean())),
        output=exact(round(work.output_tokens.mean())),
        objective=plain(lowered(objectives()[scenario.objective]))
        if priced or scenario.objective != "lowest_cost"
        else _("no price is known, so plans are ranked by their GPUs"),
    )


def _which(plan: Plan, candidate: Candidate) -> str:
    if candidate == plan.best:
        return _(" · best of {n} that hold every limit").format(n=count(plan.feasible or len(plan.candidates)))
    return _(" · candidate {rank}, chosen by you").format(rank=candidate.rank)


def figures(candidate: Candidate, work: Workload) -> list[Figure]:
    """The five figures of a candidate under the load of ``work``, in the order they are read. Every limit has a figure:
    where a latency has several, or a whole request has one, there are more than five.
    """
    return [
        _cost(candidate, work.daily_profile),
        _throughput(candidate, work.arrival.rate()),
        *(_judged(candidate, "ttft_ms", "ttft_ms") or [_unlimited(candidate, "ttft_ms")]),
        *(_judged(candidate, "tbt_ms", "tpot_ms") or [_unlimited(candidate, "tpot_ms")]),
        *_judged(candidate, "e2e_ms"),
        _memory(candidate),
    ]


def _cost(c: Candidate, day: DailyProfile | None) -> Figure:
    key = "usd_per_mtok"
    usd = c.usd_per_mtok.output
    note = _("no price known") if c.usd_per_hour is None else _("{usd} per hour").format(usd=dollars(c.usd_per_hour))
    if day is not None and usd is not None:
        over = _("the busiest hour's; {usd} over the day at fixed size").format(usd=dollars(usd / day.mean_over_peak))
        note = f"{over} · {note}"
    inside = span(c.interval.get(key))
    return Figure(
        _("Cost per million output tokens"),
        dollars(usd),
        None if inside is None else f"${inside}",
        note,
        _("All cost of the deployment, spares included, over its output tokens; input tokens are not charged apart.")
        + _below(inside),
        marks=_marks(c, key),
    )


def _throughput(c: Candidate, load_rps: float | None) -> Figure:
    key = "output_tokens_per_s_per_gpu"
    inside = span(c.interval.get(key))
    return Figure(
        _("Output tokens/s per GPU"),
        sig(c.output_tokens_per_s_per_gpu),
        inside,
        " · ".join([_("goodput {n} req/s").format(n=within(c.goodput_rps, load_rps)), *_per_paid(c)]),
        _(
            "Output tokens of the whole deployment over the GPUs that its workers use. Goodput counts only the "
            "requests that meet every limit."
        )
        + _below(inside)
        + (f" {why}" if (why := why_lower(c)) else ""),
        marks=_marks(c, key),
    )


def _per_paid(c: Candidate) -> list[str]:
    """Tokens over the GPUs that are paid for, where these are others than those in use."""
    if c.gpus_paid in (None, c.gpus):
        return []
    per_paid = c.output_tokens_per_s_per_gpu * c.gpus / (c.gpus_paid or c.gpus)
    return [_("per GPU in use; {n} per GPU paid for").format(n=sig(per_paid))]


def _judged(c: Candidate, *metrics: str) -> list[Figure]:
    """Latencies with a limit, each as it was judged."""
    return [
        _latency(c, k.metric, k.judged_on, k.value, limit_text(k), met=k.met, sure=k.met_at_80 is not False)
        for k in c.slo
        if k.metric in metrics
    ]


def _unlimited(c: Candidate, metric: str) -> Figure:
    """The mean of a latency without a limit."""
    return _latency(c, metric, "mean", getattr(c, metric).mean, _("no limit"))


def _latency(
    c: Candidate,
    metric: str,
    percentile: str,
    value: float | None,
    note: str,
    *,
    met: bool | None = None,
    sure: bool = True,
) -> Figure:
    name, short, meaning = latencies()[metric]
    inside = c.interval.get(metric) if percentile == "mean" else None  # intervals are of means
    chip = None if inside is None else durations(inside.low80, inside.high80)
    return Figure(
        _("{metric}, {percentile}").format(metric=name, percentile=percentiles().get(percentile, percentile)),
        duration(value),
        chip,
        note,
        pair(short, meaning) + _below(chip),
        met,
        sure=sure,
        marks=_marks(c, metric),
    )


def _below(chip: str | None) -> str:
    """What the range below a value says, as a further sentence of its help."""
    return "" if chip is None else " " + _("Below the value: where measured runs fall 80 % of the time.")


def limit_text(check: SloCheck) -> str:
    """A limit and, where the value compared is not the one it names, which was compared."""
    if check.percentile == check.judged_on:
        return _("limit {limit}").format(limit=duration(check.limit))
    return _("limit {limit} at {percentile}").format(
        limit=duration(check.limit), percentile=percentiles().get(check.percentile, check.percentile)
    )


def _memory(c: Candidate) -> Figure:
    m = c.memory_gib
    used, chip = in_use_gib(c), None
    if used is None:
        free, note = m.capacity - m.total, _("of {gib}").format(gib=gib(m.capacity))
    else:
        free = m.kv - used
        note = _("of {gib} KV cache").format(gib=gib(m.kv))
        if m.kv:
            chip = _("{share} in use").format(share=percent(used / m.kv))
    return Figure(
        _("Memory left per GPU"),
        gib(free),
        chip,
        note,
        _(
            "KV cache of the fullest GPU that the requests in flight leave free. What the engine reserves "
            "besides it is in the memory figure below."
        ),
        marks=_marks(c, "memory_gib"),
    )


def in_use_gib(c: Candidate) -> float | None:
    """KV cache that the requests in flight take on the fullest GPU; None where the plan does not say."""
    if not c.max_concurrency:
        return None
    return c.memory_gib.kv * min(c.concurrency / c.max_concurrency, 1.0)


def _marks(c: Candidate, subject: str) -> tuple[str, ...]:
    """What the candidate's evidence says about a figure: marks on it, else (not for memory) on what it is made of."""
    own = tuple(m.text for m in c.evidence.marks if m.subject == subject)
    if own or subject == "memory_gib" or not c.evidence.extrapolated:
        return own
    return tuple(pair(what, translated(why)) for what, why in grouped_marks(c.evidence.marks)[:1])


def _metric(figure: Figure) -> None:
    icon = {True: ":green[:material/check_circle:]", False: ":red[:material/error:]", None: ""}[figure.met]
    meaning = {True: _("Within the limit."), False: _("Over the limit."), None: ""}[figure.met]
    marks = figure.marks if figure.value != NONE else ()
    lines = [
        figure.help,
        meaning,
        *(_("≈ marks an extrapolated number: {why}").format(why=plain(sentence(m))) for m in marks),
    ]
    with st.container(border=True, gap=None, height="stretch"):
        st.caption(f"{icon} {figure.label}" if icon else figure.label, help=" ".join(t for t in lines if t))
        st.metric(
            figure.label,
            f"≈ {figure.value}" if marks else figure.value,
            delta=None if figure.chip is None else plain(figure.chip),
            delta_color=_colour(figure),
            delta_arrow="off",
            label_visibility="collapsed",
        )
        st.caption(plain(figure.note))


def _colour(figure: Figure) -> Literal["green", "orange", "red", "off"]:
    if figure.met is None:
        return "off"
    if not figure.met:
        return "red"
    return "green" if figure.sure else "orange"


def nothing_feasible(plan: Plan) -> None:
    """The first lines where no deployment serves the scenario: that, and the limit that binds."""
    st.header(_("Nothing serves this as asked"), anchor=False)
    st.caption(question(plan.scenario))
    st.error(binding_limit(plan), icon=":material/block:")


def binding_limit(plan: Plan) -> str:
    """The limit that the nearest miss breaks, in one sentence, safe for Markdown."""
    if plan.nearest_misses:
        miss = plan.nearest_misses[0]
        return _("**{reason}.** Nearest: {text}").format(
            reason=plain(reason_name(miss.reason)), text=plain(sentence(miss.text))
        )
    if plan.rejected:
        first = max(plan.rejected, key=lambda r: r.count)
        return _("**{reason}.** Nearest: {text}").format(
            reason=plain(reason_name(first.reason)), text=plain(sentence(first.example))
        )
    return _("No layout of this model is possible on the hardware chosen.")

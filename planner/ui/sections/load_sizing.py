"""How large the fleet is: over a day, and with spares for failures; how long a worker is away."""

from __future__ import annotations

import streamlit as st

from planner.search.plan_schema import AdmissionPolicy, Candidate
from planner.search.sizing_schema import DayPlan, FailurePlan, RecoveryPlan, Sizing
from planner.ui.figures.common import CONFIG
from planner.ui.figures.sizing import day_figure, recovery_figure
from planner.ui.formula import Formula
from planner.ui.i18n import _, ngettext
from planner.ui.latex import num
from planner.ui.numbers import count, dollars, duration, percent, sig
from planner.ui.phrases import translated
from planner.ui.sections.cards import Card, cards
from planner.ui.sections.how import how
from planner.ui.sections.load_data import sizing_for
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import listed, paragraph
from planner.ui.words import percentiles, reserves
from planner.units import uptime


def show(subject: Subject) -> None:
    """Day, failures, recovery of the shown deployment."""
    with st.spinner(_("Sizing the fleet …"), show_time=True):
        sizing = sizing_for(subject)
    _show_day(subject, sizing)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _show_failures(sizing, subject.scenario.reliability.spare_nodes)
    with right:
        _show_recovery(sizing.recovery)


def _show_day(subject: Subject, sizing: Sizing) -> None:
    st.subheader(
        _("How large a fleet over a day?"),
        help=_("Each hour runs the fewest workers of this layout that hold every limit at its rate."),
        anchor=False,
    )
    day = sizing.day
    carried = sizing.carried_rps
    rate = subject.setup.rate_rps
    if day is None:
        if rate is None:
            st.caption(_("A closed loop has no rate, so it has no day: choose Poisson or Gamma arrivals for one."))
        else:
            if carried is not None:
                st.markdown(_carried(carried, rate))
            st.caption(
                _("Give the busiest hour over the day's mean under Traffic, and the fleet is sized hour by hour.")
            )
        return
    cards(_day_cards(day))
    sentences = [_carried(carried, rate)] if carried is not None and rate is not None else []
    sentences.append(
        _("A worker takes {s} to start, so the next hour's workers are started in the hour before.").format(
            s=duration(day.start_s * 1e3)
        )
    )
    st.markdown(paragraph(sentences))
    st.plotly_chart(day_figure(day), config=CONFIG, key="load.day", alt=_("Load and GPUs hour by hour"))
    how(
        "load.day",
        {
            _("Fleet of one hour"): Formula(
                r"n_h = \min\{n : \text{every limit holds at}\ \lambda_h / n\ \text{per worker}\}",
                rf"\lambda_{{max}} = {num(max(day.hourly_rps))},\quad n_{{max}} = {max(day.hourly_replicas)}",
                _(
                    "The serving formulas of the plan at the rate of the hour, with steps at the occupancy that it "
                    "comes to; a count near a limit is looked at step by step where the plan was. Where only the "
                    "busiest hour over the mean is given, hours follow exp(k cos)."
                ),
            )
        },
    )


def _carried(carried: float, rate: float) -> str:
    return _("This fleet holds every limit up to **{n} requests/s**, {share} above the planned load.").format(
        n=sig(carried), share=percent(max(carried / rate - 1.0, 0.0))
    )


def _day_cards(day: DayPlan) -> list[Card]:
    shown = [
        Card(
            _("GPUs at the peak"),
            count(day.peak_gpus),
            _("{n} requests/s").format(n=sig(max(day.hourly_rps))),
            _("A fleet of fixed size needs as many."),
        ),
        Card(
            _("GPUs on average"),
            sig(day.average_gpus),
            _("{n} requests/s on average").format(n=sig(day.mean_rps)),
            _("Mean over the day where workers are started and stopped with the load."),
        ),
        Card(
            _("GPUs at least"),
            count(day.lowest_gpus),
            _("autoscaling saves {share} of GPU-hours").format(share=percent(day.saved_share)),
            _("Lower end of the autoscaling range; its upper end is the peak."),
        ),
    ]
    if day.usd_per_day_fixed is not None and day.usd_per_day_autoscaled is not None:
        shown.append(
            Card(
                _("Rent per day"),
                dollars(day.usd_per_day_autoscaled),
                _("{usd} at fixed size").format(usd=dollars(day.usd_per_day_fixed)),
                _("Autoscaled; whole nodes, and the spare ones all day."),
            )
        )
        shown.append(day_price(day))
    return shown


def day_price(day: DayPlan) -> Card:
    """What an output token costs over the day."""
    return Card(
        _("$ / Mtok out over the day"),
        dollars(day.usd_per_mtok_output_autoscaled),
        _("{usd} at fixed size").format(usd=dollars(day.usd_per_mtok_output_fixed)),
        _("Rent of the day over its output tokens: quiet hours cost as much per GPU as busy ones.")
        + " "
        + _("Autoscaled; below it a fleet of fixed size."),
    )


def failures() -> dict[str, str]:
    """What fails, in words."""
    return {"gpu": _("GPU"), "node": _("node"), "rack": _("rack")}


def _show_failures(sizing: Sizing, spare_nodes: int) -> None:
    st.subheader(
        _("What if a GPU, a node or a rack fails?"),
        help=_("N + k: spares with which every limit still holds after so many failures at once."),
        anchor=False,
    )
    st.markdown(_failure_sentence(sizing.failures))
    table(failure_columns(sizing.failures), alt=_("Spares by what fails"))
    st.caption(
        (
            _("Enough workers are up {share} of the time, with the spare nodes of the scenario.")
            if spare_nodes
            else _("Enough workers are up {share} of the time; the scenario has no spare nodes.")
        ).format(share=uptime(sizing.slo_availability))
    )


def _failure_sentence(plans: tuple[FailurePlan, ...]) -> str:
    names = failures()
    held = [names[f.failure] for f in plans if f.met_without_spares]
    broken = [f for f in plans if not f.met_without_spares]
    uncovered = [f for f in broken if not f.covered]
    if uncovered:
        first = uncovered[0]
        if first.met_without_spares is None:
            text = ngettext(
                "**{n}** more node makes up for the loss of a **{what}**.",
                "**{n}** more nodes make up for the loss of a **{what}**.",
                first.spare_nodes,
            )
        else:
            text = ngettext(
                "The loss of a **{what}** breaks the limits; **{n}** more node keeps them.",
                "The loss of a **{what}** breaks the limits; **{n}** more nodes keep them.",
                first.spare_nodes,
            )
        sentences = [text.format(what=names[first.failure], n=count(first.spare_nodes))]
    elif any(f.met_without_spares is False for f in broken):
        text = _(
            "The loss of a **{what}** breaks the limits unless spare workers run; the plan's nodes have room for them."
        )
        sentences = [text.format(what=names[broken[0].failure])]
    else:
        return _("Every limit still holds after each of these failures, with the nodes of the plan.")
    if held:
        sentences.append(_("The plan survives the loss of: {names}.").format(names=listed(held)))
    return paragraph(sentences)


def failure_columns(plans: tuple[FailurePlan, ...]) -> dict[str, list[str]]:
    """A column for each kind of failure, so that it fits a phone."""
    names, marks = failures(), {True: _("yes"), False: _("no"), None: "–"}
    rows: dict[str, list[str]] = {
        _("Limits hold without spare workers"): [marks[f.met_without_spares] for f in plans],
        _("Workers lost"): [_lost(f) for f in plans],
        _("First token then, p99"): [_time(f, f.ttft_p99_ms) for f in plans],
        _("Between tokens then, p99"): [_time(f, f.tbt_p99_ms) for f in plans],
        _("Spare workers needed"): [count(f.spare_replicas) for f in plans],
    }
    if any(f.spare_prefill_workers is not None for f in plans):
        rows[_("Spare prefill workers needed")] = [count(f.spare_prefill_workers) for f in plans]
    rows |= {
        _("The plan's nodes have room for them"): [marks[f.covered] for f in plans],
        _("Nodes to add for them"): [count(f.spare_nodes) for f in plans],
        _("Expected a year"): [sig(f.per_year) for f in plans],
    }
    columns = {_("After the loss of"): list(rows)}
    for i, f in enumerate(plans):
        columns[f"{f.count} × {names[f.failure]}"] = [values[i] for values in rows.values()]
    return columns


def _lost(f: FailurePlan) -> str:
    """Workers that are lost at most, of either pool where there are two: of both at once where they share nodes."""
    if f.lost_prefill_workers is None:
        return count(f.lost_replicas)
    return _("{p} prefill, {d} decode at most").format(p=count(f.lost_prefill_workers), d=count(f.lost_replicas))


def _time(f: FailurePlan, ms: float | None) -> str:
    return _("overloaded") if ms is None and f.met_without_spares is False else duration(ms)


def _show_recovery(recovery: RecoveryPlan) -> None:
    st.subheader(
        _("How long is a worker away?"),
        help=_("From the failure until a worker on other hardware serves as before; spare hardware is at hand."),
        anchor=False,
    )
    total = recovery.total_s
    st.markdown(
        _("**{total}** after a failure.").format(total=duration(None if total is None else 1e3 * total))
        if total is not None
        else _("The fleet never has room to compute the lost requests again: it runs at its limit.")
    )
    st.plotly_chart(recovery_figure(recovery), config=CONFIG, key="load.recovery", alt=_("Recovery, part by part"))
    source = _(
        "Each part is an input under Failures and recovery, with these sources where it is not your own: {sources}. "
        "{tokens} tokens of {requests} requests are lost and computed again."
    ).format(
        sources=_("; ").join(dict.fromkeys(map(translated, recovery.sources.values()))),
        tokens=sig(recovery.lost_tokens),
        requests=sig(recovery.lost_requests),
    )
    how(
        "load.recovery",
        {
            _("Recovery"): Formula(
                r"t = t_{detect} + t_{restart} + \frac{W_{node}}{B_{read}} + t_{warm\ up} + t_{graphs} + t_{prefill}",
                rf"{num(recovery.detection_s)} + {num(recovery.restart_s)} + {num(recovery.weights_s)} + "
                rf"{num(recovery.warm_up_s)} + {num(recovery.graphs_s)} + {num(recovery.reprefill_s or 0.0)}"
                rf"\ \text{{s}}",
                source,
            )
        },
    )


def show_admission(subject: Subject) -> None:
    """The admission policy that goes with the plan, and latencies by priority class."""
    c = subject.candidate
    if c.admission is None:
        return
    st.subheader(
        _("Who is let in, who waits, who is turned away?"),
        help=_("The admission policy of one worker, as the plan file holds it."),
        anchor=False,
    )
    left, right = st.columns(2, gap="large")
    with left:
        table(_policy_columns(c.admission), alt=_("Admission policy"))
    with right:
        if c.priorities:
            table(_class_columns(c), alt=_("Time to first token by priority class"))
            st.caption(_("More urgent prompts go first; one in service is never interrupted."))
        else:
            st.caption(_no_classes(subject))


def _no_classes(subject: Subject) -> str:
    """Why there are no latencies by class."""
    if not subject.scenario.workload.priority_classes:
        return _("All requests are alike. Priority classes in the scenario file give each its own percentiles here.")
    if subject.setup.rate_rps is None:
        return _("Percentiles by priority class need a rate of arrivals: a closed loop has none.")
    if subject.deployment.prefill is not None:
        return _(
            "Percentiles by priority class are not worked out for separate pools: limits are judged over all classes "
            "together. What is kept for urgent ones is in the policy."
        )
    return _("The load is more than the workers pass: no class has percentiles.")


def _policy_columns(policy: AdmissionPolicy) -> dict[str, list[str]]:
    held = listed(
        _("priority {p}: {share}").format(p=p, share=percent(share)) for p, share in sorted(policy.held_back.items())
    )
    rows = {
        _("Requests that run at once"): count(policy.max_sequences),
        _("Tokens of one request"): count(policy.max_context_tokens),
        _("Requests that may wait"): count(policy.max_waiting),
        _("Cache is reserved for"): reserves()[policy.reserve],
        _("Cache kept free for growth"): percent(policy.watermark),
        _("Cache left to urgent ones"): held or _("none"),
    }
    return {_("One worker"): list(rows), _("Setting"): list(rows.values())}


def _class_columns(c: Candidate) -> dict[str, list[str]]:
    """A column for each class, so that it fits a phone."""
    levels = {level: name for level, name in percentiles().items() if level != "p90"}
    columns = {
        _("Time to first token"): [
            _("share of requests"),
            *(_("at {percentile}").format(percentile=n) if k != "mean" else n for k, n in levels.items()),
        ]
    }
    for p in c.priorities:
        columns[p.name] = [percent(p.share), *(duration(getattr(p.ttft_ms, level)) for level in levels)]
    return columns

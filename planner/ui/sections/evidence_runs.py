"""Predicted against measured over all runs, errors by group, coverage of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from planner.catalog.loader import data_root
from planner.evidence.e2e_keys import interval_document
from planner.evidence.e2e_validate import GROUPS
from planner.evidence.evidence_table import EvidenceTable
from planner.evidence.nearness import Nearness
from planner.ui.figures.common import CONFIG
from planner.ui.figures.evidence import coverage_bars, errors_by_group, predicted_against_measured
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.latex import num
from planner.ui.numbers import count, factors, percent, signed
from planner.ui.sections.cards import Card, cards
from planner.ui.sections.evidence_data import GroupError, coverage, distances, group_errors, group_values, widths
from planner.ui.sections.how import how
from planner.ui.sections.tables import table
from planner.ui.words import latencies

NEAREST = 30
"""Runs that count as the nearest."""


def group_names() -> dict[str, str]:
    """Groupings in words."""
    return {
        "engine": _("Engine"),
        "gpu": _("GPU"),
        "model": _("Model"),
        "precision": _("Precision"),
        "serving": _("Serving"),
        "concurrency": _("Requests in flight"),
        "input_tokens": _("Input tokens"),
        "output_tokens": _("Output tokens"),
        "bench": _("Benchmark"),
        "speculative": _("Speculative decoding"),
        "distance": _("Distance"),
    }


def metric_names() -> dict[str, str]:
    """Metrics in words."""
    return {m: f"{latencies()[m][0]} ({latencies()[m][1]})" for m in ("tpot_ms", "ttft_ms")}


def filters() -> dict[str, str]:
    """Selections of runs."""
    return {
        "all": _("all runs"),
        "near": _("nearest to this plan"),
        "gpu": _("on this GPU"),
        "model": _("of this model"),
        "engine": _("with this engine"),
    }


def show_accuracy(evidence: EvidenceTable) -> None:
    """The headline: how far off, over how many runs."""
    st.subheader(_("How far off were all of them?"), anchor=False)
    found = evidence.report.metrics(evidence.comparable)
    names = metric_names()
    shown = [
        Card(
            _("{metric}: median error").format(metric=latencies()[m][1]),
            percent(found[m]["median_ape"]),
            _("nine of ten within {p90}, bias {bias}").format(
                p90=percent(found[m]["p90_ape"]), bias=signed(found[m]["bias"])
            ),
            _("{name}: |predicted − measured| / measured, over runs without speculative decoding.").format(
                name=names[m]
            ),
        )
        for m in ("tpot_ms", "ttft_ms")
        if m in found
    ]
    points = found["tpot_ms"]["points"] if "tpot_ms" in found else 0
    cards(
        (
            *shown,
            Card(
                _("Measured runs"),
                count(len(evidence)),
                _("{n} of them comparable").format(n=count(points)),
                _("Public serving benchmarks. Runs with unknown speculative decoding are left out of errors."),
            ),
        )
    )
    st.caption(
        _(
            "The coefficients were fitted to these runs, so these errors are those of a plan with a seen layout. How "
            "far off other plans may be comes from runs held out of the fit, in the intervals below."
        )
    )


def show_scatter(evidence: EvidenceTable, near: Nearness | None, key: str) -> tuple[str, NDArray[np.bool_]]:
    """The scatter with its filters; the metric and the runs chosen."""
    st.subheader(
        _("Predicted against measured"),
        help=_("Each mark is a run. On the line: exact. Hover for what was run; dotted lines are a quarter off."),
        anchor=False,
    )
    names, groups = metric_names(), group_names()
    offered = filters() if near is not None else {"all": filters()["all"]}
    with st.container(horizontal=True, gap="small"):
        metric = st.selectbox(_("Metric"), list(names), key="evidence.metric", format_func=lambda m: names[m])
        group = st.selectbox(
            _("Colour by"), list(GROUPS), index=2, key="evidence.group", format_func=lambda g: groups[g]
        )
        chosen = st.selectbox(_("Show"), list(offered), key="evidence.filter", format_func=lambda f: offered[f])
    rows = selection(evidence, near, chosen)
    nearest = np.zeros(len(evidence), dtype=bool)
    if near is not None:
        nearest[near.order()[:NEAREST]] = True
    if not rows.any():
        st.info(_("No measured run is like that."), icon=":material/search_off:")
        return metric, rows
    st.plotly_chart(
        predicted_against_measured(evidence, metric, group_values(evidence, group), rows, nearest),
        config=CONFIG,
        key=f"evidence.scatter.{key}",
        alt=_("Predicted against measured {name}").format(name=names[metric]),
    )
    return metric, rows


def selection(evidence: EvidenceTable, near: Nearness | None, chosen: str) -> NDArray[np.bool_]:
    """Runs of a filter."""
    if near is None or chosen == "all":
        return np.ones(len(evidence), dtype=bool)
    if chosen == "near":
        rows = np.zeros(len(evidence), dtype=bool)
        rows[near.order()[:NEAREST]] = True
        return rows
    return near.same[chosen]


def show_groups(evidence: EvidenceTable, metric: str, rows: NDArray[np.bool_]) -> None:
    """Errors by group: figure and table."""
    st.subheader(_("Where it is right, and where not"), anchor=False)
    groups = {k: v for k, v in group_names().items() if k in (*GROUPS, "distance")}
    group = st.selectbox(_("Group by"), list(groups), index=1, key="evidence.errors", format_func=lambda g: groups[g])
    chosen = rows if group == "speculative" else rows & evidence.comparable
    errors = group_errors(evidence, group, chosen)
    if not errors:
        st.caption(_("None of these runs can be compared: their speculative decoding is not known."))
        return
    st.plotly_chart(errors_by_group(errors, metric), config=CONFIG, key="evidence.groups", alt=_("Errors by group"))
    with st.expander(_("As a table"), key="evidence.table"):
        table(_columns(errors, metric), alt=_("Errors by group"))
    worst = max(errors, key=lambda e: e.runs)
    figures = worst.metrics.get(metric)
    if figures:
        how(
            "evidence.errors",
            {
                _("Median error"): Formula(
                    r"\text{median} \frac{|\text{predicted} - \text{measured}|}{\text{measured}}",
                    rf"{num(100 * figures['median_ape'])}\,\%\ \text{{({worst.value}, "
                    rf"{figures['points']:.0f} runs)}}".replace("_", r"\_"),
                    _("Bias: the median of the signed error. Coverage: runs inside the 80 % interval."),
                )
            },
        )


def _columns(errors: list[GroupError], metric: str) -> dict[str, list[Any]]:
    def column(figure: str) -> list[float | None]:
        return [100 * e.metrics[metric][figure] if metric in e.metrics else None for e in errors]

    return {
        _("Group"): [e.value for e in errors],
        _("Runs"): [e.runs for e in errors],
        _("Median, %"): column("median_ape"),
        _("p90, %"): column("p90_ape"),
        _("Bias, %"): column("bias"),
        _("In 80 %, %"): column("interval80_coverage"),
    }


def show_coverage(evidence: EvidenceTable, rows: NDArray[np.bool_]) -> None:
    """Whether intervals keep their promise, and how wide they are."""
    st.subheader(
        _("Do the intervals hold?"),
        help=_("Of 100 measured values about 80 should fall inside their 80 % interval: more means it is too wide."),
        anchor=False,
    )
    found = coverage(evidence, rows & evidence.comparable)
    if found:
        st.plotly_chart(
            coverage_bars(found, {m: latencies()[m][1] for m in latencies()}),
            config=CONFIG,
            key="evidence.coverage",
            alt=_("Part of the runs inside their intervals"),
        )
    classes = interval_document(data_root() / "hardware_db" / "efficiency")["classes"]
    words = distances()
    known = [w for w in widths(classes) if w["distance"] in words]
    st.markdown(_("**How wide they are**, from runs held out of the fit: a prediction times these factors."))
    table(
        {
            _("Distance to the evidence"): [words[w["distance"]] for w in known],
            "TPOT": [factors(w["tpot_low"], w["tpot_high"]) for w in known],
            "TTFT": [factors(w["ttft_low"], w["ttft_high"]) for w in known],
        },
        alt=_("Width of the 80 % interval by distance to the evidence"),
    )

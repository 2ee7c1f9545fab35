"""How far off the shown plan's own numbers may be: its intervals, and the residuals that they come from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import streamlit as st

from planner.evidence.accelerator_check import residual_quantiles
from planner.search.certainty import DISTANCE_WORDS
from planner.search.plan_schema import Candidate, Interval
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.latex import num
from planner.ui.numbers import count, dollars, duration, factors, sig, signed
from planner.ui.sections.evidence_data import distances
from planner.ui.sections.how import how
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import plain, sentence
from planner.ui.words import latencies

RESIDUALS = {
    "ttft_ms": "ttft",
    "tbt_ms": "tpot",
    "tpot_ms": "tpot",
    "output_tokens_per_s_per_gpu": "throughput",
    "usd_per_mtok": "throughput",
    "joules_per_token": "throughput",
}
"""Which measured residual each interval comes from (planner.search.certainty)."""
CURVE = "operator curve"
"""How marks on operator curves begin, which have a table of their own below."""


def show(subject: Subject) -> None:
    """Intervals of the plan's numbers, and how measured values lay about predictions of such plans."""
    c = subject.candidate
    st.subheader(
        _("How far off may this plan's numbers be?"),
        help=_("Eight of ten measured values are expected inside the 80 % interval."),
        anchor=False,
    )
    kind = class_of(c)
    if kind is None or not c.interval:
        st.caption(_("This plan carries no intervals."))
        return
    residuals = residual_quantiles(kind, c.accelerator)
    st.markdown(
        _(
            "**{kind}.** The intervals come from {n} measured runs, each predicted with all nearer runs left out of "
            "the fit: in eight of ten the time per output token was {low} to {high} off the prediction."
        ).format(
            kind=plain(distances()[kind]),
            n=count(residuals["tpot"]["count"]),
            low=_percent(residuals["tpot"]["q10"]),
            high=_percent(residuals["tpot"]["q90"]),
        )
    )
    shown = [(m, v, c.interval[m]) for m, v in values(c).items() if m in c.interval and v]
    table(
        {
            _("Number"): [_name(m) for m, _v, _i in shown],
            _("Predicted"): [_value(m, v) for m, v, _i in shown],
            _("80 % within"): [
                _("{low} to {high}").format(low=_value(m, i.low80), high=_value(m, i.high80)) for m, _v, i in shown
            ],
            _("as factors"): [_factors(v, i) for _m, v, i in shown],
        },
        alt=_("Intervals of this plan's numbers"),
    )
    st.markdown(f"**{_('Measured over predicted, runs as far from their evidence as this plan')}**")
    metrics = {"tpot": latencies()["tpot_ms"][1], "ttft": latencies()["ttft_ms"][1], "throughput": _("Throughput")}
    table(
        {
            _("Residual"): [
                _("one in ten below"),
                _("a quarter below"),
                _("half below"),
                _("a quarter above"),
                _("one in ten above"),
            ],
            **{
                name: [_percent(residuals[m][q]) for q in ("q10", "q25", "q50", "q75", "q90")]
                for m, name in metrics.items()
                if m in residuals
            },
        },
        alt=_("Quantiles of the measured residuals of this class"),
    )
    if widened(c, residuals):
        st.caption(
            _(
                "This plan's own intervals are wider than that: some of its operator curves stand in for an "
                "accelerator without kernel measurements, and their spread is added."
            )
        )
    others = [mark.text for mark in c.evidence.marks if not mark.subject.startswith(CURVE)]
    if others:
        st.markdown("\n".join(f"- {plain(sentence(text))}" for text in others))
    tpot = c.interval.get("tpot_ms")
    if tpot is not None and c.tpot_ms.mean:
        how(
            "evidence.interval",
            {
                _("80 % interval"): Formula(
                    r"\text{predicted} \cdot e^{q_{50} \pm \sqrt{(q - q_{50})^2 + s^2}}",
                    rf"{num(c.tpot_ms.mean)}\ \text{{ms}}:\quad q_{{10}} = {residuals['tpot']['q10']:.3f},\ "
                    rf"q_{{90}} = {residuals['tpot']['q90']:.3f}\ \Rightarrow\ "
                    rf"{num(tpot.low80)} \ldots {num(tpot.high80)}\ \text{{ms}}",
                    _(
                        "q: quantiles of log(measured / predicted) of runs held out of the fit, from "
                        "hardware_db/efficiency/intervals.yaml; s: spread of operator curves that stand in, 0 without."
                    ),
                )
            },
        )


def class_of(c: Candidate) -> str | None:
    """Distance class of the candidate's evidence (a key of DISTANCE_WORDS)."""
    return next((kind for kind, words in DISTANCE_WORDS.items() if words == c.evidence.distance), None)


def values(c: Candidate) -> dict[str, float | None]:
    """What carries an interval."""
    return {
        "ttft_ms": c.ttft_ms.mean,
        "tbt_ms": c.tbt_ms.mean,
        "tpot_ms": c.tpot_ms.mean,
        "output_tokens_per_s_per_gpu": c.output_tokens_per_s_per_gpu,
        "usd_per_mtok": c.usd_per_mtok.output,
        "joules_per_token": c.joules_per_token,
    }


def widened(c: Candidate, residuals: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether an interval of the plan is wider than the residuals of its class alone."""
    for metric, value in values(c).items():
        interval, found = c.interval.get(metric), residuals.get(RESIDUALS[metric])
        if interval is None or not value or found is None or interval.low80 <= 0:
            continue
        if np.log(interval.high80 / interval.low80) > 1.01 * (found["q90"] - found["q10"]):
            return True
    return False


def _name(metric: str) -> str:
    known = latencies()
    if metric in known:
        return _("{name}, mean").format(name=known[metric][0])
    names = {
        "joules_per_token": _("Joules per output token"),
        "usd_per_mtok": _("$ per million output tokens"),
        "output_tokens_per_s_per_gpu": _("Output tokens per second and GPU"),
    }
    return names.get(metric, metric)


def _value(metric: str, value: float) -> str:
    if metric in latencies():
        return duration(value)
    if metric == "usd_per_mtok":
        return dollars(value)
    return _("{n} J").format(n=sig(value)) if metric == "joules_per_token" else sig(value)


def _factors(value: float, interval: Interval) -> str:
    return factors(interval.low80 / value, interval.high80 / value)


def _percent(log_ratio: float) -> str:
    """What a logarithm of measured over predicted is in percent."""
    ratio = float(np.exp(log_ratio)) - 1.0
    return signed(ratio, f"{100 * abs(ratio):.0f} %")

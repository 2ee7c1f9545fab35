"""Hot experts under a slider, and the operators of both kinds of step on the roofline."""

from __future__ import annotations

import numpy as np
import streamlit as st

from planner.roofline.coefficients import default_expert_skew
from planner.roofline.step import StepWork
from planner.search.plan_schema import Phase
from planner.search.table import Workers
from planner.ui.figures.common import CONFIG
from planner.ui.figures.hot_experts import hot_experts_lines
from planner.ui.figures.roofline import roofline
from planner.ui.formula import Formula
from planner.ui.i18n import _
from planner.ui.latex import num
from planner.ui.numbers import duration, percent, sig
from planner.ui.sections.how import how
from planner.ui.sections.layout_data import OperatorPoint, default_copies, hot_experts, moe_of, operator_points
from planner.ui.sections.tables import table
from planner.ui.state import PREFIX
from planner.ui.subject import Subject
from planner.ui.text import listed, plain
from planner.ui.words import bounds, phases, term_name
from planner.units import TERA

FAR_BELOW, LARGE = 0.25, 0.05
"""Part of the roof that limits an operator below which that is explained, where it takes at least LARGE of its step."""
HIGHEST_SKEW, SKEW_STEP, POINTS = 3.0, 0.05, 31


def show_experts(subject: Subject, w: Workers, work: StepWork) -> None:
    """The slider, and what it does to the fullest rank and the step."""
    st.subheader(
        _("Hot experts"),
        help=_(
            "Some experts are asked more often than others. The rank that holds them gets more tokens than the rest, "
            "and the step waits for it. Copies of hot experts on other ranks spread the load."
        ),
        anchor=False,
    )
    moe = moe_of(subject.setup)
    if moe is None:
        st.caption(_("This model has no experts: every token passes the same weights, and ranks are always even."))
        return
    if int(w.layouts.ep[0]) == 1:
        st.caption(_("Every rank of this layout works on every expert, so no rank can be hotter than another (EP 1)."))
        return
    current = w.hardware.ctx.expert_skew
    left, right = st.columns([2, 1], gap="medium")
    with left:
        skew = st.slider(
            _("Unevenness of experts (coefficient of variation)"),
            0.0,
            HIGHEST_SKEW,
            min(float(current), HIGHEST_SKEW),
            SKEW_STEP,
            key=f"layout.skew.{subject.key}",
            help=_(
                "Standard deviation of the experts' popularity over its mean. 0: all alike. DeepSeek-R1 without "
                "balancing was measured at {value} (TensorRT-LLM, tech blog 4)."
            ).format(value=sig(default_expert_skew())),
        )
    with right:
        redundant = st.number_input(
            _("Copies of hot experts"),
            min_value=0,
            max_value=4 * moe.experts,
            value=default_copies(w, moe),
            step=int(w.layouts.ep[0]),
            key=f"layout.copies.{subject.key}",
            help=_("Over the whole expert-parallel group; each copy takes an expert's memory."),
        )
    grid = np.unique(np.append(np.linspace(0.0, HIGHEST_SKEW, POINTS), skew))
    hot = hot_experts(w, work, moe, grid, int(redundant))
    at = int(np.searchsorted(grid, skew))
    st.markdown(
        _(
            "At {skew} the fullest of {ranks} ranks gets **{plain} times** the mean and a decode step takes **{ms}**; "
            "with {copies} copies **{spread} times** and **{spread_ms}**."
        ).format(
            skew=sig(skew),
            ranks=hot.ranks,
            plain=sig(float(hot.plain[at])),
            ms=duration(float(hot.plain_ms[at])),
            copies=hot.redundant,
            spread=sig(float(hot.copies[at])),
            spread_ms=duration(float(hot.copies_ms[at])),
        )
    )
    st.plotly_chart(
        hot_experts_lines(hot, skew), config=CONFIG, key="layout.hot", alt=_("Imbalance and step time by unevenness")
    )
    if abs(skew - current) > SKEW_STEP / 2:
        st.button(
            _("Plan with this unevenness"),
            icon=":material/build:",
            key="layout.use_skew",
            on_click=_use,
            args=(float(skew),),
            help=_("Puts it into the scenario: Engine on the left, expert skew."),
        )
    group = float(work.decode_seqs[0]) * int(w.layouts.attention_dp[0]) * moe.experts_per_token / int(w.layouts.ep[0])
    how(
        "layout.hot",
        {
            _("Fullest rank over the mean"): Formula(
                r"\frac{\max}{\text{mean}} = e^{z_R\, s - s^2/2} + z_R \sqrt{\frac{R}{T\,k}}",
                rf"{num(float(hot.plain[at]))}\quad (R = {hot.ranks},\ T k / R = {num(group)}"
                rf"\ \text{{tokens per rank}})",
                _(
                    "Sums of lognormal popularities on a rank (Fenton–Wilkinson), maximum over R ranks at Blom's "
                    "quantile z, plus the chance of a finite batch. Copies go to the hottest experts."
                ),
            )
        },
    )


def _use(skew: float) -> None:
    st.session_state[f"{PREFIX}option.expert_skew"] = skew


def show_roofline(subject: Subject, steps: dict[Phase, tuple[Workers, StepWork]]) -> None:
    """Operators of both kinds of step under the roof of the accelerator."""
    st.subheader(
        _("Operators on the roofline"),
        help=_(
            "Left of the bend an operator is limited by memory bandwidth, right of it by arithmetic. The distance from "
            "the roof is what launches, small shapes and kernels lose. Larger marks take more of the step."
        ),
        anchor=False,
    )
    found = {
        phase: operator_points(subject.setup, subject.candidate, phase, w, work) for phase, (w, work) in steps.items()
    }
    devices = {w.hardware.device.id: w.hardware.device for w, _work in steps.values()}
    if len(devices) > 1:
        chosen = st.segmented_control(
            _("Accelerator"), list(devices), default=next(iter(devices)), key="layout.roof", required=True
        )
        found = {p: v for p, v in found.items() if steps[p][0].hardware.device.id == chosen}
        device = devices[chosen or next(iter(devices))]
    else:
        device = next(iter(devices.values()))
    points = tuple(p for members in found.values() for p in members)
    if not points:
        st.caption(_("The plan has no breakdown for this candidate."))
        return
    st.plotly_chart(
        roofline(points, device.peak_flops, device.mem_bw),
        config=CONFIG,
        key="layout.roofline",
        alt=_("TFLOP/s by arithmetic intensity"),
    )
    st.caption(
        _(
            "Shape: kind of step; colour: what limits the operator. Roofs of {gpu}: dense peaks and memory bandwidth."
        ).format(gpu=plain(device.name))
    )
    _far_below(points)
    shown = {phase: members for phase, members in found.items() if members}
    for column, (phase, members) in zip(st.columns(len(shown), gap="large"), shown.items(), strict=True):
        with column:
            st.markdown(f"**{phases()[phase]}**")
            _operators(members)
    largest = max(points, key=lambda p: p.ms)
    how(
        "layout.roofline",
        {
            term_name(largest.term): Formula(
                r"\text{FLOP/s} = \frac{\text{FLOPs}}{\text{time}}, \quad x = \frac{\text{FLOPs}}{\text{bytes}}",
                rf"\frac{{{num(largest.flops_per_s * largest.ms / 1e3 / TERA)}\ \text{{TFLOP}}}}"
                rf"{{{num(largest.ms)}\ \text{{ms}}}} = {num(largest.flops_per_s / TERA)}\ \text{{TFLOP/s}}",
                _(
                    "Work at the least: every weight and cached value moved once, activations as far as the time has "
                    "room for them (the rest stays in the cache). Times are those of the plan, hidden ones included."
                ),
            )
        },
    )


def _far_below(points: tuple[OperatorPoint, ...]) -> None:
    """What "limited by" means of operators that their curve puts far below the roof that it names."""
    far = [p for p in points if p.bound in ("compute", "memory") and p.of_limit < FAR_BELOW and p.share >= LARGE]
    for bound in dict.fromkeys(p.bound for p in far):
        these = [p for p in far if p.bound == bound]
        text = _(
            "{names}: limited by {bound}, at {share} of that roof. That is what the measured kernel's curve answers "
            "to, not the roof itself: what the kernel does beyond the work (padded rows, small shapes, unpacking of "
            "narrow formats, further passes) counts with it. A better kernel could gain more here than a faster GPU."
        )
        lowest, highest = (percent(end(p.of_limit for p in these)) for end in (min, max))
        st.caption(
            text.format(
                names=plain(listed(dict.fromkeys(term_name(p.term) for p in these))),
                bound=plain(bounds()[bound or ""]),
                share=lowest if lowest == highest else f"{lowest}–{highest}",
            )
        )


def _operators(points: tuple[OperatorPoint, ...]) -> None:
    name = _("Operator, limited by")
    table(
        {
            name: [_named(p) for p in points],
            _("ms"): [p.ms for p in points],
            _("of the step"): [percent(p.share) for p in points],
            _("TFLOP/s"): [p.flops_per_s / TERA for p in points],
            _("FLOP/B"): [p.intensity for p in points],
        },
        alt=_("Operators on the roofline"),
        markdown=(name,),
    )


def _named(p: OperatorPoint) -> str:
    """The operator and, small below it, what limits it."""
    name = plain(term_name(p.term))
    return f"{name} :small[:gray[· {plain(bounds()[p.bound])}]]" if p.bound else name

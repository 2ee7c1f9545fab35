"""Evidence below whole runs: operator curves behind the plan, and start-up memory term by term."""

from __future__ import annotations

import streamlit as st

from planner.evidence.memory_validate import METRICS, RowPrediction, memory_metrics
from planner.ui.i18n import _
from planner.ui.numbers import count
from planner.ui.sections.evidence_data import curves_of
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import listed, pair, plain, sentence
from planner.ui.words import engines, operators


def show_operators(subject: Subject) -> None:
    """Residuals of every operator curve that the shown plan uses."""
    found = curves_of(subject)
    st.subheader(
        _("Operators behind this plan"),
        help=_("Each operator's time comes from a curve fitted to kernel measurements; this is how well it fits them."),
        anchor=False,
    )
    stand_ins = [c for c in found if c.extrapolated]
    st.markdown(
        _("{n} curves, {marked} of them stand in for something that was not measured.").format(
            n=count(len(found)), marked=count(len(stand_ins))
        )
    )
    table(
        {
            _("Operator"): [pair(operators().get(c.op, c.op), c.dtype) for c in found],
            _("Measured on"): [f"{c.from_accelerator}, {engines().get(c.engine, c.engine)}" for c in found],
            _("Points"): [int(c.points) for c in found],
            _("Median, %"): [_percent(c.median_ape) for c in found],
            _("p90, %"): [_percent(c.p90_ape) for c in found],
            _("Bias, %"): [_percent(c.bias) for c in found],
        },
        alt=_("Residuals of the operator curves of this plan"),
    )
    why: dict[str, list[str]] = {}
    for c in stand_ins:
        text = sentence(c.note.replace(c.op, _("this operator"), 1))
        why.setdefault(text, []).append(operators().get(c.op, c.op))
    if why:
        st.markdown(f"**{_('Why curves stand in')}**")
        st.markdown("\n".join(f"- {plain(pair(listed(dict.fromkeys(names)), text))}" for text, names in why.items()))


def memory_names() -> dict[str, str]:
    """Measured memory terms in words."""
    return {
        "weights_gib": _("Weights, GiB"),
        "peak_activation_gib": _("Workspace, GiB"),
        "non_torch_gib": _("Runtime and buffers, GiB"),
        "cuda_graph_gib": _("CUDA graphs, GiB"),
        "available_kv_gib": _("KV cache offered, GiB"),
        "kv_cache_tokens": _("Tokens in the cache"),
        "max_concurrency": _("Longest sequences held"),
        "kv_bytes_per_token": _("Cache bytes per token"),
    }


def show_memory(rows: list[RowPrediction]) -> None:
    """Errors of the memory budget against start-up logs."""
    st.subheader(
        _("Memory against start-up logs"),
        help=_("What vLLM printed when it started, against the budget for the same settings."),
        anchor=False,
    )
    found = memory_metrics(rows)
    names = memory_names()
    ran = [r for r in rows if not r.failed and not r.reason]
    died = [r for r in rows if r.memory_failure and r.fits is not None]
    st.caption(
        _("{n} starts; {seen} of {died} starts that died for lack of memory are predicted to.").format(
            n=count(len(ran)), seen=count(sum(1 for r in died if not r.fits)), died=count(len(died))
        )
    )
    metrics = [m for m in METRICS if m in found]
    table(
        {
            _("Term"): [names[m] for m in metrics],
            _("Starts"): [int(found[m]["points"]) for m in metrics],
            _("Median, %"): [_percent(found[m]["median_ape"]) for m in metrics],
            _("p90, %"): [_percent(found[m]["p90_ape"]) for m in metrics],
            _("Bias, %"): [_percent(found[m]["bias"]) for m in metrics],
            _("within 10 %, %"): [_percent(found[m]["within_10pct"]) for m in metrics],
        },
        alt=_("Errors of the memory budget by term"),
    )


def _percent(fraction: float) -> float:
    """Percent, without the dust that is left of an exact zero."""
    return round(100 * fraction, 4)

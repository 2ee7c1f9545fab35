"""Evidence below whole runs: operator curves behind the plan, and start-up memory term by term."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.evidence.memory_validate import METRICS, RowPrediction, memory_metrics
from planner.ui.i18n import _
from planner.ui.numbers import NONE, count
from planner.ui.sections.evidence_data import curves_of
from planner.ui.subject import Subject
from planner.ui.words import engines, operators


def show_operators(subject: Subject) -> None:
    """Residuals of every operator curve that the shown plan uses."""
    found = curves_of(subject)
    st.subheader(
        _("Operators behind this plan"),
        help=_("Each operator's time comes from a curve fitted to kernel measurements; this is how well it fits them."),
        anchor=False,
    )
    stand_ins = sum(c.extrapolated for c in found)
    st.caption(
        _("{n} curves, {marked} of them stand in for something that was not measured.").format(
            n=count(len(found)), marked=count(stand_ins)
        )
    )
    st.dataframe(
        pd.DataFrame(
            {
                _("Operator"): [operators().get(c.op, c.op) for c in found],
                _("Format"): [c.dtype for c in found],
                _("Measured on"): [c.from_accelerator for c in found],
                _("Kernels of"): [engines().get(c.engine, c.engine) for c in found],
                _("Points"): [c.points for c in found],
                _("Median, %"): [_percent(c.median_ape) for c in found],
                _("p90, %"): [_percent(c.p90_ape) for c in found],
                _("Bias, %"): [_percent(c.bias) for c in found],
                _("Stands in because"): [c.note for c in found],
            }
        ),
        hide_index=True,
        placeholder=NONE,
        column_config={
            **{
                name: st.column_config.NumberColumn(format="%.2g")
                for name in (_("Median, %"), _("p90, %"), _("Bias, %"))
            },
            _("Stands in because"): st.column_config.TextColumn(width="large"),
        },
        alt=_("Residuals of the operator curves of this plan"),
    )


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
    st.dataframe(
        pd.DataFrame(
            {
                _("Term"): [names[m] for m in metrics],
                _("Starts"): [int(found[m]["points"]) for m in metrics],
                _("Median, %"): [_percent(found[m]["median_ape"]) for m in metrics],
                _("p90, %"): [_percent(found[m]["p90_ape"]) for m in metrics],
                _("Bias, %"): [_percent(found[m]["bias"]) for m in metrics],
                _("within 10 %, %"): [_percent(found[m]["within_10pct"]) for m in metrics],
            }
        ),
        hide_index=True,
        placeholder=NONE,
        column_config={
            name: st.column_config.NumberColumn(format="%.2g")
            for name in (_("Median, %"), _("p90, %"), _("Bias, %"), _("within 10 %, %"))
        },
        alt=_("Errors of the memory budget by term"),
    )


def _percent(fraction: float) -> float:
    """Percent, without the dust that is left of an exact zero."""
    return round(100 * fraction, 4)

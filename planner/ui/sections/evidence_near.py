"""How near the evidence of the shown plan is: what was measured together, and the deployments nearest to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from planner.errors import PlannerError
from planner.evidence.evidence_table import EvidenceTable
from planner.evidence.nearness import SAME_SHAPE, Nearness, Place
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import NONE, count, signed
from planner.ui.sections.cards import Card, cards
from planner.ui.sections.tables import table
from planner.ui.subject import Subject
from planner.ui.text import listed, plain
from planner.ui.words import engines, run_layout

DEPLOYMENTS, RUNS = 8, 30
"""Rows of the two tables."""
NAMED = 4
"""Names that a card lists."""


@dataclass(frozen=True)
class Measured:
    """Runs of one deployment, those nearest to the plan first."""

    rows: NDArray[np.int64]
    score: float


def measured(table_: EvidenceTable, near: Nearness) -> list[Measured]:
    """Runs by what was deployed (model, GPU, engine with its version, precision, layout), nearest first."""
    text = table_.runs.text
    names = ("model", "gpu", "engine", "engine_version", "linear_precision", "moe_precision", "serving")
    found: dict[tuple[str, ...], list[int]] = {}
    for row in near.order():
        found.setdefault((*(text[n][row] for n in names), table_.layouts[row]), []).append(int(row))
    return [Measured(np.array(rows), float(near.score[rows[0]])) for rows in found.values()]


def show(subject: Subject, evidence: EvidenceTable, near: Nearness, place: Place) -> None:
    """Sentence, counts, table of the nearest deployments, table of the nearest runs."""
    st.subheader(
        _("How near is this plan's evidence?"),
        help=_(
            "Nearest by model, GPU, engine, serving mode and layout, then by prompt length, output length and requests "
            "in flight. A GPU of the same generation, a model of the same kind or a similar layout counts in part."
        ),
        anchor=False,
    )
    gpu = _gpu(subject, place.gpu)
    engine = engines().get(place.engine, place.engine)
    model = subject.setup.spec.name
    st.markdown(f"**{nearest(near, plain(model), plain(gpu), plain(engine))}**")
    together = near.agree("model", "gpu", "engine")
    cards(
        (
            Card(
                _("Measured together"),
                count(int(together.sum())),
                _("{n} in this very layout").format(n=count(near.agreeing(*near.same))),
                _("Runs of this model on this GPU with this engine."),
            ),
            Card(
                _("Runs of this model"), count(near.agreeing("model")), _where(subject, evidence, near, "model"), model
            ),
            Card(_("Runs on this GPU"), count(near.agreeing("gpu")), _where(subject, evidence, near, "gpu"), gpu),
            Card(
                _("Runs with this engine"),
                count(near.agreeing("engine")),
                _where(subject, evidence, near, "engine"),
                engine,
            ),
        )
    )
    st.markdown(f"**{_('The deployments measured nearest to it')}**")
    groups = measured(evidence, near)[:DEPLOYMENTS]
    table(
        {
            _("Deployment"): [_deployment(subject, evidence, int(g.rows[0])) for g in groups],
            _("Differs in"): [_differs(near, int(g.rows[0])) for g in groups],
            _("Runs"): [len(g.rows) for g in groups],
            _("TPOT error"): [_error(evidence, "tpot_ms", g.rows) for g in groups],
            _("TTFT error"): [_error(evidence, "ttft_ms", g.rows) for g in groups],
        },
        alt=_("Measured deployments nearest to this plan"),
    )
    st.caption(
        _(
            "Errors: median of predicted over measured, less one, over the runs of the row; none where it is not known "
            "whether they used speculative decoding."
        )
    )
    with st.expander(_("The nearest runs, one by one"), key="evidence.near.runs"):
        _runs(subject, evidence, near)


def nearest(near: Nearness, model: str, gpu: str, engine: str) -> str:
    """What was measured together, in words."""
    names = {"model": model, "gpu": gpu, "engine": engine}
    if near.agreeing("model", "gpu", "engine"):
        text = (
            _("Measured: {model} on {gpu} with {engine} in this very layout.")
            if near.agreeing(*near.same)
            else _("Near: {model} on {gpu} with {engine} was measured, in other layouts.")
        )
        return text.format(**names)
    parts = [_("{model}, {gpu} and {engine} were never measured together").format(**names)]
    absent = [names[key] for key in names if not near.agreeing(key)]
    if absent:
        parts.append(
            ngettext("{names} was not measured at all", "{names} were not measured at all", len(absent)).format(
                names=listed(absent)
            )
        )
    pairs = (
        (("model", "gpu"), _("{model} on {gpu}")),
        (("model", "engine"), _("{model} with {engine}")),
        (("gpu", "engine"), _("{engine} on {gpu}")),
    )
    known = [
        _("{pair} ({n} runs)").format(pair=text.format(**names), n=count(near.agreeing(*keys)))
        for keys, text in pairs
        if near.agreeing(*keys)
    ]
    if known:
        parts.append(_("measured apart: {pairs}").format(pairs=listed(known)))
    return _("{parts}.").format(parts=_("; ").join(parts))


def _where(subject: Subject, evidence: EvidenceTable, near: Nearness, key: str) -> str:
    """On which GPUs (of a GPU: with which engines) the runs are that agree in ``key``, most first."""
    rows = np.flatnonzero(near.same[key])
    other = "engine" if key == "gpu" else "gpu"
    found = Counter(evidence.runs.text[other][int(r)] for r in rows)
    order = [value for value, _n in found.most_common(NAMED)]
    names = [engines().get(v, v) for v in order] if other == "engine" else [_gpu(subject, v) for v in order]
    return listed(names) + (" …" if len(found) > NAMED else "")


def _gpu(subject: Subject, id: str) -> str:
    """A GPU by its id in capitals: h200-sxm as H200 SXM; as its maker calls it where that is not in the catalogue."""
    try:
        subject.setup.catalog.accelerator(id)
    except PlannerError:
        return id
    return id.upper().replace("-", " ")


def _deployment(subject: Subject, evidence: EvidenceTable, row: int) -> str:
    text = evidence.runs.text
    precision = "/".join(dict.fromkeys(t for t in (text["linear_precision"][row], text["moe_precision"][row]) if t))
    engine = f"{engines().get(text['engine'][row], text['engine'][row])} {text['engine_version'][row]}".strip()
    parts = (text["model"][row].split("/")[-1], _gpu(subject, text["gpu"][row]), engine, precision)
    return " · ".join(p for p in (*parts, run_layout(evidence.layouts[row])) if p)


def keys() -> dict[str, str]:
    """In what a run may differ, in words."""
    return {
        "model": _("model"),
        "gpu": _("GPU"),
        "engine": _("engine"),
        "serving": _("serving mode"),
        "layout": _("layout"),
    }


def _differs(near: Nearness, row: int) -> str:
    words = keys()
    named = [
        _("model (same architecture)") if key == "model" and near.parts[key][row] == SAME_SHAPE else words[key]
        for key in near.differs(row)
    ]
    return listed(named) or _("lengths or load only")


def _error(evidence: EvidenceTable, metric: str, rows: NDArray[np.int64]) -> str | None:
    values = evidence.report.error(metric)[rows]
    values = values[np.isfinite(values) & evidence.comparable[rows]]
    return signed(float(np.median(values))) if values.size else None


def _runs(subject: Subject, evidence: EvidenceTable, near: Nearness) -> None:
    text, runs, rows = evidence.runs.text, evidence.runs, near.order()[:RUNS]

    def error(metric: str) -> list[float | None]:
        values = evidence.report.error(metric)[rows]
        return [100 * float(v) if np.isfinite(v) else None for v in values]

    def whole(name: str) -> list[int | None]:
        return [int(v) if np.isfinite(v) else None for v in runs[name][rows]]

    columns = {
        _("Model"): [text["model"][r].split("/")[-1] for r in rows],
        _("GPU"): [_gpu(subject, text["gpu"][r]) for r in rows],
        _("Engine"): [f"{engines().get(text['engine'][r], '')} {text['engine_version'][r]}".strip() for r in rows],
        _("Layout"): [run_layout(evidence.layouts[r]) for r in rows],
        _("in"): whole("input_tokens"),
        _("out"): whole("output_tokens"),
        _("in flight"): whole("concurrency"),
        _("TPOT, ms"): [float(v) if np.isfinite(v) else None for v in runs["tpot_ms"][rows]],
        _("TPOT error, %"): error("tpot_ms"),
        _("TTFT, ms"): [float(v) if np.isfinite(v) else None for v in runs["ttft_ms"][rows]],
        _("TTFT error, %"): error("ttft_ms"),
        _("apart"): near.score[rows],
    }
    number = st.column_config.NumberColumn(format="%.3g")
    st.dataframe(
        pd.DataFrame(columns),
        hide_index=True,
        placeholder=NONE,
        column_config={
            _("Model"): st.column_config.TextColumn(pinned=True, width=130),
            _("Layout"): st.column_config.TextColumn(help=_("Of split runs both pools, prefill → decode.")),
            **dict.fromkeys((_("TPOT, ms"), _("TPOT error, %"), _("TTFT, ms"), _("TTFT error, %")), number),
            _("apart"): st.column_config.NumberColumn(
                format="%.2f", help=_("0: the same deployment. Differences in kind and doublings in length and load.")
            ),
        },
        alt=_("Measured runs nearest to this plan"),
    )

"""Numbers of the evidence page: the runs, which of them are near, errors by group, coverage, curves behind a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.evidence.e2e_validate import GROUPS, METRICS
from planner.evidence.evidence_table import EvidenceTable
from planner.evidence.nearness import Place
from planner.evidence.run_terms import architecture_name
from planner.hardware.curves import Curve
from planner.roofline.step import step_times
from planner.search.table import Workers
from planner.ui.i18n import _
from planner.ui.subject import Subject
from planner.ui.words import engines, servings

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LARGEST_GROUPS = 7
"""Groups that get a colour of their own; the rest is one."""


def place_of(subject: Subject) -> Place:
    """The shown deployment in the terms of a measured run."""
    s, pools = subject.setup, subject.pools
    split = "both" not in pools
    decode = pools["decode"] if split else pools["both"]
    members = (pools["prefill"], decode) if split else (decode,)
    layout = ".".join(part for w in members for part in _layout(w, split))
    concurrency = subject.candidate.concurrency if split else float(decode.concurrency[0])
    return Place(
        architecture_name(s.spec.hf_id or s.spec.id),
        decode.hardware.accelerator.id,
        s.scenario.engine.name,
        "disagg" if split else "agg",
        layout,
        float(s.traffic.input_tokens),
        float(s.traffic.output_tokens),
        concurrency,
    )


def _layout(w: Workers, split: bool) -> tuple[str, ...]:
    row = w.layouts.row(0)
    numbers = tuple(str(row[name]) for name in ("tp", "pp", "attention_dp", "moe_tp", "ep"))
    return (str(int(w.count[0])), *numbers) if split else numbers


def group_values(table: EvidenceTable, group: str) -> list[str]:
    """The value of a group (a key of GROUPS, or distance) for every run, in words where there are any."""
    values = list(table.distances) if group == "distance" else GROUPS[group](table.runs)
    words = {"distance": distances, "engine": engines, "serving": servings}.get(group, dict)()
    return [words.get(value, value) for value in values]


def distances() -> dict[str, str]:
    """Distance to the evidence in words, nearest first."""
    return {
        "seen_layout": _("This model, GPU, engine and layout were measured"),
        "new_layout": _("Another layout of them was measured"),
        "new_model": _("Other models on this GPU and engine were measured"),
        "new_gpu": _("This engine was measured on other GPUs"),
        "new_engine": _("This engine was not measured"),
    }


def largest(values: Sequence[str], chosen: BoolArray) -> list[str]:
    """The most frequent values among the chosen runs, most frequent first."""
    found: dict[str, int] = {}
    for value, keep in zip(values, chosen, strict=True):
        if keep:
            found[value] = found.get(value, 0) + 1
    return sorted(found, key=lambda v: (-found[v], v))[:LARGEST_GROUPS]


@dataclass(frozen=True)
class GroupError:
    """Errors of one group, fractions of one; None where the metric was not measured."""

    value: str
    runs: int
    metrics: dict[str, dict[str, float]]


def group_errors(table: EvidenceTable, group: str, chosen: BoolArray) -> list[GroupError]:
    """Errors of every value of a group over the chosen runs, largest group first."""
    values = np.array(group_values(table, group), dtype=object)
    out = []
    for value in dict.fromkeys(values[chosen]):
        rows = chosen & (values == value)
        metrics = table.report.metrics(rows)
        if metrics:
            out.append(GroupError(str(value), int(rows.sum()), metrics))
    return sorted(out, key=lambda g: -g.runs)


@dataclass(frozen=True)
class Coverage:
    """Part of the chosen runs whose measured value lies inside the interval of its prediction."""

    metric: str
    inside80: float
    inside50: float
    runs: int


def coverage(table: EvidenceTable, chosen: BoolArray) -> list[Coverage]:
    """By metric."""
    out = []
    for metric in METRICS:
        band, measured = table.bands[metric], table.runs[metric]
        rows = chosen & np.isfinite(table.report.error(metric))
        if not rows.any():
            continue
        inside80 = (measured >= band.low80) & (measured <= band.high80)
        inside50 = (measured >= band.low50) & (measured <= band.high50)
        out.append(Coverage(metric, float(inside80[rows].mean()), float(inside50[rows].mean()), int(rows.sum())))
    return out


def widths(classes: dict[str, Any]) -> list[dict[str, Any]]:
    """Ends of the cross-validated 80 % intervals by distance class, as factors on a prediction."""
    return [
        {
            "distance": name,
            **{
                f"{metric}_{end}": float(np.exp(found[metric][quantile]))
                for metric in ("tpot", "ttft")
                for end, quantile in (("low", "q10"), ("high", "q90"))
            },
        }
        for name, found in classes.items()
    ]


def curves_of(subject: Subject) -> list[Curve]:
    """Operator curves that the steps of the shown deployment use, those that stand in for others first."""
    used: dict[tuple[str, str, str], Curve] = {}
    for _phase, w, work in subject.steps():
        step_times(w.hardware.ctx, w.layouts, work, w.two_batch, w.deepep)
    for w in subject.pools.values():
        for curve in w.hardware.curves_used:
            used[(curve.op, curve.dtype, curve.from_accelerator)] = curve
    return sorted(used.values(), key=lambda c: (not c.extrapolated, c.op))

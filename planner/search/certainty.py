"""How sure a deployment's numbers are: its distance to measured runs, intervals, and marks on what is extrapolated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from planner.evidence.accelerator_check import AcceleratorCheck, check_of
from planner.evidence.e2e_keys import DISTANCES, place_key, shipped_known
from planner.evidence.intervals import LEVELS, around, curve_spread, intervals
from planner.evidence.profile_overlay import Adjustment
from planner.evidence.run_terms import architecture_name
from planner.layout.layouts import Layouts
from planner.memory.coefficients import engine_memory
from planner.search.plan_schema import Evidence, Interval, Mark
from planner.search.setup import Hardware, Setup
from planner.search.table import Deployments
from planner.serving.latency import OUTSIDE

DISTANCE_WORDS = {
    "seen_layout": "measured: runs of this model, GPU, engine and layout",
    "new_layout": "near: runs of this model, GPU and engine in other layouts",
    "new_model": "further: runs on this GPU and engine, of other models",
    "new_gpu": "far: runs of this engine, on other GPUs",
    "new_engine": "farthest: no runs of this engine",
}


CHECK = "end-to-end check"
"""Subject of marks about an accelerator's measured runs."""


def distance_of(s: Setup, d: Deployments, i: int) -> str:
    """Distance class of deployment ``i`` to the measured runs behind the coefficients; that of its farther pool."""
    model, engine = architecture_name(s.spec.hf_id or s.spec.id), s.scenario.engine.name
    pools = (d.decode,) if d.prefill is None else (d.prefill, d.decode)
    found = []
    for gpu in {pool.hardware.accelerator.id for pool in pools}:
        place = place_key(model, gpu, engine, d.serving, layout_key(d, i))
        found.append(shipped_known().distance(model, gpu, engine, place))
    return max(found, key=DISTANCES.index)


def layout_key(d: Deployments, i: int) -> str:
    """The layout as the evidence spells it (planner.evidence.e2e_keys.layout_text)."""
    if d.prefill is None:
        return ".".join(_numbers(d.decode.layouts, i))
    pools = (d.prefill, d.decode)
    return ".".join(part for p in pools for part in (str(int(p.count[i])), *_numbers(p.layouts, i)))


def _numbers(layouts: Layouts, i: int) -> tuple[str, ...]:
    row = layouts.row(i)
    return tuple(str(row[name]) for name in ("tp", "pp", "attention_dp", "moe_tp", "ep"))


def extra_spread(hardware: Sequence[Hardware]) -> float:
    """:func:`planner.evidence.intervals.curve_spread` of everything that the deployment's nodes were evaluated by."""
    return curve_spread(curve for hw in hardware for curve in hw.curves_used)


def interval_of(
    kind: str,
    metric: str,
    value: float,
    spread: float,
    own: Mapping[str, Adjustment] | None = None,
    accelerator: str | None = None,
) -> Interval:
    """Interval of ``value`` (metric tpot, ttft or throughput) at distance class ``kind`` on an accelerator.

    Where the user's ``own`` runs of this deployment speak of the metric, theirs in place of the class's.
    """
    if own and metric in own:
        found = around(value, own[metric].log_spread)
        return Interval(**{name: float(getattr(found, name)) for name in LEVELS})
    ratios = _ratios(kind, metric, spread, accelerator)
    return Interval(**{name: value * ratio for name, ratio in ratios.items()})


@lru_cache(maxsize=256)
def _ratios(kind: str, metric: str, spread: float, accelerator: str | None) -> dict[str, float]:
    """Bounds over the prediction: a plan asks for few kinds of them, many times."""
    found = intervals(kind, metric, 1.0, spread, accelerators=accelerator)
    return {name: float(getattr(found, name)) for name in LEVELS}


def inverse(interval: Interval, value: float) -> Interval:
    """Interval of a quantity ``value`` / x, from the interval of x / 1 (a ratio around 1)."""
    return Interval(
        low80=value / interval.high80,
        high80=value / interval.low80,
        low50=None if interval.high50 is None else value / interval.high50,
        high50=None if interval.low50 is None else value / interval.low50,
    )


def evidence_note(s: Setup, hardware: Sequence[Hardware], kind: str, *, outside: bool = False) -> Evidence:
    """Distance in words and a mark for every curve, coefficient or fact that stands in for another."""
    checks = accelerator_checks(hardware)
    cautions = tuple(check.text() for check in checks if check.runs and not check.holds)
    # First what was found wrong: where room is short, the first mark alone is shown.
    marks = {text: Mark(subject=CHECK, text=text) for text in cautions}
    for hw in hardware:
        for curve in hw.curves_used:
            if curve.extrapolated:
                marks[f"{hw.id} {curve.op}"] = Mark(subject=f"operator curve {curve.op} {curve.dtype}", text=curve.note)
        for text in hw.ctx.coefficients.marks:
            marks[text] = Mark(subject="end-to-end coefficients", text=text)
        for fact in hw.device.missing:
            if fact.startswith("memory"):
                text = f"{fact} of {hw.accelerator.id} is not sourced: the memory sold is taken as usable"
                marks[text] = Mark(subject="memory_gib", text=text)
    if beyond := engine_memory(s.scenario.engine.name, s.catalog).beyond_known(s.scenario.engine.version):
        marks["version"] = Mark(subject="engine.version", text=beyond)
    if outside:
        marks["load"] = Mark(subject="percentiles under load", text=f"outside the closed forms' range: {OUTSIDE}")
    for check in checks:
        if not check.runs:
            marks[check.accelerator] = Mark(subject=CHECK, text=check.text())
    extrapolated = bool(marks) or kind in ("new_gpu", "new_engine")
    for hw in hardware:
        for metric, own in hw.own_runs.items():
            text = f"{own.runs} of your own runs: times {np.exp(own.log_shift):.3g}, interval from their scatter"
            marks[f"own {hw.id} {metric}"] = Mark(subject=metric, text=text)
    return Evidence(
        extrapolated=extrapolated,
        distance=DISTANCE_WORDS[kind],
        cautions=cautions,
        marks=tuple(_unique(marks.values())),
    )


def accelerator_checks(hardware: Sequence[Hardware]) -> list[AcceleratorCheck]:
    """What the end-to-end check found for each accelerator of a deployment."""
    return [check_of(name) for name in dict.fromkeys(hw.accelerator.id for hw in hardware)]


def _unique(marks: Iterable[Mark]) -> list[Mark]:
    seen: dict[tuple[str, str], Mark] = {}
    for mark in marks:
        seen.setdefault((mark.subject, mark.text), mark)
    return list(seen.values())

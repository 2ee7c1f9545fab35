"""Whether a user's own runs are as far from the prediction as any run behind the coefficients ever was."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from planner.catalog.loader import data_root
from planner.errors import InputError
from planner.evidence.evidence_table import RUNS_FILE, read_evidence
from planner.evidence.profile_overlay import Overlay, Shift
from planner.evidence.run_reading import architecture_name
from planner.units import MILLISECOND

FEW_RUNS = 4
"""A deployment with fewer runs has no median of its own (as in profile_prior.yaml)."""


class Bound(NamedTuple):
    """Range of measured over predicted in the shipped evidence: medians of deployments, and single runs."""

    usual_low: float
    usual_high: float
    least: float
    most: float


@lru_cache(maxsize=1)
def bounds() -> Mapping[str, Bound]:
    """By metric (ttft, tpot), from the runs in ``hardware_db/efficiency/evidence_runs.csv.gz`` without speculation."""
    table = read_evidence(data_root() / "hardware_db" / "efficiency" / RUNS_FILE)
    text = table.runs.text
    names = zip(text["model"], text["gpu"], text["engine"], strict=True)
    keys = np.array(["|".join((architecture_name(m), gpu, engine)) for m, gpu, engine in names])
    found: dict[str, Bound] = {}
    for metric in ("ttft", "tpot"):
        ratio = table.runs[f"{metric}_ms"] / table.predicted[f"{metric}_ms"]
        known = table.comparable & np.isfinite(ratio) & (ratio > 0)
        ratio, groups = ratio[known], keys[known]
        chosen = [ratio[groups == key] for key in np.unique(groups)]
        medians = [float(np.median(r)) for r in chosen if r.size >= FEW_RUNS]
        found[metric] = Bound(min(medians), max(medians), float(ratio.min()), float(ratio.max()))
    return found


def check_shifts(overlay: Overlay) -> list[str]:
    """A warning for every metric that is further off than the median of any deployment behind the coefficients, and
    for every interval that its runs widen.

    Raises InputError where one is further off than any single run there: another unit or another deployment.
    """
    notes: list[str] = []
    for deployment in overlay.deployments:
        for metric, shift in deployment.metrics.items():
            where = f"{metric} of {deployment.model} on {deployment.gpu}, {deployment.engine}"
            notes += [note for note in (_distance(metric, shift, where), _width(shift, where)) if note]
    return notes


def _distance(metric: str, shift: Shift, where: str) -> str:
    bound = bounds().get(metric)
    if bound is None:
        return ""
    given = f"measured / predicted {shift.median_ratio:.3g}"
    if not bound.least <= shift.median_ratio <= bound.most:
        unit = ""
        if shift.median_ratio < bound.least and bound.usual_low <= shift.median_ratio / MILLISECOND <= bound.usual_high:
            unit = " (as if seconds stood in a column of milliseconds)"
        allowed = f"{bound.least:.2g} to {bound.most:.3g}, the range of all runs behind the coefficients"
        raise InputError(where, given, f"{allowed}; see to the unit, the layout and the precision{unit}")
    if bound.usual_low <= shift.median_ratio <= bound.usual_high:
        return ""
    usual = f"{bound.usual_low:.2g} to {bound.usual_high:.2g}"
    return (
        f"{where}: {given}, further off than any deployment behind the coefficients ({usual}); see to unit and layout"
    )


def _width(shift: Shift, where: str) -> str:
    if shift.log_spread <= shift.prior_log_spread:
        return ""
    return f"{where}: the interval widens, for your runs scatter more than those behind the coefficients did"

"""Whether a user's own runs are as far from the prediction as any run behind the coefficients ever was."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from planner.catalog.loader import data_root
from planner.errors import InputError
from planner.evidence.evidence_table import RUNS_FILE, read_evidence
from planner.evidence.profile_overlay import Overlay, Shift
from planner.units import MILLISECOND

FAR = 3.0
"""Standard deviations of held-out runs of the same distance beyond which a shift is worth a warning."""
WIDER = 1.02
"""An interval that grows by less is as wide as before."""


@lru_cache(maxsize=1)
def bounds() -> Mapping[str, tuple[float, float]]:
    """Least and most of measured over predicted by metric (ttft, tpot), over the single runs behind the coefficients.

    From ``hardware_db/efficiency/evidence_runs.csv.gz``, without speculative decoding.
    """
    table = read_evidence(data_root() / "hardware_db" / "efficiency" / RUNS_FILE)
    found: dict[str, tuple[float, float]] = {}
    for metric in ("ttft", "tpot"):
        ratio = table.runs[f"{metric}_ms"] / table.predicted[f"{metric}_ms"]
        ratio = ratio[table.comparable & np.isfinite(ratio) & (ratio > 0)]
        found[metric] = float(ratio.min()), float(ratio.max())
    return found


def check_shifts(overlay: Overlay) -> list[str]:
    """A warning for every metric that is :data:`FAR` off, and for every interval that its runs widen.

    Raises InputError where one is further off than any single run behind the coefficients: that is another unit or
    another deployment.
    """
    notes: list[str] = []
    for deployment in overlay.deployments:
        for metric, shift in deployment.metrics.items():
            where = f"{metric} of {deployment.model} on {deployment.gpu}, {deployment.engine}"
            notes += [note for note in (_distance(metric, shift, where), _width(shift, where)) if note]
    return notes


def _distance(metric: str, shift: Shift, where: str) -> str:
    given = f"measured / predicted {shift.median_ratio:.3g}"
    least, most = bounds().get(metric, (0.0, np.inf))
    if not least <= shift.median_ratio <= most:
        # Within the range of runs once a thousandfold is taken away.
        unit = least <= shift.median_ratio / MILLISECOND <= most
        hint = " (as if seconds stood in a column of milliseconds)" if unit and shift.median_ratio < least else ""
        allowed = f"{least:.2g} to {most:.3g}, the range of all runs behind the coefficients"
        raise InputError(where, given, f"{allowed}; see to the unit, the layout and the precision{hint}")
    factor = float(np.exp(FAR * shift.prior_log_spread))
    if 1.0 / factor <= shift.median_ratio <= factor:
        return ""
    usual = f"{1.0 / factor:.2g} to {factor:.2g}, three times the spread of runs held out of the fit at this distance"
    return f"{where}: {given} lies outside {usual}; see to the unit, the layout and the precision"


def _width(shift: Shift, where: str) -> str:
    if shift.log_spread <= WIDER * shift.prior_log_spread:
        return ""
    return f"{where}: the interval widens, for your runs scatter more than those behind the coefficients did"

"""What the end-to-end check found for one accelerator: errors of its runs by fits without them, and where its intervals
come from (``accelerators`` in hardware_db/efficiency/intervals.yaml).

Intervals are conformal with a class for each accelerator that has :data:`LEAST_RUNS` runs of :data:`LEAST_MODELS`
models (Vovk et al. 2003, "Mondrian confidence machine"): an interval of all accelerators together holds on average over
them, and need not hold on any one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog.loader import data_root
from planner.evidence.e2e_keys import interval_document

Array = NDArray[np.float64]

LEAST_RUNS = 9
"""Runs from which an accelerator has intervals of its own: the least n with (n + 1) x 10 % >= 1, below which a tenth of
the probability beyond an end of the 80 % interval is more than the sample's own extremes can bound."""
LEAST_MODELS = 3
"""Models from which its errors are taken for the accelerator's: those of one or two are the models' or their records'
just as well, and say little of a third (in split halves of runs of one model the interval holds whatever they are)."""
HOLDS = 0.5
"""Part of an accelerator's runs inside the 80 % interval of all accelerators below which that one is said not to hold:
an interval that misses more often than it hits. (The quantiles of its own errors replace it whatever the part is.)"""
METRICS = ("tpot", "ttft")


@dataclass(frozen=True)
class AcceleratorCheck:
    """Errors of an accelerator's runs, each predicted by a fit without its whole group; fractions, by metric."""

    accelerator: str
    runs: int
    models: Sequence[str]
    median_ape: Mapping[str, float]
    inside80: Mapping[str, int]
    """Runs inside the 80 % interval that all accelerators together give."""
    own_intervals: bool

    @property
    def holds(self) -> bool:
        """Whether the interval of all accelerators holds for at least :data:`HOLDS` of its runs, by every metric."""
        return all(count >= HOLDS * self.runs for count in self.inside80.values())

    def text(self) -> str:
        """One sentence, with its parts joined by semicolons."""
        if not self.runs:
            return (
                f"No end-to-end run on {self.accelerator} was measured: how far its times may be off is taken from "
                "other accelerators"
            )
        runs = f"{self.runs:,} measured runs were" if self.runs > 1 else "1 measured run was"
        tpot, ttft = (f"{self.median_ape[m]:.0%}" for m in METRICS)
        parts = [
            f"On {self.accelerator} {runs} predicted with a median error of {tpot} in TPOT and {ttft} in TTFT, "
            "by fits without their layout"
        ]
        if len(self.models) == 1:
            parts.append(f"all are of {self.models[0].split('/')[-1]}")
        if not self.holds:
            parts.append(
                f"{self.inside80['tpot']:,} of {self.runs:,} TPOT and {self.inside80['ttft']:,} TTFT lie inside the "
                "80 % interval of all accelerators"
            )
        parts.append(
            "intervals here come from this accelerator's own errors"
            if self.own_intervals
            else "too few runs or models for intervals of their own, so those of all accelerators stand"
        )
        return "; ".join(parts)


def check_of(accelerator: str, directory: Path | None = None) -> AcceleratorCheck:
    """What is stored about an accelerator; one without runs where nothing is."""
    found = _document(directory).get("accelerators", {}).get(accelerator)
    if found is None:
        return AcceleratorCheck(accelerator, 0, (), {}, {}, False)
    return AcceleratorCheck(
        accelerator,
        int(found["runs"]),
        tuple(found["models"]),
        {m: float(found["held_out"][m]["median_ape"]) for m in METRICS},
        {m: int(found["held_out"][m]["inside80"]) for m in METRICS},
        "classes" in found,
    )


def residual_quantiles(kind: str, accelerator: str | None, directory: Path | None = None) -> Mapping[str, Any]:
    """Quantiles of log(measured / predicted) by metric at distance class ``kind``: the accelerator's own where it has
    enough runs, else those of all accelerators.
    """
    document = _document(directory)
    own = document.get("accelerators", {}).get(accelerator, {})
    return dict(own.get("classes", document["classes"])[kind])


def _document(directory: Path | None) -> Mapping[str, Any]:
    return interval_document(directory or data_root() / "hardware_db" / "efficiency")


def quantiles(values: Array, levels: Sequence[float]) -> Array:
    """Quantiles of a sample at the conformal positions (n + 1) q, between which they are interpolated: one more value
    falls below the q-th with probability q, whatever its distribution, where 1 <= (n + 1) q <= n.
    """
    return np.asarray(np.quantile(values, levels, method="weibull"))

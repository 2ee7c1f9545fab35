"""Runs whose times stand in another unit than their column says, told by how far they are from the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.evidence.runs import MEASURED, Runs

Array = NDArray[np.float64]

TIMES = ("ttft_ms", "tpot_ms")
UNIT_SLIP = (200.0, 5000.0)
"""Factor between predicted and measured that only another unit explains: a thousand, with the planner up to five times
off."""
NAMED = 5
"""Runs named in a sentence."""


def without_slips(
    runs: Runs, rows: NDArray[np.int64], predicted_ms: Mapping[str, Array]
) -> tuple[Runs, dict[str, int]]:
    """The runs without what those measured whose times stand in seconds, and how many they are, by sentence.

    ``predicted_ms`` has ttft_ms and tpot_ms of the runs at ``rows``, each of shape (m,). Only times about a thousandth
    of the prediction tell: no engine is so much faster, while requests that queue do take hundreds of times as long. A
    column in which every run is off is another matter: nothing is dropped from it.
    """
    dropped = np.zeros(len(runs), dtype=bool)
    said: dict[str, int] = {}
    low, high = UNIT_SLIP
    for metric in TIMES:
        measured, predicted = runs[metric][rows], predicted_ms[metric]
        known = np.isfinite(measured) & np.isfinite(predicted) & (measured > 0)
        times = np.where(known, predicted, 1.0) / np.where(known, measured, 1.0)
        off = known & (low < times) & (times < high)
        if off.any() and not np.array_equal(off, known):
            dropped[rows[off]] = True
            names = [_named(runs.text["run_id"][int(row)]) for row in rows[off]]
            others = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
            told = f"{metric} of {', '.join(names[:NAMED])}{others}"
            said[f"{told}: as if seconds stood in a column of milliseconds; left out"] = len(names)
    if not dropped.any():
        return runs, {}
    return replace(runs, numbers={**runs.numbers, **{m: np.where(dropped, np.nan, runs[m]) for m in MEASURED}}), said


def _named(run_id: str) -> str:
    return run_id if run_id.startswith("row ") else f"run {run_id}"

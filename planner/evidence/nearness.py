"""Which measured runs are nearest to a deployment, and in what they differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.evidence.evidence_table import EvidenceTable
from planner.evidence.run_terms import architecture_name

Array = NDArray[np.float64]

WEIGHTS = {"engine": 4.0, "gpu": 3.0, "model": 2.5, "serving": 1.5, "layout": 1.0}
"""What a difference counts: as the residuals of runs held out by that key grow (hardware_db/efficiency/intervals.yaml),
an engine most and a layout least."""
PER_DOUBLING = 0.15
"""What a factor of two in prompt length, output length or requests in flight counts."""


@dataclass(frozen=True)
class Place:
    """A deployment in the terms of a run; ``model`` is an architecture name, ``layout`` as e2e_keys.layout_text."""

    model: str
    gpu: str
    engine: str
    serving: str
    layout: str
    input_tokens: float
    output_tokens: float
    concurrency: float
    """Requests in flight in one worker (in a split deployment: in all of it)."""


@dataclass(frozen=True)
class Nearness:
    """How far each run is from a place, arrays (n,)."""

    score: Array
    """0 is the same deployment."""
    same: dict[str, NDArray[np.bool_]]
    """By key of WEIGHTS, whether a run agrees."""

    def order(self) -> NDArray[np.int64]:
        """Positions of the runs, nearest first."""
        return np.argsort(self.score, kind="stable")

    def agreeing(self, *keys: str) -> int:
        """Runs that agree in all of ``keys``."""
        return int(np.logical_and.reduce([self.same[k] for k in keys]).sum())


def nearness(table: EvidenceTable, place: Place) -> Nearness:
    """Distance of every run of ``table`` from ``place``: differences in kind, doublings in lengths and load."""
    text = table.runs.text
    architectures = {name: architecture_name(name) for name in set(text["model"])}
    found = {
        "engine": text["engine"],
        "gpu": text["gpu"],
        "model": [architectures[m] for m in text["model"]],
        "serving": text["serving"],
        "layout": table.layouts,
    }
    same = {key: np.array([v == getattr(place, key) for v in values], dtype=bool) for key, values in found.items()}
    score = np.zeros(len(table))
    for key, weight in WEIGHTS.items():
        score = score + np.where(same[key], 0.0, weight)
    for name in ("input_tokens", "output_tokens", "concurrency"):
        ratio = table.runs[name] / max(float(getattr(place, name)), 1.0)
        doublings = np.abs(np.log2(np.where(ratio > 0, ratio, 1.0)))
        score = score + PER_DOUBLING * np.nan_to_num(doublings, nan=10.0)
    return Nearness(score, same)

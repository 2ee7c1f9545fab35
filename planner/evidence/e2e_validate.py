"""Predicted against measured end-to-end runs: errors overall and by group, intervals, the worst rows with breakdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog.loader import Catalog
from planner.evidence.e2e_calibrate import shipped_coefficients
from planner.evidence.e2e_keys import distance_classes
from planner.evidence.intervals import intervals
from planner.evidence.profile_overlay import adjusted, read_overlays
from planner.evidence.run_predict import closed_loop_rps
from planner.evidence.run_terms import RunTerms, breakdown, predict, run_terms
from planner.evidence.runs import LAYOUT, Runs
from planner.evidence.unit_slips import UNIT_SLIP, without_slips
from planner.units import MILLISECOND

Array = NDArray[np.float64]

METRICS = ("ttft_ms", "tpot_ms")
"""What every table of measured runs has."""
INTERVAL_OF = {"ttft_ms": "ttft", "tpot_ms": "tpot", "output_tokens_per_s": "throughput"}
"""What runs may have measured, and the metric whose interval it has."""
WORST_ROWS = 10
CONCURRENCY_BANDS = (1, 4, 16, 64, 256, 1024)
LENGTH_BANDS = (1024, 4096, 8192, 16384)


def validate_e2e(runs: Runs, catalog: Catalog) -> dict[str, Any]:
    """The validation report of end-to-end runs: kind, rows, predicted, failed, assumptions, warnings, metrics, groups,
    worst, predictions. What a single run measured in another unit is left out, aloud.

    ``metrics`` has for ttft_ms, tpot_ms and output_tokens_per_s (of the whole deployment), where rows measured them,
    median_ape, mean_ape, p90_ape (of |predicted - measured| / measured), bias (median signed relative error),
    interval80_coverage and points, over rows whose speculative decoding is known to be off; the others are a group of
    their own. ``predictions`` keeps every row in order, with a reason where it has no prediction. Profiles of own runs
    in the catalogue shift and narrow the predictions of their deployments.
    """
    terms, failures = run_terms(runs, catalog)
    loop = predict(terms, shipped_coefficients(terms))
    output = runs["output_tokens"][terms.rows]
    values = {
        "ttft_ms": loop.ttft_s / MILLISECOND,
        "tpot_ms": loop.tpot_s / MILLISECOND,
        "output_tokens_per_s": output
        * closed_loop_rps(runs["concurrency"][terms.rows], output, loop.ttft_s, loop.tpot_s),
    }
    predicted = {name: _column(len(runs), terms.rows, values[name]) for name in INTERVAL_OF}
    distances = distance_classes(runs)
    spread = _column(len(runs), terms.rows, terms.curve_spread)
    bands = {
        name: intervals(distances, metric, predicted[name], spread, accelerators=runs.text["gpu"])
        for name, metric in INTERVAL_OF.items()
    }
    assumptions = list(runs.assumptions)
    if overlays := read_overlays(catalog.user_dir):
        for name, metric in INTERVAL_OF.items():
            predicted[name], bands[name], count = adjusted(overlays, runs, metric, predicted[name], bands[name])
            if count:
                assumptions.append(f"{name} of {count} rows as the catalogue's own runs of their deployment say")
    headline = np.array([s == "none" for s in runs.text["speculative"]], dtype=bool)
    kept, slipped = without_slips(runs, terms.rows, {name: values[name] for name in METRICS})
    report = Report(kept, predicted, bands)
    return {
        "kind": "e2e",
        "rows": len(runs),
        "predicted": int(terms.rows.size),
        "failed": dict(Counter(failures.values()).most_common()),
        "assumptions": assumptions,
        "warnings": slipped | _unit_warnings(report) | _apart(runs),
        "metrics": report.metrics(headline),
        "groups": report.groups(headline, distances),
        "worst": _worst(report, terms, headline),
        "predictions": report.rows(failures),
    }


class Report:
    """Errors of selections of runs: ``predicted`` and ``bands`` by metric, arrays (n,)."""

    def __init__(self, runs: Runs, predicted: Mapping[str, Array], bands: Mapping[str, Any]) -> None:
        self.runs, self.predicted, self.bands = runs, predicted, bands

    def error(self, metric: str) -> Array:
        """Signed relative error of every run, NaN where it is not predicted or not measured, (n,)."""
        measured = self.runs[metric]
        known = np.isfinite(measured) & (measured > 0)
        return np.where(known, self.predicted[metric] / np.where(known, measured, 1.0) - 1.0, np.nan)

    def metrics(self, rows: NDArray[np.bool_]) -> dict[str, dict[str, float]]:
        """Errors, bias and coverage of the 80 % interval by metric over ``rows`` (n,); metrics without a row are left
        out.
        """
        out: dict[str, dict[str, float]] = {}
        for metric in self.predicted:
            error = self.error(metric)
            chosen = rows & np.isfinite(error)
            if not chosen.any():
                continue
            ape = np.abs(error[chosen])
            band, measured = self.bands[metric], self.runs[metric]
            inside = (measured >= band.low80) & (measured <= band.high80)
            out[metric] = {
                "median_ape": float(np.median(ape)),
                "mean_ape": float(np.mean(ape)),
                "p90_ape": float(np.quantile(ape, 0.9)),
                "bias": float(np.median(error[chosen])),
                "interval80_coverage": float(np.mean(inside[chosen])),
                "points": int(chosen.sum()),
            }
        return out

    def groups(self, headline: NDArray[np.bool_], distances: Sequence[str]) -> list[dict[str, Any]]:
        """:meth:`metrics` of every value of every key of :data:`GROUPS`, over the ``headline`` rows."""
        keys = {name: key(self.runs) for name, key in GROUPS.items()} | {"distance": list(distances)}
        found: list[dict[str, Any]] = []
        for name, values in keys.items():
            labels = np.array(values, dtype=object)
            for value in _in_order(name, values):
                chosen = (labels == value) & (headline | (name == "speculative"))
                metrics = self.metrics(chosen)
                if metrics:
                    found.append({"group": name, "value": value, "rows": int(chosen.sum()), "metrics": metrics})
        return found

    def rows(self, failures: Mapping[int, str]) -> list[dict[str, Any]]:
        """Every run in order: measured, predicted, interval; the reason where it has no prediction."""
        out: list[dict[str, Any]] = []
        for row in range(len(self.runs)):
            line: dict[str, Any] = {"run_id": self.runs.text["run_id"][row]}
            for metric in self.predicted:
                line |= {
                    f"measured_{metric}": _cell(self.runs[metric][row]),
                    f"predicted_{metric}": _cell(self.predicted[metric][row]),
                    f"low80_{metric}": _cell(self.bands[metric].low80[row]),
                    f"high80_{metric}": _cell(self.bands[metric].high80[row]),
                }
            out.append(line | {"reason": failures.get(row, "")})
        return out


def _unit_warnings(report: Report) -> dict[str, int]:
    """Columns of times that differ about a thousandfold from the predicted ones: runs by sentence."""
    found: dict[str, int] = {}
    for metric in METRICS:
        ratio = report.error(metric) + 1.0
        ratio = ratio[np.isfinite(ratio) & (ratio > 0)]
        if not ratio.size:
            continue
        factor = float(np.median(ratio))
        low, high = UNIT_SLIP
        for times, how, unit in ((factor, "{:,.0f} times", "seconds"), (1.0 / factor, "1/{:,.0f} of", "microseconds")):
            if low < times < high:
                told = f"{metric}: predicted values are {how.format(times)} the measured ones"
                found[f"{told}, as if {unit} stood in a column of milliseconds; nothing was changed"] = int(ratio.size)
    return found


def _apart(runs: Runs) -> dict[str, int]:
    """Runs that are no part of the errors, by sentence."""
    others = Counter(word for word in runs.text["speculative"] if word != "none")
    return {
        f"speculative decoding {word}: predicted as without, a group of its own and no part of the errors": count
        for word, count in others.items()
    }


def _worst(report: Report, terms: RunTerms, headline: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """The rows with the largest ratio between predicted and measured, with the terms of their two steps."""
    ratios = np.array([np.abs(np.log(report.error(m) + 1.0)) for m in report.predicted])
    size = np.where(headline, np.nan_to_num(ratios, nan=0.0).max(axis=0), 0.0)
    parts = breakdown(terms, shipped_coefficients(terms))
    position = {int(row): i for i, row in enumerate(terms.rows)}
    out: list[dict[str, Any]] = []
    for row in np.argsort(-size, kind="stable")[:WORST_ROWS]:
        if size[row] <= 0.0:
            break
        identity = {k: v for k, v in report.runs.identity(int(row)).items() if v}
        numbers = {k: _cell(report.runs[k][row]) for k in ("input_tokens", "output_tokens", "concurrency", *LAYOUT)}
        out.append(
            identity
            | {k: v for k, v in numbers.items() if v is not None}
            | {f"measured_{m}": _cell(report.runs[m][row]) for m in report.predicted}
            | {f"predicted_{m}": _cell(report.predicted[m][row]) for m in report.predicted}
            | {"breakdown_ms": {k: float(v[position[int(row)]] / MILLISECOND) for k, v in parts.items()}}
        )
    return out


def _text(name: str, missing: str = "not recorded") -> Callable[[Runs], list[str]]:
    return lambda runs: [value or missing for value in runs.text[name]]


def _precision(runs: Runs) -> list[str]:
    pairs = zip(runs.text["linear_precision"], runs.text["moe_precision"], strict=True)
    return [f"{linear or 'checkpoint'}/{moe}" if moe else linear or "checkpoint" for linear, moe in pairs]


def _band(values: Array, edges: Sequence[int]) -> list[str]:
    """Bands ``low-high`` between edges, the last one open."""
    names = _band_names(edges)
    return [names[int(np.searchsorted(edges, v))] if np.isfinite(v) else "not recorded" for v in values]


def _band_names(edges: Sequence[int]) -> list[str]:
    return [f"up to {edges[0]}", *(f"{a + 1} to {b}" for a, b in pairwise(edges)), f"over {edges[-1]}"]


GROUPS: Mapping[str, Callable[[Runs], list[str]]] = {
    "model": _text("model"),
    "gpu": _text("gpu"),
    "engine": _text("engine"),
    "precision": _precision,
    "serving": _text("serving"),
    "concurrency": lambda runs: _band(runs["concurrency"], CONCURRENCY_BANDS),
    "input_tokens": lambda runs: _band(runs["input_tokens"], LENGTH_BANDS),
    "output_tokens": lambda runs: _band(runs["output_tokens"], LENGTH_BANDS),
    "bench": _text("bench"),
    "speculative": _text("speculative"),
}
"""How runs are grouped in the report."""


_EDGES = {"concurrency": CONCURRENCY_BANDS, "input_tokens": LENGTH_BANDS, "output_tokens": LENGTH_BANDS}


def _in_order(name: str, values: Sequence[str]) -> list[str]:
    """The distinct values of a key: bands by size, others as they come."""
    found = list(dict.fromkeys(values))
    if name not in _EDGES:
        return found
    return [band for band in (*_band_names(_EDGES[name]), "not recorded") if band in found]


def _column(size: int, rows: NDArray[np.int64], values: Array) -> Array:
    out = np.full(size, np.nan)
    out[rows] = values
    return out


def _cell(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

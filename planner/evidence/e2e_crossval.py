"""Cross-validation of the end-to-end fit by whole groups, and the intervals that follow from it.

Folds never split what a user would call one measurement: ``group`` leaves out whole (model, accelerator, engine,
precision, mode, layout) groups in ten folds; ``model``, ``gpu``, ``engine_version`` and ``engine`` leave out one of
each at a time; ``run`` leaves out single runs, whose layouts stay seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from planner.catalog.loader import Catalog
from planner.evidence.accelerator_check import LEAST_MODELS, LEAST_RUNS, quantiles
from planner.evidence.e2e_calibrate import usable
from planner.evidence.e2e_fit import coefficients_of, fit, settings
from planner.evidence.e2e_keys import EVIDENCE_FILE, evidence_of, group_keys
from planner.evidence.run_terms import RunTerms, predict, run_terms
from planner.evidence.runs import Runs
from planner.units import MILLISECOND

Array = NDArray[np.float64]

FOLDS = 10
SEED = 1
SCHEMES: Mapping[str, str] = {
    "run": "single runs left out (layout seen)",
    "group": "whole groups left out (model, GPU, engine, precision, layout), ten folds",
    "model": "one model left out at a time",
    "gpu": "one GPU left out at a time",
    "engine_version": "one engine version left out at a time",
    "engine": "one engine left out at a time",
}
DISTANCE_OF_SCHEME: Mapping[str, str] = {
    "run": "seen_layout",
    "group": "new_layout",
    "model": "new_model",
    "gpu": "new_gpu",
    "engine": "new_engine",
}
"""Distance class (planner.evidence.e2e_keys) whose error a scheme shows."""


@dataclass(frozen=True)
class Residuals:
    """log(predicted / measured) of held-out runs, (n,) in the order of ``terms.rows``; NaN where not measured."""

    rows: NDArray[np.int64]
    tpot: Array
    ttft: Array
    throughput: Array

    def take(self, chosen: NDArray[np.bool_]) -> Residuals:
        """The residuals of the runs ``chosen`` (n,)."""
        return Residuals(self.rows[chosen], self.tpot[chosen], self.ttft[chosen], self.throughput[chosen])


def cross_validate(runs: Runs, catalog: Catalog, schemes: Sequence[str] = tuple(SCHEMES)) -> dict[str, Residuals]:
    """Residuals of every usable run, predicted by coefficients fitted without it, under each scheme."""
    terms, _ = run_terms(runs, catalog)
    used = terms.take(usable(runs, terms.rows))
    how = settings()
    tpot, ttft = runs["tpot_ms"][used.rows] * MILLISECOND, runs["ttft_ms"][used.rows] * MILLISECOND
    start = fit(used, tpot, ttft, how)
    found: dict[str, Residuals] = {}
    for scheme in schemes:
        labels = fold_labels(runs.take(used.rows), scheme)

        def held_out(label: Any, labels: NDArray[Any] = labels) -> tuple[NDArray[np.bool_], Array, Array]:
            out = labels == label
            fits = fit(used.take(~out), tpot[~out], ttft[~out], how, start)
            loop = predict(used.take(out), coefficients_of(fits, used.take(out), how))
            return out, loop.tpot_s, loop.ttft_s

        predicted_tpot, predicted_ttft = np.full(tpot.size, np.nan), np.full(tpot.size, np.nan)
        with ThreadPoolExecutor(max_workers=2) as pool:
            for out, a, b in pool.map(held_out, dict.fromkeys(labels.tolist())):
                predicted_tpot[out], predicted_ttft[out] = a, b
        found[scheme] = _residuals(used, predicted_tpot, predicted_ttft, tpot, ttft)
    return found


def _residuals(used: RunTerms, tpot_p: Array, ttft_p: Array, tpot: Array, ttft: Array) -> Residuals:
    """Throughput of a closed loop is C / (TTFT + (O - 1) TPOT): its residual follows from the other two."""
    out = np.maximum(used.output_tokens - 1.0, 1.0)
    whole = np.log((ttft + out * tpot) / (ttft_p + out * tpot_p))
    return Residuals(used.rows, np.log(tpot_p / tpot), np.log(ttft_p / ttft), whole)


def fold_labels(runs: Runs, scheme: str) -> NDArray[Any]:
    """Fold of each run, (n,)."""
    rng = np.random.default_rng(SEED)
    if scheme == "run":
        return np.asarray(rng.permutation(len(runs)) % FOLDS)
    if scheme == "group":
        keys = group_keys(runs)
        distinct = sorted(set(keys))
        fold = dict(zip(distinct, rng.permutation(len(distinct)) % FOLDS, strict=True))
        return np.array([fold[key] for key in keys])
    if scheme == "engine_version":
        versions = zip(runs.text["engine"], runs.text["engine_version"], strict=True)
        return np.array([f"{engine} {version}" for engine, version in versions], dtype=object)
    return np.array(runs.text[scheme], dtype=object)


def errors(residuals: Residuals) -> dict[str, dict[str, float]]:
    """Median and P90 absolute percentage error and median bias, for tpot and ttft."""
    out: dict[str, dict[str, float]] = {}
    for name in ("tpot", "ttft"):
        ratio = np.exp(getattr(residuals, name))
        ratio = ratio[np.isfinite(ratio)]
        ape = np.abs(ratio - 1.0)
        out[name] = {
            "runs": int(ratio.size),
            "median_ape": float(np.median(ape)),
            "p90_ape": float(np.quantile(ape, 0.9)),
            "bias": float(np.median(ratio) - 1.0),
        }
    return out


QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def interval_classes(found: Mapping[str, Residuals], chosen: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Quantiles of log(measured / predicted) by distance class and metric, with the number of runs behind them: of all
    runs, or of those ``chosen`` (n,).
    """
    classes: dict[str, Any] = {}
    for scheme, name in DISTANCE_OF_SCHEME.items():
        classes[name] = {}
        for metric in ("tpot", "ttft", "throughput"):
            values = -getattr(found[scheme], metric)
            values = values[np.isfinite(values) & (True if chosen is None else chosen)]
            edges = zip(QUANTILES, quantiles(values, QUANTILES), strict=True)
            classes[name][metric] = {f"q{round(100 * q)}": round(float(v), 4) for q, v in edges}
            classes[name][metric]["count"] = int(values.size)
    return classes


def accelerator_classes(runs: Runs, found: Mapping[str, Residuals]) -> dict[str, Any]:
    """By accelerator: its runs and models, their errors with whole groups left out, how many of them the 80 % interval
    of all accelerators holds and, from LEAST_RUNS of LEAST_MODELS on, quantiles as in :func:`interval_classes` of its
    runs alone.
    """
    residuals = found["group"]
    everywhere = interval_classes(found)[DISTANCE_OF_SCHEME["group"]]
    gpus = np.array([runs.text["gpu"][row] for row in residuals.rows])
    out: dict[str, Any] = {}
    for gpu in sorted(set(gpus.tolist())):
        mine = gpus == gpu
        held_out = errors(residuals.take(mine))
        for metric, figures in held_out.items():
            values, edges = -getattr(residuals, metric)[mine], everywhere[metric]
            figures["inside80"] = int(((values >= edges["q10"]) & (values <= edges["q90"])).sum())
            figures |= {name: round(figures[name], 4) for name in ("median_ape", "p90_ape", "bias")}
        out[gpu] = {
            "runs": int(mine.sum()),
            "models": sorted({runs.text["model"][row] for row in residuals.rows[mine]}),
            "held_out": held_out,
        }
        if mine.sum() >= LEAST_RUNS and len(out[gpu]["models"]) >= LEAST_MODELS:
            out[gpu]["classes"] = interval_classes(found, mine)
    return out


def coverage(found: Mapping[str, Residuals], chosen: NDArray[np.bool_] | None = None) -> dict[str, dict[str, float]]:
    """Share of runs inside the 80 % interval of their class when the interval comes from the other half of the runs;
    of all runs, or of those ``chosen`` (n,).
    """
    out: dict[str, dict[str, float]] = {}
    for scheme, name in DISTANCE_OF_SCHEME.items():
        out[name] = {}
        for metric in ("tpot", "ttft", "throughput"):
            values = getattr(found[scheme], metric)
            values = values if chosen is None else values[chosen]
            inside, total = 0, 0
            for mine, other in _halves(values.size):
                low, high = quantiles(values[other][np.isfinite(values[other])], (0.1, 0.9))
                seen = values[mine][np.isfinite(values[mine])]
                inside += int(((seen >= low) & (seen <= high)).sum())
                total += int(seen.size)
            out[name][metric] = inside / max(total, 1)
    return out


def _halves(size: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    half = np.random.default_rng(SEED).permutation(size) % 2 == 0
    yield half, ~half
    yield ~half, half


def evidence_document(runs: Runs, found: Mapping[str, Residuals]) -> dict[str, Any]:
    """What intervals.yaml holds: quantiles by distance class, of all runs and by accelerator, and the evidence from
    which distance is measured.
    """
    rows = next(iter(found.values())).rows
    return {
        "source": "measured/e2e_runs.csv: log(measured / predicted) of runs held out of the fit",
        "classes": interval_classes(found),
        "accelerators": accelerator_classes(runs, found),
        "evidence": evidence_of(runs, rows),
    }


HEADER = (
    "# Written by `planner calibrate e2e measured --cross-validate --out hardware_db/efficiency`; do not edit.\n"
    "# Quantiles of log(measured / predicted) by distance to the evidence, of all accelerators and of those with\n"
    f"# {LEAST_RUNS} runs of {LEAST_MODELS} models or more by their own (held_out: whole groups left out, and how\n"
    "# many of its runs the interval of all accelerators holds), and what that evidence is.\n"
)


def write_intervals(folder: Path, runs: Runs, found: Mapping[str, Residuals]) -> None:
    """Write intervals.yaml into ``folder``."""
    text = yaml.safe_dump(evidence_document(runs, found), sort_keys=False, width=120)
    (folder / EVIDENCE_FILE).write_text(HEADER + text, encoding="utf-8")

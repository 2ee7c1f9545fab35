"""``planner calibrate e2e``: coefficients of the engines from measured serving runs, written as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from planner.catalog.loader import Catalog
from planner.evidence.e2e_fit import (
    HOST_UNITS,
    NAMES,
    PHASES,
    EngineFit,
    Settings,
    arrays,
    coefficients_of,
    column_logs,
    fit,
    pooled_logs,
    settings,
)
from planner.evidence.run_terms import CoefficientArrays, RunTerms, predict, run_terms
from planner.evidence.runs import Runs, read_runs
from planner.roofline.coefficients import HOST_KEYS, factor_key, step_coefficients
from planner.units import MILLISECOND

Array = NDArray[np.float64]


def shipped_coefficients(terms: RunTerms, directory: Path | None = None) -> CoefficientArrays:
    """The calibrated coefficients of the shipped files (or those in ``directory``) for every run."""
    pairs = list(zip(terms.engine, terms.generation, strict=True))
    if not pairs:
        return arrays(np.zeros((0, len(NAMES))))
    distinct = sorted(set(pairs))
    index = np.array([distinct.index(pair) for pair in pairs], dtype=np.int64)
    found = [step_coefficients(*pair, directory) for pair in distinct]

    def column(name: str) -> Array:
        return np.array([getattr(c, name) for c in found], dtype=float)[index]

    hosts = {name: column(name) for name in HOST_UNITS}
    return CoefficientArrays(**hosts, decode=column("decode_factors"), prefill=column("prefill_factors"))


def usable(runs: Runs, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Runs that may be fitted: speculative decoding known to be off."""
    return np.array([runs.text["speculative"][r] == "none" for r in rows], dtype=bool)


def calibrate_e2e(measured: Path, out: Path | None, catalog: Catalog) -> dict[str, Any]:
    """Fit on ``measured``/e2e_runs.csv and write e2e.yaml into the folder ``out`` (None: only return the document)."""
    runs = read_runs(measured / "e2e_runs.csv")
    how = settings()
    terms, failures = run_terms(runs, catalog)
    keep = usable(runs, terms.rows)
    used = terms.take(keep)
    tpot, ttft = runs["tpot_ms"][used.rows] * MILLISECOND, runs["ttft_ms"][used.rows] * MILLISECOND
    fits = fit(used, tpot, ttft, how)
    document = to_document(fits, used, tpot, ttft, how, excluded=int((~keep).sum()), failed=len(failures))
    if out is not None:
        text = yaml.safe_dump(document, sort_keys=False, width=120)
        (out / "e2e.yaml").write_text(HEADER + text, encoding="utf-8")
    return document


HEADER = (
    "# Written by `planner calibrate e2e measured --out hardware_db/efficiency`; do not edit. Units are in the keys.\n"
)


def to_document(
    fits: Mapping[str, EngineFit],
    terms: RunTerms,
    tpot_s: Array,
    ttft_s: Array,
    how: Settings,
    excluded: int,
    failed: int,
) -> dict[str, Any]:
    """The fitted coefficients with counts and in-sample residuals, as written to e2e.yaml."""
    loop = predict(terms, coefficients_of(fits, terms, how))
    engines = np.array(terms.engine)
    generations = np.array(terms.generation)

    def values(logs: Array, mask: NDArray[np.bool_]) -> dict[str, Any]:
        return _plain(logs) | {
            "runs": int(mask.sum()),
            "residuals": _residuals(loop.tpot_s, tpot_s, loop.ttft_s, ttft_s, mask),
        }

    by_engine = {
        name: {
            "pooled": values(found.engine, engines == name),
            "generations": {
                g: values(logs, (engines == name) & (generations == g)) for g, logs in found.generations.items()
            },
        }
        for name, found in fits.items()
    }
    everything = np.ones(engines.size, dtype=bool)
    return {
        "source": "measured/e2e_runs.csv (NVIDIA AIConfigurator 0.12.0, Apache-2.0; largely SemiAnalysis InferenceX)",
        "date": date.today().isoformat(),
        "excluded": {"speculative_unknown": excluded, "not_predictable": failed},
        "pooled": {"pooled": values(pooled_logs(fits, how), everything), "generations": {}},
        "engines": by_engine,
    }


def _plain(logs: Array) -> dict[str, Any]:
    host = {name: _short(np.exp(logs[i])) for i, name in enumerate(HOST_KEYS)}
    factors = {
        phase: {factor_key(i): _short(np.exp(v)) for i, v in enumerate(column_logs(logs, phase))} for phase in PHASES
    }
    return host | factors


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _residuals(tpot: Array, tpot_m: Array, ttft: Array, ttft_m: Array, mask: NDArray[np.bool_]) -> dict[str, float]:
    if not mask.any():
        return {}
    out: dict[str, float] = {}
    for name, predicted, measured in (("tpot", tpot, tpot_m), ("ttft", ttft, ttft_m)):
        ratio = (predicted / measured)[mask]
        ratio = ratio[np.isfinite(ratio)]
        out |= {
            f"{name}_median_ape": round(float(np.median(np.abs(ratio - 1.0))), 4),
            f"{name}_p90_ape": round(float(np.quantile(np.abs(ratio - 1.0), 0.9)), 4),
            f"{name}_bias": round(float(np.median(ratio) - 1.0), 4),
        }
    return out

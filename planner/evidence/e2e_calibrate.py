"""End-to-end coefficients from measured serving runs, few and physical, pooled over accelerator generations.

Per engine: five host times and eight factors on operator families (four for steps without prompt tokens, four with), all positive and
fitted in their logarithm. A generation may deviate from its engine, an engine from a common prior; both are held back by Gaussian
penalties (partial pooling), so that a group with few runs stays near what the others say. There is no coefficient per model, layout or run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from planner.catalog.files import read_yaml
from planner.catalog.loader import Catalog, data_root
from planner.evidence.run_terms import CoefficientArrays, RunTerms, predict, run_terms
from planner.evidence.runs import Runs, read_runs
from planner.roofline.coefficients import FAMILIES, HOST_KEYS, step_coefficients
from planner.units import MICROSECOND, MILLISECOND

Array = NDArray[np.float64]

HOST_UNITS = (MICROSECOND, MICROSECOND, MICROSECOND, MICROSECOND, MILLISECOND)
NAMES = (*HOST_KEYS, *(f"decode_{f}" for f in FAMILIES), *(f"prefill_{f}" for f in FAMILIES))


@dataclass(frozen=True)
class Settings:
    """What the fit assumes before it sees a run: hardware_db/efficiency/e2e_prior.yaml."""

    prior: Array
    """Logarithms of the common prior, in the order of NAMES."""
    prior_spread: Array
    """Standard deviation of an engine's logarithms around the prior."""
    generation_spread: Array
    """Standard deviation of a generation's logarithms around its engine."""
    tpot_spread: float
    ttft_spread: float
    """Residual of a logarithm beyond which a run counts as an outlier (soft-L1)."""


@dataclass(frozen=True)
class EngineFit:
    """Fitted logarithms of one engine: its own and each generation's, in the order of NAMES."""

    engine: Array
    generations: dict[str, Array]


def settings(directory: Path | None = None) -> Settings:
    """The shipped priors, or those in ``directory``."""
    data = read_yaml((directory or data_root() / "hardware_db" / "efficiency") / "e2e_prior.yaml")
    rows = [data["coefficients"][name] for name in NAMES]
    return Settings(
        prior=np.log([row["value"] for row in rows]),
        prior_spread=np.array([row["spread"] for row in rows], dtype=float),
        generation_spread=np.array([row["generation_spread"] for row in rows], dtype=float),
        tpot_spread=float(data["residuals"]["tpot"]),
        ttft_spread=float(data["residuals"]["ttft"]),
    )


def fit(terms: RunTerms, tpot_s: Array, ttft_s: Array, how: Settings) -> dict[str, EngineFit]:
    """Coefficients of every engine among the runs; ``tpot_s`` and ``ttft_s`` measured, NaN where missing."""
    engines = np.array(terms.engine)
    fits: dict[str, EngineFit] = {}
    for name in sorted(set(terms.engine)):
        mask = engines == name
        fits[name] = _fit_engine(terms.take(mask), tpot_s[mask], ttft_s[mask], how)
    return fits


def _fit_engine(terms: RunTerms, tpot_s: Array, ttft_s: Array, how: Settings) -> EngineFit:
    from scipy.optimize import least_squares

    generations = sorted(set(terms.generation))
    of = np.array([generations.index(g) for g in terms.generation])
    size = len(NAMES)
    log_tpot, log_ttft = np.log(tpot_s), np.log(ttft_s)
    has_tpot, has_ttft = np.isfinite(log_tpot), np.isfinite(log_ttft)

    def unpack(x: Array) -> tuple[Array, Array]:
        base = how.prior + x[:size] * how.prior_spread
        deviations = x[size:].reshape(len(generations), size) * how.generation_spread
        return base, base + deviations

    def residuals(x: Array) -> Array:
        _, by_generation = unpack(x)
        loop = predict(terms, arrays(by_generation[of]))
        tpot = (np.log(loop.tpot_s) - log_tpot)[has_tpot] / how.tpot_spread
        ttft = (np.log(loop.ttft_s) - log_ttft)[has_ttft] / how.ttft_spread
        # soft-L1 on the runs, plain squares on the penalties: the robust loss is applied here so that it spares the priors.
        return np.concatenate([_soft(tpot), _soft(ttft), x])

    start = np.zeros(size * (1 + len(generations)))
    x = least_squares(residuals, start, method="trf", x_scale=1.0, max_nfev=60).x
    base, by_generation = unpack(x)
    return EngineFit(base, dict(zip(generations, by_generation, strict=True)))


def _soft(z: Array) -> Array:
    """Residuals whose squares are the soft-L1 loss 2 (sqrt(1 + z^2) - 1)."""
    return np.asarray(np.sign(z) * np.sqrt(2.0 * (np.sqrt(1.0 + z * z) - 1.0)))


def arrays(logs: Array) -> CoefficientArrays:
    """Coefficients in SI units from logarithms (n, len(NAMES))."""
    values = np.exp(logs)
    host = [values[:, i] * unit for i, unit in enumerate(HOST_UNITS)]
    step, prefill_step, seq, layer, request = host
    first = len(HOST_KEYS)
    return CoefficientArrays(
        host_step_s=step,
        host_prefill_step_s=prefill_step,
        host_seq_s=seq,
        layer_overhead_s=layer,
        request_s=request,
        decode=values[:, first : first + len(FAMILIES)],
        prefill=values[:, first + len(FAMILIES) :],
    )


def coefficients_of(fits: Mapping[str, EngineFit], terms: RunTerms, how: Settings) -> CoefficientArrays:
    """Coefficients for every run: its generation's, else its engine's, else the mean over engines."""
    pooled = pooled_logs(fits, how)
    rows = []
    for engine, generation in zip(terms.engine, terms.generation, strict=True):
        found = fits.get(engine)
        rows.append(pooled if found is None else found.generations.get(generation, found.engine))
    return arrays(np.array(rows))


def shipped_coefficients(terms: RunTerms) -> CoefficientArrays:
    """The calibrated coefficients of the shipped files for every run."""
    pairs = list(zip(terms.engine, terms.generation, strict=True))
    distinct = sorted(set(pairs))
    index = np.array([distinct.index(pair) for pair in pairs], dtype=np.int64)
    found = [step_coefficients(*pair) for pair in distinct]

    def column(name: str) -> Array:
        return np.array([getattr(c, name) for c in found], dtype=float)[index]

    if not found:
        return arrays(np.zeros((0, len(NAMES))))
    return CoefficientArrays(
        host_step_s=column("host_step_s"),
        host_prefill_step_s=column("host_prefill_step_s"),
        host_seq_s=column("host_seq_s"),
        layer_overhead_s=column("layer_overhead_s"),
        request_s=column("request_s"),
        decode=column("decode_factors"),
        prefill=column("prefill_factors"),
    )


def pooled_logs(fits: Mapping[str, EngineFit], how: Settings) -> Array:
    """Mean of the engines' logarithms; the prior where there is none."""
    return np.mean([f.engine for f in fits.values()], axis=0) if fits else how.prior


def usable(runs: Runs, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Runs that may be fitted: speculative decoding known to be off."""
    return np.array([runs.text["speculative"][r] == "none" for r in rows])


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
    values = [float(f"{v:.5g}") for v in np.exp(logs)]
    first, second = len(HOST_KEYS), len(HOST_KEYS) + len(FAMILIES)
    return dict(zip(HOST_KEYS, values[:first], strict=True)) | {
        "decode": dict(zip(FAMILIES, values[first:second], strict=True)),
        "prefill": dict(zip(FAMILIES, values[second:], strict=True)),
    }


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

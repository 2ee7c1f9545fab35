"""Robust, partially pooled fit of end-to-end coefficients: least squares in logarithms, held back by Gaussian priors.

Per engine and accelerator generation: eight host and launch times and eight factors on operator families (four in
steps without prompt tokens, four in steps with), and for the families whose kernels differ by data type a deviation of
each type. A generation may deviate from its engine, an engine from a common prior, a type from its family; all are held
back by penalties, so that a group with few runs stays near what the others say. There is no coefficient per model,
layout or run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.evidence.run_terms import CoefficientArrays, RunTerms, predict
from planner.roofline.coefficients import COLUMNS, FAMILIES, HOST_KEYS, nearest_generation
from planner.units import MICROSECOND, MILLISECOND

Array = NDArray[np.float64]

_UNITS = {"us": MICROSECOND, "ms": MILLISECOND}
HOST_UNITS = {f"{key.rsplit('_', 1)[0]}_s": _UNITS[key.rsplit("_", 1)[1]] for key in HOST_KEYS}
"""Field of the coefficients in seconds -> unit of its number in e2e.yaml."""
PHASES = ("decode", "prefill")
BASE = (*HOST_KEYS, *(f"{phase}_{f}" for phase in PHASES for f in FAMILIES))
"""Logarithms that an engine has; generations deviate in the same."""
TYPED = tuple(f"{phase}_{f}_{kind}" for phase in PHASES for f, kind in COLUMNS if kind)
"""Deviations of data types from their family, which only generations have."""
NAMES = (*BASE, *TYPED)

_STEP = 1e-4
"""Relative step of the numerical derivative."""


@dataclass(frozen=True)
class Settings:
    """What the fit assumes before it sees a run: hardware_db/efficiency/e2e_prior.yaml."""

    prior: Array
    """Logarithms of the common prior, in the order of BASE."""
    prior_spread: Array
    """Standard deviation of an engine's logarithms around the prior."""
    generation_spread: Array
    """Standard deviation of a generation's logarithms around its engine, in the order of NAMES."""
    tpot_spread: float
    ttft_spread: float
    """Residual of a logarithm that counts as one standard deviation."""
    outlier: float
    """Standard deviations that a run's residual counts for at most."""
    nearest: Mapping[str, tuple[str, ...]]
    """Generations that stand in for one without runs, nearest first."""


@dataclass(frozen=True)
class EngineFit:
    """Fitted logarithms of one engine: its own and each generation's, in the order of NAMES."""

    engine: Array
    generations: dict[str, Array]


def settings(directory: Path | None = None) -> Settings:
    """The shipped priors, or those in ``directory``."""
    folder = directory or data_root() / "hardware_db" / "efficiency"
    data = read_yaml(folder / "e2e_prior.yaml")
    family, kind = data["factors"]["family"], data["factors"]["type"]
    rows = [*(data["coefficients"][key] for key in HOST_KEYS), *(family[f] for _ in PHASES for f in FAMILIES)]
    spreads = [row["generation_spread"] for row in rows] + [kind["spread"]] * len(TYPED)
    return Settings(
        prior=np.log([row["value"] for row in rows]),
        prior_spread=np.array([row["spread"] for row in rows], dtype=float),
        generation_spread=np.array(spreads, dtype=float),
        tpot_spread=float(data["residuals"]["tpot"]),
        ttft_spread=float(data["residuals"]["ttft"]),
        outlier=float(data["residuals"]["outlier"]),
        nearest=read_yaml(folder / "assumed.yaml")["nearest_generation"],
    )


def fit(
    terms: RunTerms, tpot_s: Array, ttft_s: Array, how: Settings, start: Mapping[str, EngineFit] | None = None
) -> dict[str, EngineFit]:
    """Coefficients of every engine among the runs; ``tpot_s`` and ``ttft_s`` measured, NaN where missing.

    ``start`` is an earlier fit on nearly the same runs, from which this one sets out.
    """
    engines = np.array(terms.engine)
    fits: dict[str, EngineFit] = {}
    for name in sorted(set(terms.engine)):
        mask = engines == name
        fits[name] = _fit_engine(terms.take(mask), tpot_s[mask], ttft_s[mask], how, (start or {}).get(name))
    return fits


def _fit_engine(terms: RunTerms, tpot_s: Array, ttft_s: Array, how: Settings, start: EngineFit | None) -> EngineFit:
    from scipy.optimize import least_squares

    generations = sorted(set(terms.generation))
    of = np.array([generations.index(g) for g in terms.generation])
    base, size = len(BASE), len(NAMES)
    log_tpot, log_ttft = np.log(tpot_s), np.log(ttft_s)
    has_tpot, has_ttft = np.isfinite(log_tpot), np.isfinite(log_ttft)
    row_of = np.concatenate([np.flatnonzero(has_tpot), np.flatnonzero(has_ttft)])

    def unpack(x: Array) -> tuple[Array, Array]:
        engine = np.concatenate([how.prior + x[:base] * how.prior_spread, np.zeros(len(TYPED))])
        deviations = x[base:].reshape(len(generations), size) * how.generation_spread
        return engine, engine + deviations

    def data_residuals(logs: Array) -> Array:
        loop = predict(terms, arrays(logs))
        tpot = (np.log(loop.tpot_s) - log_tpot)[has_tpot] / how.tpot_spread
        ttft = (np.log(loop.ttft_s) - log_ttft)[has_ttft] / how.ttft_spread
        return np.concatenate([robust(tpot, how.outlier), robust(ttft, how.outlier)])

    def residuals(x: Array) -> Array:
        # The robust loss is applied to runs only, the priors' penalties stay plain squares.
        return np.concatenate([data_residuals(unpack(x)[1][of]), x])

    def jacobian(x: Array) -> Array:
        logs = unpack(x)[1][of]
        at = data_residuals(logs)
        out = np.zeros((at.size + x.size, x.size))
        out[at.size :] = np.eye(x.size)
        data = out[: at.size]
        for j in range(size):
            # One run sees one value of coefficient j, so a single step serves the engine's and all its generations'.
            logs[:, j] += _STEP
            slope = (data_residuals(logs) - at) / _STEP
            logs[:, j] -= _STEP
            if j < base:
                data[:, j] = slope * how.prior_spread[j]
            for g in range(len(generations)):
                mine = of[row_of] == g
                data[mine, base + g * size + j] = slope[mine] * how.generation_spread[j]
        return out

    x0 = np.zeros(base + size * len(generations))
    if start is not None:
        x0[:base] = (start.engine[:base] - how.prior) / how.prior_spread
        for g, name in enumerate(generations):
            known = start.generations.get(name, start.engine)
            x0[base + g * size :][:size] = (known - start.engine) / how.generation_spread
    x = least_squares(residuals, x0, jac=jacobian, method="lm", x_scale=1.0, max_nfev=60, ftol=1e-5, xtol=1e-5).x
    engine, by_generation = unpack(x)
    return EngineFit(engine, dict(zip(generations, by_generation, strict=True)))


def robust(z: Array, limit: float) -> Array:
    """Residuals whose squares are z^2 / (1 + (z / limit)^2): z^2 for small z, ``limit``^2 far out (Geman-McClure).

    A group of runs that are all off by far, because their record is, moves nothing.
    """
    return np.asarray(z / np.sqrt(1.0 + (z / limit) ** 2))


def arrays(logs: Array) -> CoefficientArrays:
    """Coefficients in SI units from logarithms (n, len(NAMES))."""
    host = {name: np.exp(logs[:, i]) * unit for i, (name, unit) in enumerate(HOST_UNITS.items())}
    return CoefficientArrays(
        **host, decode=np.exp(column_logs(logs, "decode")), prefill=np.exp(column_logs(logs, "prefill"))
    )


def column_logs(logs: Array, phase: str) -> Array:
    """Logarithms of the factors by COLUMNS, (n, F): a family's plus its data type's deviation."""
    out = np.empty((*logs.shape[:-1], len(COLUMNS)))
    for column, (family, kind) in enumerate(COLUMNS):
        out[..., column] = logs[..., _INDEX[f"{phase}_{family}"]]
        if kind:
            out[..., column] += logs[..., _INDEX[f"{phase}_{family}_{kind}"]]
    return out


_INDEX = {name: i for i, name in enumerate(NAMES)}


def coefficients_of(fits: Mapping[str, EngineFit], terms: RunTerms, how: Settings) -> CoefficientArrays:
    """Coefficients for every run: its generation's, else the nearest one's, else its engine's, else the mean."""
    pooled = pooled_logs(fits, how)
    pairs = list(zip(terms.engine, terms.generation, strict=True))
    found: dict[tuple[str, str], Array] = {}
    for engine, generation in set(pairs):
        own = fits.get(engine)
        if own is None:
            found[engine, generation] = pooled
        else:
            near = nearest_generation(generation, own.generations, {"nearest_generation": how.nearest})
            found[engine, generation] = own.engine if near is None else own.generations[near]
    return arrays(np.array([found[pair] for pair in pairs]).reshape(len(pairs), len(NAMES)))


def pooled_logs(fits: Mapping[str, EngineFit], how: Settings) -> Array:
    """Mean of the engines' logarithms; the prior where there is none."""
    prior = np.concatenate([how.prior, np.zeros(len(TYPED))])
    return np.asarray(np.mean([f.engine for f in fits.values()], axis=0)) if fits else prior

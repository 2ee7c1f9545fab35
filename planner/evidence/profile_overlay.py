"""A user's own runs as an overlay: they shift the prediction of their deployment and set its interval, narrower where
they agree and wider where they scatter more than the runs of its distance class.

Model: a deployment (architecture x accelerator x engine) has one factor on each metric, log-normal around the distance
class's median with the variance that deployments do not share; its runs scatter around that with the rest of the
variance. Normal prior and normal likelihood give the posterior mean of the factor (shrunk residuals) and the variance
of a further run; the scatter itself is shrunk to the class's with a few runs' weight. Gelman et al., Bayesian Data
Analysis, 3rd ed., sections 2.5 and 2.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Catalog
from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.errors import InputError
from planner.evidence.e2e_calibrate import shipped_coefficients
from planner.evidence.e2e_keys import distance_classes, interval_document
from planner.evidence.intervals import NORMAL_SCORE_80, Interval, around
from planner.evidence.run_predict import closed_loop_rps
from planner.evidence.run_terms import architecture_name, predict, run_terms
from planner.evidence.runs import Runs
from planner.evidence.unit_slips import without_slips
from planner.units import MILLISECOND

Array = NDArray[np.float64]

SCHEMA = "planner.profile/1"
FOLDER = "profiles"
"""Folder of a user's catalogue that holds overlays."""
METRICS = ("tpot", "ttft", "throughput")
PRIOR_FILE = Path(__file__).with_name("profile_prior.yaml")


class Adjustment(NamedTuple):
    """What a deployment's own runs say about a metric's prediction."""

    log_shift: float
    """Of the measured over the predicted value: multiply the prediction by exp(log_shift)."""
    log_spread: float
    """Standard deviation of the logarithm around the shifted prediction; the 80 % interval is +-1.2816 of it."""
    runs: int


@dataclass(frozen=True)
class Shift:
    """The posterior of one metric of one deployment."""

    log_shift: float
    log_spread: float
    runs: int
    median_ratio: float
    """Measured over predicted, as observed."""
    prior_log_spread: float
    """Spread without these runs: that of the distance class."""


@dataclass(frozen=True)
class Deployment:
    """What the runs of an overlay share."""

    model: str
    gpu: str
    engine: str
    metrics: Mapping[str, Shift]


@dataclass(frozen=True)
class Overlay:
    """The contents of an overlay file."""

    name: str
    source: str
    date: str
    deployments: tuple[Deployment, ...]


def fit_overlay(runs: Runs, catalog: Catalog, *, name: str, source: str, date: str) -> tuple[Overlay, dict[str, int]]:
    """The overlay of a user's runs, and how many runs could not be predicted, by reason.

    Runs with speculative decoding, and single ones in another unit, are left out. Raises InputError where no run is
    left.
    """
    terms, failures = run_terms(runs, catalog)
    loop = predict(terms, shipped_coefficients(terms))
    times_ms = {"ttft_ms": loop.ttft_s / MILLISECOND, "tpot_ms": loop.tpot_s / MILLISECOND}
    runs, slipped = without_slips(runs, terms.rows, times_ms)
    measured = _measured(runs, terms.rows)
    predicted = {
        "tpot": loop.tpot_s,
        "ttft": loop.ttft_s,
        "throughput": _throughput(runs, terms.rows, loop.ttft_s, loop.tpot_s),
    }
    plain = np.array([runs.text["speculative"][i] == "none" for i in terms.rows], dtype=bool)
    keys = [_key(runs, int(row)) for row in terms.rows]
    classes = distance_classes(runs)
    found: list[Deployment] = []
    for key in dict.fromkeys(keys):
        mine = plain & np.array([k == key for k in keys], dtype=bool)
        shifts: dict[str, Shift] = {}
        for metric in METRICS:
            usable = mine & np.isfinite(measured[metric]) & (measured[metric] > 0)
            if usable.any():
                log_ratio = np.log(measured[metric][usable] / predicted[metric][usable])
                nearest = [classes[int(row)] for row in terms.rows[usable]]
                borrowed = float(terms.curve_spread[usable].max())
                shifts[metric] = posterior(log_ratio, metric, nearest, borrowed)
        if shifts:
            found.append(Deployment(*key, shifts))
    reasons: dict[str, int] = dict(slipped)
    for reason in failures.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    if skipped := int((~plain).sum()):
        reasons["speculative decoding: left out of a profile"] = skipped
    if not found:
        raise InputError("profile", "; ".join(reasons) or "no runs", "at least one run that can be predicted")
    return Overlay(name, source, date, tuple(found)), reasons


def posterior(log_ratio: Array, metric: str, classes: Sequence[str], extra_log_spread: float = 0.0) -> Shift:
    """Posterior of a deployment's factor from log(measured / predicted) of its runs, shape (n,), n at least 1.

    ``classes`` are the runs' distance classes; the farthest one's spread is the prior's. ``extra_log_spread``, the
    half-width of an 80 % interval, is what borrowed operator curves add: all runs of a deployment share it.
    """
    prior = _prior()
    centre, spread = class_spread(metric, classes)
    between = prior["between_share_of_variance"][metric] * spread**2
    scatter = spread**2 - between
    between += (extra_log_spread / NORMAL_SCORE_80) ** 2
    n = log_ratio.size
    middle = float(np.median(log_ratio))
    weight = float(prior["spread_prior_runs"])
    # The median stands for the mean: one run of another kind must not carry the others along.
    own = float(np.sum(np.minimum((log_ratio - middle) ** 2, 9.0 * scatter)))
    within = (weight * scatter + own) / (weight + n - 1.0)
    precision = 1.0 / between + n / within
    shift = (centre / between + n * middle / within) / precision
    least = float(prior["least_log_spread"])
    return Shift(
        log_shift=float(shift),
        log_spread=max(float(np.sqrt(1.0 / precision + within)), least),
        runs=n,
        median_ratio=float(np.exp(middle)),
        prior_log_spread=float(np.sqrt(between + scatter)),
    )


def class_spread(metric: str, classes: Iterable[str]) -> tuple[float, float]:
    """Median and standard deviation of a metric's log residuals in the widest of some distance classes."""
    document = interval_document(data_root() / "hardware_db" / "efficiency")
    widest = max(
        (document["classes"][name][metric] for name in dict.fromkeys(classes)), key=lambda c: c["q90"] - c["q10"]
    )
    return float(widest["q50"]), float(widest["q90"] - widest["q10"]) / (2.0 * NORMAL_SCORE_80)


def profile_adjustment(
    overlays: Iterable[Overlay], model: str, gpu: str, engine: str, metric: str
) -> Adjustment | None:
    """What overlays say about a metric (tpot, ttft, throughput) of a deployment; None where they say nothing.

    ``model`` is a Hugging Face id or catalogue id; checkpoints of one architecture are one model. The overlay with most
    runs wins where several know the deployment.
    """
    name = architecture_name(model)
    matches = [
        d.metrics[metric]
        for overlay in overlays
        for d in overlay.deployments
        if (d.model, d.gpu, d.engine) == (name, gpu, engine) and metric in d.metrics
    ]
    best = max(matches, key=lambda shift: shift.runs, default=None)
    return None if best is None else Adjustment(best.log_shift, best.log_spread, best.runs)


def adjusted(
    overlays: Sequence[Overlay], runs: Runs, metric: str, predicted: Array, bands: Interval
) -> tuple[Array, Interval, int]:
    """Predictions (n,) and intervals of runs as their deployments' own overlays say, and how many were changed.

    A run whose deployment no overlay knows keeps what it had.
    """
    keys = [_key(runs, row) for row in range(len(runs))]
    found = {key: profile_adjustment(overlays, *key, metric) for key in dict.fromkeys(keys)}
    mine = [found[key] for key in keys]
    known = np.array([m is not None for m in mine], dtype=bool)
    shift = np.array([0.0 if m is None else m.log_shift for m in mine])
    spread = np.array([np.nan if m is None else m.log_spread for m in mine])
    value = predicted * np.exp(shift)
    moved = around(value, spread)
    mixed = [np.where(known, getattr(moved, f.name), getattr(bands, f.name)) for f in fields(Interval)]
    return value, Interval(*mixed), int((known & np.isfinite(predicted)).sum())


def overlay_document(overlay: Overlay) -> dict[str, Any]:
    """An overlay as the mapping of its YAML file."""
    return {
        "schema": SCHEMA,
        "name": overlay.name,
        "source": overlay.source,
        "date": overlay.date,
        "deployments": [
            {
                "model": d.model,
                "gpu": d.gpu,
                "engine": d.engine,
                "metrics": {m: {k: _rounded(v) for k, v in asdict(s).items()} for m, s in d.metrics.items()},
            }
            for d in overlay.deployments
        ],
    }


def read_overlay(path: Path) -> Overlay:
    """An overlay file. Raises InputError naming what is wrong."""
    data = read_yaml(path)
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise InputError(path.name, data.get("schema") if isinstance(data, Mapping) else data, f"schema: {SCHEMA}")
    try:
        deployments = tuple(
            Deployment(
                str(d["model"]),
                str(d["gpu"]),
                str(d["engine"]),
                {m: _shift(s, f"{path.name} {d['model']} {m}") for m, s in d["metrics"].items()},
            )
            for d in data["deployments"]
        )
        return Overlay(str(data["name"]), str(data["source"]), str(data["date"]), deployments)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(path.name, str(error), "the keys that planner calibrate --profile writes") from None


def read_overlays(user_dir: Path | None) -> tuple[Overlay, ...]:
    """All overlays of a user's catalogue folder, none without one."""
    folder = None if user_dir is None else user_dir / FOLDER
    if folder is None or not folder.is_dir():
        return ()
    return _overlays(tuple((path, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.y*ml"))))


@lru_cache(maxsize=8)
def _overlays(files: tuple[tuple[Path, int], ...]) -> tuple[Overlay, ...]:
    return tuple(read_overlay(path) for path, _ in files)


def _shift(values: Mapping[str, Any], where: str) -> Shift:
    shift = Shift(
        float(values["log_shift"]),
        float(values["log_spread"]),
        int(values["runs"]),
        float(values["median_ratio"]),
        float(values["prior_log_spread"]),
    )
    if not (shift.log_spread > 0 and np.isfinite(shift.log_shift)):
        raise InputError(f"{where} log_spread", shift.log_spread, "a finite shift and a spread above 0")
    return shift


def _key(runs: Runs, row: int) -> tuple[str, str, str]:
    text = runs.text
    return architecture_name(text["model"][row]), text["gpu"][row], text["engine"][row]


def _measured(runs: Runs, rows: NDArray[np.int64]) -> dict[str, Array]:
    """Measured values of the predictable runs: seconds, and requests per second from both times, else as stated."""
    ttft, tpot = (runs[name][rows] * MILLISECOND for name in ("ttft_ms", "tpot_ms"))
    rps, stated = _throughput(runs, rows, ttft, tpot), runs["output_tokens_per_s"][rows] / runs["output_tokens"][rows]
    return {"tpot": tpot, "ttft": ttft, "throughput": np.where(np.isfinite(rps), rps, stated)}


def _throughput(runs: Runs, rows: NDArray[np.int64], ttft_s: Array, tpot_s: Array) -> Array:
    return closed_loop_rps(runs["concurrency"][rows], runs["output_tokens"][rows], ttft_s, tpot_s)


@lru_cache(maxsize=1)
def _prior() -> Mapping[str, Any]:
    return read_yaml(PRIOR_FILE)


def _rounded(value: float) -> float | int:
    return value if isinstance(value, int) else round(value, 4)

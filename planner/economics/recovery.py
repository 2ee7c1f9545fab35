"""How long a worker is away after a failure, and how often that happens. Defaults and their sources:
``hardware_db/reliability.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate
from planner.economics.energy import Coefficient
from planner.units import DAY_S

Array = NDArray[np.float64]

FILE = "reliability.yaml"
YEAR_S = 365.25 * DAY_S


class ReliabilityDefaults(Strict):
    """Starting values of detection, restart and failure rates."""

    detection_s: Coefficient
    restart_s: Coefficient
    weight_read_gb_s: Coefficient
    graph_capture_s: Coefficient
    warm_up_s: Coefficient
    gpu_failures_per_year: Coefficient
    gpu_share_of_failures: Coefficient


def reliability_defaults() -> ReliabilityDefaults:
    """The shipped starting values."""
    return _read(data_root() / "hardware_db" / FILE)


@lru_cache(maxsize=4)
def _read(path: Path) -> ReliabilityDefaults:
    return validate(ReliabilityDefaults, read_yaml(path), path.name)


@dataclass(frozen=True)
class Recovery:
    """Seconds from a failure to a worker that serves as before, by part; arrays (n,)."""

    detection_s: Array
    restart_s: Array
    weights_s: Array
    warm_up_s: Array
    graphs_s: Array
    reprefill_s: Array
    """Prompts and outputs of the lost requests, computed again by the workers that are left."""

    @property
    def total_s(self) -> Array:
        """One after the other; lost requests are computed again while the worker restarts, so only what lasts longer
        than the restart counts."""
        away = self.restart_s + self.weights_s + self.warm_up_s + self.graphs_s
        return np.asarray(self.detection_s + np.maximum(away, self.reprefill_s))


def recovery(
    weight_bytes_per_node: ArrayLike,
    lost_tokens: ArrayLike,
    prefill_tokens_per_s: ArrayLike,
    *,
    defaults: ReliabilityDefaults | None = None,
    detection_s: ArrayLike | None = None,
    restart_s: ArrayLike | None = None,
    read_bytes_per_s: ArrayLike | None = None,
    graph_capture_s: ArrayLike | None = None,
    warm_up_s: ArrayLike | None = None,
) -> Recovery:
    """Recovery of a worker. All broadcast; what is None is taken from ``defaults`` (the shipped ones).

    ``weight_bytes_per_node`` are read at ``read_bytes_per_s`` of one node (nodes of a worker read side by side);
    ``lost_tokens`` = requests in flight x mean context are computed at ``prefill_tokens_per_s``, the spare prefill rate
    of the workers that are left.
    """
    d = defaults or reliability_defaults()
    read = d.weight_read_gb_s.value * 1e9 if read_bytes_per_s is None else read_bytes_per_s
    with np.errstate(divide="ignore", invalid="ignore"):
        again = np.divide(np.asarray(lost_tokens, dtype=float), np.asarray(prefill_tokens_per_s, dtype=float))
    return Recovery(
        detection_s=_or(detection_s, d.detection_s),
        restart_s=_or(restart_s, d.restart_s),
        weights_s=np.asarray(weight_bytes_per_node, dtype=float) / np.asarray(read, dtype=float),
        warm_up_s=_or(warm_up_s, d.warm_up_s),
        graphs_s=_or(graph_capture_s, d.graph_capture_s),
        reprefill_s=np.nan_to_num(again, nan=0.0, posinf=np.inf),
    )


def _or(given: ArrayLike | None, default: Coefficient) -> Array:
    return np.asarray(default.value if given is None else given, dtype=float)


def failures_per_year(gpus: ArrayLike, defaults: ReliabilityDefaults | None = None) -> Array:
    """Expected failures in a year of ``gpus`` GPUs together."""
    d = defaults or reliability_defaults()
    return np.asarray(gpus, dtype=float) * d.gpu_failures_per_year.value


def unavailability(worker_gpus: ArrayLike, recovery_s: ArrayLike, defaults: ReliabilityDefaults | None = None) -> Array:
    """Part of the time that a worker is down: failures x recovery over failures x recovery + 1 year, (0 to 1)."""
    down = failures_per_year(worker_gpus, defaults) * np.asarray(recovery_s, dtype=float) / YEAR_S
    return np.asarray(down / (1.0 + down))

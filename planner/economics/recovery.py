"""How long a worker is away after a failure, and how often that happens. Defaults and their sources:
``hardware_db/reliability.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.model_spec import Strict
from planner.economics.defaults import Coefficient, read_defaults, shipped
from planner.units import DAY_S, GIGA

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
    nodes_per_rack: Coefficient


def reliability_defaults() -> ReliabilityDefaults:
    """The shipped starting values."""
    return read_defaults(ReliabilityDefaults, shipped(FILE))


@dataclass(frozen=True)
class Recovery:
    """Seconds from a failure to a worker that serves as before, by part; arrays (n,)."""

    detection_s: Array
    restart_s: Array
    weights_s: Array
    warm_up_s: Array
    graphs_s: Array
    reprefill_s: Array
    """Time to compute the lost prompts and outputs again that is left once the worker is back."""

    @property
    def start_s(self) -> Array:
        """From the order to start a worker until it serves: what scaling out takes as well."""
        return np.asarray(self.restart_s + self.weights_s + self.warm_up_s + self.graphs_s)

    @property
    def total_s(self) -> Array:
        """One part after the other."""
        return np.asarray(self.detection_s + self.start_s + self.reprefill_s)


def recovery(
    weight_bytes_per_node: ArrayLike,
    lost_tokens: ArrayLike,
    tokens_per_s_meanwhile: ArrayLike,
    tokens_per_s_after: ArrayLike,
    *,
    defaults: ReliabilityDefaults | None = None,
    detection_s: ArrayLike | None = None,
    restart_s: ArrayLike | None = None,
    weight_read_gb_s: ArrayLike | None = None,
    graph_capture_s: ArrayLike | None = None,
    warm_up_s: ArrayLike | None = None,
) -> Recovery:
    """Recovery of a worker. All broadcast; what is None is taken from ``defaults`` (the shipped ones).

    ``weight_bytes_per_node`` are read at ``weight_read_gb_s`` x 1e9 bytes/s of one node (nodes of a worker read side by
    side). ``lost_tokens`` = requests in flight x mean context are computed again by what the other workers have to
    spare while it starts (``tokens_per_s_meanwhile``) and, as far as that is not enough, by what all of them have to
    spare after: max(lost - meanwhile x start, 0) / after seconds.
    """
    d = defaults or reliability_defaults()
    read = d.weight_read_gb_s.value if weight_read_gb_s is None else weight_read_gb_s
    first = Recovery(
        detection_s=_or(detection_s, d.detection_s),
        restart_s=_or(restart_s, d.restart_s),
        weights_s=np.asarray(weight_bytes_per_node, dtype=float) / (np.asarray(read, dtype=float) * GIGA),
        warm_up_s=_or(warm_up_s, d.warm_up_s),
        graphs_s=_or(graph_capture_s, d.graph_capture_s),
        reprefill_s=np.zeros(()),
    )
    left = np.maximum(np.asarray(lost_tokens, dtype=float) - np.asarray(tokens_per_s_meanwhile) * first.start_s, 0.0)
    after = np.asarray(tokens_per_s_after, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return replace(first, reprefill_s=np.where(left > 0.0, left / after, 0.0))


def _or(given: ArrayLike | None, default: Coefficient) -> Array:
    return np.asarray(default.value if given is None else given, dtype=float)


def failures_per_year(gpus: ArrayLike, per_gpu: ArrayLike | None = None) -> Array:
    """Expected failures in a year of ``gpus`` GPUs together, ``per_gpu`` of each (the shipped rate where None)."""
    return np.asarray(gpus, dtype=float) * _or(per_gpu, reliability_defaults().gpu_failures_per_year)


def unavailability(worker_gpus: ArrayLike, recovery_s: ArrayLike, per_gpu: ArrayLike | None = None) -> Array:
    """Part of the time that a worker is down: failures x recovery over failures x recovery + 1 year, (0 to 1)."""
    down = failures_per_year(worker_gpus, per_gpu) * np.asarray(recovery_s, dtype=float) / YEAR_S
    return np.asarray(down / (1.0 + down))

"""KV slots that run out: who finds none, and how long one waits for one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.serving.open_loop import Flow, WorkerLoad
from planner.serving.quantiles import Part, waiting_part
from planner.serving.queues import erlang_c, peaked_blocking

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def slot_part(load: WorkerLoad, f: Flow) -> Part:
    """Wait for a KV slot where all are taken and arrivals queue: Erlang C with Hayward's correction, exponential."""
    probability, mean = np.zeros(f.occupancy.shape), np.zeros(f.occupancy.shape)
    near = _near_full(load, f)
    if np.any(near):
        slots, a, z = (np.broadcast_to(v, near.shape)[near] for v in (load.slots, f.occupancy, _peak(f)))
        chance = erlang_c(slots / z, a / z)
        leaving = (slots - a) / np.broadcast_to(f.residence_s, near.shape)[near]
        probability[near], mean[near] = chance, chance * z / np.maximum(leaving, 1e-12)
    return waiting_part(mean, probability, np.ones(1))


def rejection(load: WorkerLoad, f: Flow) -> Array:
    """Blocking of arrivals by full KV slots, 1 - slots / load where there are more requests than slots."""
    out = np.zeros(f.occupancy.shape)
    near = _near_full(load, f)
    if np.any(near):
        out[near] = peaked_blocking(
            *(np.broadcast_to(v, near.shape)[near] for v in (load.slots, f.occupancy, _peak(f)))
        )
    return np.where(np.isfinite(f.occupancy), out, 1.0)


def _peak(f: Flow) -> Array:
    return np.asarray(f.occupancy_variance / np.maximum(f.occupancy, 1e-300))


def _near_full(load: WorkerLoad, f: Flow) -> BoolArray:
    """Where slots can run out: within six standard deviations. Beyond them blocking is below 1e-8 and taken as none."""
    reach = f.occupancy + 6.0 * np.sqrt(np.maximum(f.occupancy_variance, 1.0))
    return np.asarray((reach > load.slots) & np.isfinite(f.occupancy))

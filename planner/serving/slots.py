"""KV slots that run out: who finds none, and how long one waits for one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.serving.length_shape import LengthShape
from planner.serving.open_loop import Flow, WorkerLoad
from planner.serving.quantiles import Part, waiting_part
from planner.serving.queues import erlang_c, peaked_blocking
from planner.serving.side_by_side import apart

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def slot_part(load: WorkerLoad, f: Flow) -> Part:
    """Wait for a KV slot where all are taken and arrivals queue: Erlang C with Hayward's correction, exponential."""
    probability, mean = np.zeros(f.occupancy.shape), np.zeros(f.occupancy.shape)
    near = _near_full(load, f)
    if np.any(near):
        slots, a, z = _where(near, load, f)
        chance = erlang_c(slots / z, a / z)
        leaving = (slots - a) / np.broadcast_to(f.residence_s, near.shape)[near]
        probability[near], mean[near] = chance, chance * z / np.maximum(leaving, 1e-12)
    return waiting_part(mean, probability, np.ones(1))


def rejection(load: WorkerLoad, f: Flow) -> Array:
    """Blocking of arrivals by full KV slots, 1 - slots / load where there are more requests than slots."""
    out = np.zeros(f.occupancy.shape)
    near = _near_full(load, f)
    if np.any(near):
        out[near] = peaked_blocking(*_where(near, load, f))
    return np.where(np.isfinite(f.occupancy), out, 1.0)


def lane_full(load: WorkerLoad, f: Flow) -> Array:
    """Part of requests that find the KV slots of their attention-DP rank taken, (n,); 0 for one rank.

    Each rank has its own N-th of the slots. Requests in it vary by their N-th of what varies in all of them, by the
    differences between ranks (:func:`planner.serving.side_by_side.apart`), and, as few requests do not even out, by
    their contexts: Erlang C with Hayward's correction for that variance, contexts in units of the mean one.
    """
    out = np.zeros(f.occupancy.shape)
    several = np.flatnonzero((np.broadcast_to(load.lanes, out.shape) > 1.0) & f.stable)
    if several.size:
        n, slots = (np.broadcast_to(v, out.shape)[several] for v in (load.lanes, load.slots))
        held, slots = f.occupancy[several] / n, slots / n
        contexts = held * context_scv(load.prompts, load.outputs)
        z = np.maximum((f.occupancy_variance[several] / np.square(n) + apart(n) + contexts) / held, 1.0)
        near = held + 6.0 * np.sqrt(np.maximum(z * held, 1.0)) > slots
        out[several[near]] = erlang_c(slots[near] / z[near], held[near] / z[near])
    return out


def context_scv(prompts: LengthShape, out: LengthShape) -> float:
    """Squared CV of the context of a decoding request: its prompt, and a uniform part of an output weighted by its
    length."""
    grown = 0.5 * out.moment(2) * out.mean
    spread = out.moment(3) / 3.0 * out.mean**2 - grown**2
    prompt = prompts.mean
    return (prompts.scv * prompt**2 + spread) / (prompt + grown) ** 2


def _where(near: BoolArray, load: WorkerLoad, f: Flow) -> tuple[Array, Array, Array]:
    """Slots, requests and their variance over mean of the workers ``near`` (others may have no steady state)."""
    occupancy = f.occupancy[near]
    peak = f.occupancy_variance[near] / np.maximum(occupancy, 1e-300)
    return np.broadcast_to(load.slots, near.shape)[near], occupancy, peak


def _near_full(load: WorkerLoad, f: Flow) -> BoolArray:
    """Where slots can run out: within six standard deviations. Beyond them blocking is below 1e-8 and taken as none."""
    reach = f.occupancy + 6.0 * np.sqrt(np.maximum(f.occupancy_variance, 1.0))
    return np.asarray((reach > load.slots) & np.isfinite(f.occupancy))

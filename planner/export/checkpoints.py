"""Which checkpoint serves the plan's number formats: the model's own, a published one in them, or its own quantised by
the engine as it loads (hardware_db/engine_flags/quantise_on_load.yaml).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.catalog.model_spec import ModelSpec
from planner.export.flag_lists import TITLES, read_file
from planner.export.words import model_argument
from planner.model.builder import tensors
from planner.model.precision import FORMATS, QUANTISED_BY_DEFAULT, PrecisionPlan, tensor_bytes
from planner.search.plan_schema import Candidate, Plan

Formats = Mapping[str, str]
"""Weight class -> number format, of the classes that a model has."""


@dataclass(frozen=True)
class Checkpoint:
    """What an engine is given to load."""

    model: str
    """Model argument: a Hugging Face id or a path."""
    size_bytes: float
    """Its weights, each held once."""
    quantization: str | None = None
    """How the engine quantises it as it loads; None: not at all."""
    notes: tuple[str, ...] = ()
    lacking: str = ""
    """The formats that a checkpoint must have, where none that is known serves the plan; empty where one does."""


def checkpoint_of(plan: Plan, candidate: Candidate, spec: ModelSpec, engine: str) -> Checkpoint:
    """The checkpoint of a plan's candidate on ``engine``."""
    model, own = model_argument(plan.identity.checkpoint), _formats(spec, spec.precision)
    planned = {name: plan.identity.precision.get(name, found) for name, found in own.items()}
    changes = {name: to for name, to in planned.items() if to != own[name]}
    if not changes:
        return Checkpoint(model, _bytes(spec, own))
    wanted = ", ".join(f"{n.replace('_', ' ')} {to} (checkpoint: {own[n]})" for n, to in sorted(changes.items()))
    if plan.identity.checkpoint == spec.hf_id:
        for published in spec.quantised:
            if _formats(spec, published.precision) == planned:
                note = f"{published.hf_id} is the model in the plan's formats, {wanted.replace('checkpoint', model)}."
                return Checkpoint(published.hf_id, _bytes(spec, planned), notes=(note,))
    method = _on_load(spec, own, planned, candidate, engine)
    if method is not None:
        note = f"{TITLES[engine]} quantises the checkpoint as it loads: {wanted}. {read_file(ON_LOAD)[engine]['gives']}"
        return Checkpoint(model, _bytes(spec, own), method, notes=(note,))
    note = (
        f"NO CHECKPOINT KNOWN HERE SERVES THIS PLAN. It holds {wanted}, which {TITLES[engine]} does not make of "
        f"{model} as it loads; as it is, that takes other memory and other times. Name a checkpoint quantised so"
        + "".join(f", or plan with the formats of {q.hf_id}: {_named(q.precision)}" for q in spec.quantised)
        + "."
    )
    return Checkpoint(model, _bytes(spec, planned), notes=(note,), lacking=wanted)


ON_LOAD = "quantise_on_load"


def _on_load(spec: ModelSpec, own: Formats, planned: Formats, candidate: Candidate, engine: str) -> str | None:
    """The engine's method that makes ``planned`` of the checkpoint: all linear layers from 16 bits to one format.

    Where it loads a rank's weights as they are before it makes them smaller, they have to fit so.
    """
    rule = read_file(ON_LOAD)[engine]
    linear = [name for name in own if name in QUANTISED_BY_DEFAULT]
    formats = {planned[name] for name in linear}
    same = all(planned[name] == own[name] for name in own if name not in linear)
    if len(formats) != 1 or not same or not all(FORMATS[own[name]].is_high_precision for name in linear):
        return None
    method = rule["methods"].get(next(iter(formats)))
    if method is not None and rule["whole_first"]:
        grown = _bytes(spec, own) / _bytes(spec, planned)
        pools = [pool for pool in (candidate.prefill_pool, candidate.decode_pool) if pool is not None]
        ranks = [pool.memory_gib for pool in pools] or [candidate.memory_gib]
        if any(rank is not None and rank.weights * grown > rank.capacity for rank in ranks):
            return None
    return None if method is None else str(method)


def _formats(spec: ModelSpec, precision: Formats) -> dict[str, str]:
    """Formats of the classes that the model has, of a checkpoint with ``precision``."""
    named = PrecisionPlan.from_checkpoint(spec.model_copy(update={"precision": dict(precision)})).as_dict()
    return {tensor.tensor_class: named[tensor.tensor_class] for tensor in tensors(spec)}


def _named(precision: Formats) -> str:
    return ", ".join(f"{name} {fmt}" for name, fmt in precision.items() if name != "default")


def _bytes(spec: ModelSpec, formats: Formats) -> float:
    return sum(tensor_bytes(tensor, formats[tensor.tensor_class]) for tensor in tensors(spec))

"""Weights that exports speak of: the checkpoint on disk, and whether some layers are dense."""

from __future__ import annotations

from planner.catalog.model_spec import DenseFeedForward, ModelSpec
from planner.export.roles import Deployment
from planner.model.builder import tensors
from planner.model.precision import PrecisionPlan, tensor_bytes
from planner.units import GIB


def checkpoint_gib(d: Deployment) -> float:
    """Weights of the checkpoint, each held once, in GiB; as published or as planned, whichever is more."""
    own = PrecisionPlan.from_checkpoint(d.spec).as_dict()
    planned = {**own, **d.plan.identity.precision}
    sizes = [
        sum(tensor_bytes(tensor, formats[tensor.tensor_class]) for tensor in tensors(d.spec))
        for formats in (own, planned)
    ]
    return max(sizes) / GIB


def has_dense_layers(spec: ModelSpec) -> bool:
    """Whether some layers have a dense MLP."""
    return any(isinstance(f, DenseFeedForward) for f in spec.feed_forwards.values())

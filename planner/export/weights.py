"""Weights that exports speak of: the checkpoint on disk, and whether some layers are dense."""

from __future__ import annotations

from planner.catalog.model_spec import DenseFeedForward, ModelSpec
from planner.export.roles import Deployment
from planner.units import GIB


def checkpoint_gib(d: Deployment) -> float:
    """Weights of the checkpoint that is loaded, each held once, in GiB."""
    return d.checkpoint.size_bytes / GIB


def has_dense_layers(spec: ModelSpec) -> bool:
    """Whether some layers have a dense MLP."""
    return any(isinstance(f, DenseFeedForward) for f in spec.feed_forwards.values())

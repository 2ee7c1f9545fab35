"""Catalogue: schemas and loaders of hardware_db/ and model_specs/, Hugging Face import, user overlays."""

from __future__ import annotations

from planner.catalog.hardware_spec import Accelerator, Node
from planner.catalog.loader import Catalog, catalog, load_model
from planner.catalog.model_spec import ModelSpec

__all__ = ["Accelerator", "Catalog", "ModelSpec", "Node", "catalog", "load_model"]

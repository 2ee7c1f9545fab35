"""Catalogue: schemas and loaders for hardware_db/ and model_specs/, Hugging Face config import, user overlays."""

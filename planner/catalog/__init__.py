"""Catalogue: schemas and loaders of hardware_db/ and model_specs/, Hugging Face import, user overlays."""

"""Hugging Face config.json to model specification, one module per kind of architecture."""

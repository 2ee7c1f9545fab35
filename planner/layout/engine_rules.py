"""Which layouts an engine runs: the schema and loader of ``hardware_db/engines/layout/<engine>.yaml``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate
from planner.errors import UnknownNameError
from planner.layout.data_files import data_file, data_names, read_data

FOLDER = "hardware_db/engines/layout"


class Split(Strict):
    """all_or_none: 1 or the whole stage; any: every divisor."""

    value: Literal["all_or_none", "any"]
    source: str
    note: str = ""


class Flag(Strict):
    value: bool
    source: str
    note: str = ""


class Names(Strict):
    value: tuple[str, ...]
    source: str
    note: str = ""


class Alignment(Strict):
    value: dict[str, int]
    "Weight format -> number of columns or rows that a shard must be a multiple of."
    source: str
    note: str = ""


class EngineLayoutRules(Strict):
    """What one engine accepts, each rule with its source."""

    id: str
    name: str
    version: str
    date: str
    expert_split: Split
    "How ep may divide the GPUs of a stage."
    attention_dp: Split
    "How attention_dp may divide the GPUs of a stage."
    full_ep_backends: Names
    "Expert dispatch backends that need whole experts: ep is the whole stage."
    redundant_experts: Flag
    pipeline: Flag
    pipeline_uneven: Flag
    vocab_padded: Flag
    tp_across_nodes: Flag
    aligned_shards: Alignment


def engine_rules(engine: str | EngineLayoutRules) -> EngineLayoutRules:
    """The layout rules of an engine by name; rules given pass through. Raises UnknownNameError."""
    if isinstance(engine, EngineLayoutRules):
        return engine
    path = data_file(f"{FOLDER}/{engine}.yaml")
    if path is None:
        raise UnknownNameError("engine.name", engine, data_names(FOLDER))
    return _load(path)


@lru_cache(maxsize=32)
def _load(path: Path) -> EngineLayoutRules:
    return validate(EngineLayoutRules, read_data(path), path.name)

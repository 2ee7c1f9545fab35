"""Which layouts an engine runs: the schema and loader of ``hardware_db/engines/layout/<engine>.yaml``."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from planner.catalog import Catalog, catalog
from planner.catalog.model_spec import Strict
from planner.catalog.validation import validate
from planner.errors import InputError

DraftMethod = Literal["mtp", "eagle3"]
WorkerRole = Literal["serve", "prefill", "decode"]
"""What a worker does: all of a request, its prompt, or its output."""


class Split(Strict):
    """all_or_none: 1 or the whole stage; any: every divisor."""

    value: Literal["all_or_none", "any"]
    source: str
    note: str = ""


class Flag(Strict):
    value: bool
    source: str
    note: str = ""


class Drafting(Strict):
    """Which workers of several pipeline stages may draft; prefill_mtp: those that only prefill, by the model's own MTP
    block.
    """

    value: Literal["any", "prefill_mtp", "none"]
    source: str
    note: str = ""

    def allows(self, drafts: DraftMethod, role: WorkerRole) -> bool:
        """Whether workers of ``role`` may draft in several stages."""
        return self.value == "any" or (self.value == "prefill_mtp" and drafts == "mtp" and role == "prefill")


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
    pipeline_speculation: Drafting
    vocab_padded: Flag
    tp_across_nodes: Flag
    aligned_shards: Alignment


def engine_rules(engine: str | EngineLayoutRules, known: Catalog | None = None) -> EngineLayoutRules:
    """The layout rules of an engine by name, from ``known`` or the default catalogue; rules given pass through.

    Raises UnknownNameError for an engine that the catalogue does not have, InputError for one without layout rules.
    """
    if isinstance(engine, EngineLayoutRules):
        return engine
    return _load(known or catalog(), engine)


@lru_cache(maxsize=64)
def _load(known: Catalog, name: str) -> EngineLayoutRules:
    parts = known.engine(name)
    if "layout" not in parts:
        raise InputError("engine.name", name, "an engine with layout rules (engines/layout/)")
    return validate(EngineLayoutRules, parts["layout"], f"layout/{name}.yaml")

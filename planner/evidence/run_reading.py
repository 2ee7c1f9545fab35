"""How rows of end-to-end runs are read: model, formats and settings that their tables leave open, by rule.

The rules are data (``hardware_db/efficiency/runs.yaml``), shared by validation and calibration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.catalog.files import read_yaml
from planner.catalog.loader import Catalog, data_root
from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError
from planner.evidence.runs import LOAD, SERVING, Runs
from planner.model.precision import PrecisionPlan

MODELS_HINT = "give its specification with --models FOLDER (specification YAML or config.json files)"


@dataclass(frozen=True)
class BenchRules:
    """What the client and the launch scripts of a kind of benchmark fix."""

    length_share: float
    fixed_lengths: bool
    first_wave_share: float
    kv_fp8: Mapping[str, Any]
    scheduling: Mapping[str, Mapping[str, Mapping[str, float]]]
    returning_together: float = 1.0
    vendor_lengths: Sequence[Sequence[float]] = ()
    """Input and output lengths by which a run labelled as a vendor's is one of this kind."""
    vendor_input_multiple_of: float | None = None

    def claims(self, tokens_in: float, tokens_out: float) -> bool:
        """Whether a vendor's run of these lengths is of this kind."""
        step = self.vendor_input_multiple_of
        return [tokens_in, tokens_out] in self.vendor_lengths or (step is not None and tokens_in % step == 0)

    def kv_format(self, linear: str, moe: str, engine: str, generation: str) -> str:
        """Format of the KV cache, which runs do not record."""
        rule = self.kv_fp8
        narrow = linear in rule["linear"] or moe in rule["moe_on"].get(generation, ())
        return "fp8_tensor" if narrow and engine in rule["engines"] else "bf16"

    def engine_options(self, engine: str, generation: str) -> Mapping[str, float]:
        """Scheduler options of the launch scripts; empty where the engine's defaults hold."""
        by_generation = self.scheduling.get(engine, {})
        return by_generation.get(generation, by_generation.get("any", {}))


@dataclass(frozen=True)
class ReadingRules:
    """hardware_db/efficiency/runs.yaml: what the runs' tables leave open, by rule."""

    formats: Mapping[str, str]
    block_scaled: str
    nvfp4_moe_linear: Mapping[str, str]
    block_scaled_checkpoints: frozenset[str]
    """Hugging Face ids, in lower case, whose name stands for another checkpoint than their architecture's first."""
    expert_kernels: Sequence[Mapping[str, str]]
    benches: Mapping[str, BenchRules]

    def bench_of(self, label: str, tokens_in: float, tokens_out: float) -> str:
        """Kind of benchmark of a run, one of ``benches``."""
        if label == "vendor":
            label = next((name for name, b in self.benches.items() if b.claims(tokens_in, tokens_out)), label)
        return label if label in self.benches else "other"

    def expert_kernel(self, engine: str, version: str, generation: str, number_format: str) -> str:
        """Class of the curve of experts in ``number_format`` in a version of an engine (StepContext.expert_kernel)."""
        given = {"engine": engine, "generation": generation, "format": number_format}
        for rule in self.expert_kernels:
            if version.startswith(rule["version"]) and all(rule[k] == v for k, v in given.items()):
                return rule["curve"]
        return "moe"


def reading_rules(directory: Path | None = None) -> ReadingRules:
    """The shipped rules, or those in ``directory``."""
    data = read_yaml((directory or data_root() / "hardware_db" / "efficiency") / "runs.yaml")
    benches = {name: BenchRules(**values) for name, values in data["benches"].items()}
    return ReadingRules(
        data["precision"],
        data["block_scaled"],
        data["nvfp4_moe_linear"],
        frozenset(data["block_scaled_checkpoints"]),
        data["expert_kernels"],
        benches,
    )


_VARIANT = re.compile(
    r"[-_](instruct|chat|base|it|fp8|fp4|nvfp4|mxfp4|bf16|int4|w4a16|w8a8|awq|dynamic|hf|v0\.\d|\d{4})$"
)


_VERSION = re.compile(r"\d+\.\d+|\b(dev|nightly|main)\b")
"""A release, or the word for a build between releases."""


def architecture_name(model: str) -> str:
    """A Hugging Face id without its owner and the suffixes that keep the architecture: tuning, format, date."""
    name = model.split("/")[-1].lower()
    while (shorter := _VARIANT.sub("", name)) != name:
        name = shorter
    return name


def models_by_name(catalog: Catalog) -> dict[str, ModelSpec]:
    """Specifications by architecture name; an exact Hugging Face id or catalogue id wins."""
    specs = [catalog.model(i) for i in catalog.model_ids()]
    loose = {architecture_name(s.hf_id or s.id): s for s in reversed(specs)}
    return loose | {s.hf_id.lower(): s for s in specs if s.hf_id} | {s.id: s for s in specs}


def known_spec(known: Mapping[str, ModelSpec], model: str) -> ModelSpec | None:
    """The specification of a model as runs name it: by its id, else by its architecture; None without one."""
    return known.get(model.lower()) or known.get(architecture_name(model))


def unreadable(runs: Runs, row: int) -> str | None:
    """Why a run cannot be predicted by its columns alone; None where it can."""
    serving = runs.text["serving"][row]
    if serving not in SERVING:
        return f"serving: got {serving!r}; {' or '.join(SERVING)}"
    if problem := runs.problem(row):
        return problem
    if (version := runs.text["engine_version"][row]) and not _VERSION.search(version):
        return f"engine_version: got {version!r}; a version such as 0.11.0, or an empty cell"
    for name in LOAD:
        if not runs[name][row] > 0:
            return f"{name} is missing"
    layouts = ("",) if serving == "agg" else ("prefill_", "decode_")
    for pool in layouts:
        for name in ("tp",) if not pool else ("workers", "tp"):
            if not runs[f"{pool}{name}"][row] >= 1:
                return f"layout: {pool}{name} is missing"
    return None


KV_FORMATS = {"fp8": "fp8_tensor", "bf16": "bf16", "fp16": "bf16"}
"""Words of the column kv_precision -> format of the KV cache."""


def kv_of(recorded: str, by_rule: str) -> str:
    """Format of a run's KV cache: as recorded, else ``by_rule``. Raises InputError for a word that is no format."""
    if recorded and recorded.lower() not in KV_FORMATS:
        raise InputError("kv_precision", recorded, f"{', '.join(KV_FORMATS)} or an empty cell")
    return KV_FORMATS[recorded.lower()] if recorded else by_rule


def precision_of(
    spec: ModelSpec, linear: str, moe: str, kv: str, rules: ReadingRules, model: str = ""
) -> PrecisionPlan:
    """Formats of a run of ``model``: the checkpoint's, changed to what the run records."""
    plan = PrecisionPlan.from_checkpoint(spec)
    blocks = rules.block_scaled in (plan.attention, plan.routed_experts, plan.dense_mlp)
    blocks = blocks or model.lower() in rules.block_scaled_checkpoints
    changes: dict[str, str] = {"kv": kv}
    if linear:
        dense = dict.fromkeys(("attention", "dense_mlp", "shared_experts"), _format(linear, blocks, rules))
        changes |= dense if linear != "nvfp4" or not moe else dict(rules.nvfp4_moe_linear)
    if moe:
        changes["routed_experts"] = _format(moe, blocks, rules)
    try:
        return plan.with_overrides(changes)
    except InputError as error:
        given = ", ".join(filter(None, (linear, moe)))
        raise InputError("linear_precision, moe_precision", given, error.allowed) from None


def _format(recorded: str, blocks: bool, rules: ReadingRules) -> str:
    return rules.block_scaled if recorded == "fp8" and blocks else rules.formats.get(recorded, recorded)

"""Which model and precision a measured run means: its name in the log, resolved to a specification of the catalogue.

Names in the wild carry quantisation suffixes, variants of one architecture (instruct, chat, base) and, in
result files, truncated slugs. Each is resolved to exactly one specification or refused with the reason; nothing
is substituted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from planner.catalog import Catalog, ModelSpec
from planner.catalog.model_spec import MoeFeedForward
from planner.errors import InputError
from planner.evidence.run_terms import reading_rules
from planner.model.precision import PrecisionPlan

LINEAR_CLASSES = ("attention", "dense_mlp", "shared_experts", "routed_experts")
"""Tensor classes that weight quantisation covers; embedding, head, router, norms and vision tower stay as stored."""

_SUFFIX_FORMATS: tuple[tuple[str, str], ...] = (
    (r"quantized\.w8a8", "int8_channel"),
    (r"quantized\.w4a16|gptq(-int4)?|awq(-int4)?|w4a16", "int4_g128"),
    (r"fp8-dynamic", "fp8_channel"),
    (r"fp8", "fp8_tensor"),
    (r"nvfp4|fp4", "nvfp4"),
)
_OPTION_FORMATS = {
    "fp8": "fp8_tensor",
    "awq": "int4_g128",
    "gptq": "int4_g128",
    "gptq_marlin": "int4_g128",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
}
_VARIANTS = frozenset({"instruct", "chat", "it", "base", "hf", "lite-chat"})
_MIN_SLUG = 12
"""Shorter slugs name a vendor, not a model."""


@dataclass(frozen=True)
class Resolved:
    """A model name resolved; ``formats`` are the overrides its name implies by tensor class."""

    spec: ModelSpec
    formats: dict[str, str] = field(default_factory=dict)
    how: str = "exact"


def resolve_model(name: str, catalog: Catalog) -> Resolved:
    """The specification that ``name`` means.

    In order: the Hugging Face or catalogue id; the name without quantisation suffix; variants of one architecture
    (Chat, Instruct, ...) when only one specification has that stem; a truncated slug when only one
    specification begins so. Raises InputError saying why a name resolves to none or to several.
    """
    specs = [catalog.model(i) for i in catalog.model_ids()]
    for spec in specs:
        if name.lower() in (spec.id.lower(), (spec.hf_id or "").lower()):
            return Resolved(spec)
    bare, fmt = _strip_quantisation(name)
    same = [s for s in specs if _stem(bare) == _stem(s.hf_id or s.id) or _stem(bare) == _stem(s.id)]
    if len(same) == 1:
        formats = _formats_of(fmt, same[0])
        return Resolved(same[0], formats, f"{same[0].hf_id or same[0].id}, same architecture by name")
    if "/" not in name and len(name) >= _MIN_SLUG:
        same = [s for s in specs if _slug(s.hf_id or s.id).startswith(name.lower())]
        exact = [s for s in same if _slug(s.hf_id or "") == name.lower()]
        same = exact or same
        if len(same) == 1:
            return Resolved(same[0], _formats_of(fmt, same[0]), f"{same[0].hf_id}, the only name that begins so")
    if same:
        options = ", ".join(s.hf_id or s.id for s in same[:4])
        raise InputError("model", name, f"the name fits several specifications: {options}")
    raise InputError("model", name, "no specification of that name in the catalogue or the folder of models")


_PLAIN_KV = ("auto", "bfloat16", "bf16", "float16", "fp16", "half")
"""Values of kv_cache_dtype that keep the model's own 16 bits."""


def run_precision(resolved: Resolved, row: Mapping[str, str]) -> PrecisionPlan:
    """The precision a run had: checkpoint, name, then its dtype, quantization and kv_cache_dtype columns.

    A quantization option counts only on a checkpoint in 16 bits whose name implies no format: on others engines
    take what the checkpoint says. Raises InputError for an option whose format is not modelled.
    """
    plan = PrecisionPlan.from_checkpoint(resolved.spec)
    overrides: dict[str, str] = dict(resolved.formats)
    option = (row.get("quantization") or "").strip().lower()
    high = all(plan.format_of(c).is_high_precision for c in LINEAR_CLASSES)
    if option and high and not overrides:
        if option not in _OPTION_FORMATS:
            raise InputError("quantization", option, f"a format that is modelled: {', '.join(_OPTION_FORMATS)}")
        overrides = dict.fromkeys(LINEAR_CLASSES, _OPTION_FORMATS[option])
    if (row.get("dtype") or "").strip().lower() in ("float32", "fp32", "float"):
        # The cache follows the model's type; fp32 is not a cache format one can ask for, hence past the check.
        plan = replace(plan.with_overrides({"default": "fp32", "activations": "fp32"}), kv="fp32")
    kv = (row.get("kv_cache_dtype") or "auto").strip().lower()
    if kv.startswith("fp8"):
        overrides["kv"] = "fp8_tensor"
    elif kv not in _PLAIN_KV:
        raise InputError("kv_cache_dtype", kv, f"{', '.join(_PLAIN_KV)} or one that begins with fp8")
    return plan.with_overrides(overrides)


def _formats_of(fmt: str | None, spec: ModelSpec) -> dict[str, str]:
    """Formats by tensor class that a name's suffix implies; NVFP4 checkpoints with experts leave some at 16 bits."""
    if fmt is None:
        return {}
    formats = dict.fromkeys(LINEAR_CLASSES, fmt)
    if fmt == "nvfp4" and any(isinstance(f, MoeFeedForward) for f in spec.feed_forwards.values()):
        formats |= reading_rules().nvfp4_moe_linear
    return formats


def _strip_quantisation(name: str) -> tuple[str, str | None]:
    for pattern, fmt in _SUFFIX_FORMATS:
        shorter = re.sub(rf"[-_.]({pattern})$", "", name, flags=re.IGNORECASE)
        if shorter != name:
            return shorter, fmt
    return name, None


def _stem(name: str) -> str:
    """A model's name without vendor, variant words, the prefix Meta- and release dates."""
    words = re.split(r"[-_ ]", name.rsplit("/", 1)[-1].lower().removeprefix("meta-"))
    kept = [w for w in words if w not in _VARIANTS and not re.fullmatch(r"2[45](0[1-9]|1[0-2])", w)]
    return "-".join(kept)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

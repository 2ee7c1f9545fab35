"""What a low-bit choice risks and owes: a sensitivity class and checks by tensor class, and the bytes it saves.

The classes are judgements from published practice, not measurements; a plan quotes them beside the saving.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from planner.catalog.model_spec import ModelSpec
from planner.model.builder import tensors
from planner.model.precision import PrecisionPlan, tensor_bytes

Level = Literal["low", "medium", "high"]
Check = Literal["exact_match", "long_chain", "tool_call_format", "token_divergence", "routing_agreement"]


@dataclass(frozen=True)
class Sensitivity:
    level: Level
    why: str
    checks: tuple[Check, ...]
    """Owed by any format below 16 bits that the checkpoint does not already have."""
    checks_4_bit: tuple[Check, ...] = ()
    """Owed on top at 4 bits or less."""


SENSITIVITY: Mapping[str, Sensitivity] = MappingProxyType(
    {
        "attention": Sensitivity(
            "medium",
            "errors add up over the context",
            ("token_divergence", "long_chain"),
            ("exact_match", "tool_call_format"),
        ),
        "indexer": Sensitivity(
            "medium", "a wrong selection drops tokens for good", ("token_divergence", "long_chain"), ("exact_match",)
        ),
        "router": Sensitivity(
            "high",
            "a changed score sends the token to other experts; int4 makes routing collapse",
            ("routing_agreement", "exact_match", "long_chain", "token_divergence"),
        ),
        "dense_mlp": Sensitivity(
            "medium", "every token passes it", ("token_divergence", "exact_match"), ("long_chain", "tool_call_format")
        ),
        "shared_experts": Sensitivity(
            "medium", "every token passes them", ("token_divergence", "exact_match"), ("long_chain", "tool_call_format")
        ),
        "routed_experts": Sensitivity(
            "low",
            "a token averages over several, trained with quantised ones in recent models",
            ("token_divergence", "exact_match"),
            ("long_chain", "tool_call_format", "routing_agreement"),
        ),
        "embedding": Sensitivity(
            "high", "read without averaging, few bytes to save", ("exact_match", "token_divergence")
        ),
        "head": Sensitivity(
            "high", "errors go straight into the logits", ("exact_match", "token_divergence", "tool_call_format")
        ),
        "norm": Sensitivity("high", "scales whole channels, nothing to save", ("exact_match", "token_divergence")),
        "vision": Sensitivity("medium", "image tokens only", ("exact_match",)),
        "kv": Sensitivity(
            "medium",
            "read again at every later token; latent caches overflow at long context",
            ("token_divergence", "long_chain"),
            ("exact_match", "tool_call_format"),
        ),
        "activations": Sensitivity("medium", "outliers", ("token_divergence", "exact_match"), ("long_chain",)),
        "dispatch": Sensitivity("low", "the experts' own input format", ("token_divergence",), ("exact_match",)),
        "combine": Sensitivity("medium", "summed over experts", ("token_divergence", "exact_match"), ("long_chain",)),
    }
)


@dataclass(frozen=True)
class ClassSaving:
    """One tensor class of a plan beside the same class in bf16."""

    tensor_class: str
    format: str
    bytes: float
    """Of all its tensors, unsharded; 0 for classes without weights."""
    saved_bytes: float
    level: Level
    checks_owed: tuple[Check, ...]


def checks_owed(spec: ModelSpec, plan: PrecisionPlan) -> dict[str, tuple[Check, ...]]:
    """Checks by class for every format below 16 bits that differs from what the checkpoint was published in."""
    published = PrecisionPlan.from_checkpoint(spec)
    owed: dict[str, tuple[Check, ...]] = {}
    for name, entry in SENSITIVITY.items():
        fmt = plan.format_of(name)
        if fmt.is_high_precision or fmt == published.format_of(name):
            continue
        owed[name] = entry.checks + (entry.checks_4_bit if fmt.bits <= 4 else ())
    return owed


def class_savings(spec: ModelSpec, plan: PrecisionPlan, *, mtp: bool = False) -> tuple[ClassSaving, ...]:
    """Every class that has weights in ``spec``, its bytes in the plan and what that saves against bf16.

    ``mtp`` counts the multi-token-prediction blocks too; copies of embedding and head are never counted.
    """
    now: dict[str, float] = {}
    full: dict[str, float] = {}
    for tensor in tensors(spec):
        if tensor.part == "mtp_duplicate" or (tensor.part == "mtp" and not mtp):
            continue
        name = tensor.tensor_class
        now[name] = now.get(name, 0.0) + tensor_bytes(tensor, plan.format_of(name))
        full[name] = full.get(name, 0.0) + tensor_bytes(tensor, "bf16")
    owed = checks_owed(spec, plan)
    return tuple(
        ClassSaving(
            tensor_class=name,
            format=plan.format_of(name).name,
            bytes=size,
            saved_bytes=full[name] - size,
            level=SENSITIVITY[name].level,
            checks_owed=owed.get(name, ()),
        )
        for name, size in now.items()
    )

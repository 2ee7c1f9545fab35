"""The precision plan: a number format for every tensor class, the KV cache, activations and expert messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError, UnknownNameError
from planner.model.formats import (
    ALIASES,
    FORMATS,
    Format,
    matrix_bytes,
    resolve_format,
    resolve_kv_format,
)
from planner.model.tensors import Tensor

QUANTISED_BY_DEFAULT = ("attention", "indexer", "dense_mlp", "shared_experts", "routed_experts")
"""Classes that a low-bit ``default`` reaches; router, norms, embedding, head and vision stay high unless named."""
WEIGHT_CLASSES = (*QUANTISED_BY_DEFAULT, "router", "embedding", "head", "norm", "vision")


@dataclass(frozen=True)
class PrecisionPlan:
    """Format names (keys of FORMATS) by tensor class.

    ``kv`` is the cache's, ``dispatch`` and ``combine`` those of the tokens sent to experts and back.
    """

    attention: str
    indexer: str
    router: str
    dense_mlp: str
    shared_experts: str
    routed_experts: str
    embedding: str
    head: str
    norm: str
    vision: str
    kv: str
    activations: str
    dispatch: str
    combine: str

    @classmethod
    def from_checkpoint(cls, spec: ModelSpec) -> PrecisionPlan:
        """The formats the checkpoint is stored in; KV as it asks for, else in the activations' type.

        Experts in fp8 or fp4 are sent their tokens in fp8 (the GEMM's own input), others in the activations' type.
        """
        default = resolve_format(spec.precision["default"]).name
        high = default if FORMATS[default].is_high_precision else "bf16"
        # Engines hold fp32 checkpoints' activations and caches in bf16 ("auto").
        running = "bf16" if high == "fp32" else high
        named = {key: resolve_format(name).name for key, name in spec.precision.items() if key != "default"}
        unknown = set(named) - {f.name for f in fields(cls)}
        if unknown:
            raise UnknownNameError(f"{spec.id}: precision", sorted(unknown)[0], _class_names())
        weights = {c: default if c in QUANTISED_BY_DEFAULT else high for c in WEIGHT_CLASSES} | named
        plan = cls(**dict.fromkeys(("kv", "activations", "dispatch", "combine"), running) | weights)
        return plan if "dispatch" in named else replace(plan, dispatch=_dispatch(plan))

    def with_overrides(self, overrides: Mapping[str, str]) -> PrecisionPlan:
        """The plan with some classes in other formats.

        ``default`` sets every weight class not named; below 16 bits only the classes in QUANTISED_BY_DEFAULT, since
        a router or norm in low precision must be asked for by name. Norms below 16 bits are refused. A plain ``fp8``
        for ``dispatch`` is the format that the experts read, block-scaled where tokens are sent in fp8 anyway: kernels
        scale each token's values in blocks of 128 (DeepEP). Raises UnknownNameError for a class or format that is not
        known, InputError for a format no engine caches in.
        """
        known = _class_names()
        changes: dict[str, str] = {}
        for key, name in overrides.items():
            if key != "default" and key not in known:
                raise UnknownNameError("precision", key, [*known, "default"])
            found = resolve_kv_format(name) if key == "kv" else resolve_format(name)
            if key == "default":
                reach = WEIGHT_CLASSES if found.is_high_precision else QUANTISED_BY_DEFAULT
                changes = dict.fromkeys(reach, found.name) | changes
            else:
                changes[key] = found.name
        if "norm" in changes and not FORMATS[changes["norm"]].is_high_precision:
            raise InputError("precision.norm", changes["norm"], "norms and biases stay at 16 bits or more")
        plan = replace(self, **changes)
        if str(overrides.get("dispatch", "")).lower() == "fp8":
            follows = FORMATS[_dispatch(plan)].compute == "fp8"
        else:
            follows = "routed_experts" in changes and "dispatch" not in changes
        return replace(plan, dispatch=_dispatch(plan)) if follows else plan

    def format_of(self, tensor_class: str) -> Format:
        """The format of a class. Raises UnknownNameError for a class that does not exist."""
        if tensor_class not in _class_names():
            raise UnknownNameError("precision", tensor_class, _class_names())
        return FORMATS[getattr(self, tensor_class)]

    def as_dict(self) -> dict[str, str]:
        """Class -> format name."""
        return asdict(self)


def _class_names() -> list[str]:
    return [f.name for f in fields(PrecisionPlan)]


def _dispatch(plan: PrecisionPlan) -> str:
    return "fp8_block" if FORMATS[plan.routed_experts].compute in ("fp8", "fp4") else plan.activations


def tensor_bytes(tensor: Tensor, fmt: Format | str) -> float:
    """Bytes of the whole, unsharded ``tensor`` (all copies, all layers) in a format, scales included."""
    found = resolve_format(fmt) if isinstance(fmt, str) else fmt
    return float(matrix_bytes(found, tensor.rows, tensor.cols)) * tensor.copies * tensor.layers


__all__ = [
    "ALIASES",
    "FORMATS",
    "QUANTISED_BY_DEFAULT",
    "WEIGHT_CLASSES",
    "Format",
    "PrecisionPlan",
    "matrix_bytes",
    "resolve_format",
    "resolve_kv_format",
    "tensor_bytes",
]

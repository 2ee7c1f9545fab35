"""Number formats of weights, caches and messages: bits per value, bytes of scales, the type the GEMM computes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError, UnknownNameError

Array = NDArray[np.float64]
Compute = Literal["bf16", "fp8", "fp4", "int8"]
_FP32_BYTES = 4
_16_BIT_BYTES = 2


@dataclass(frozen=True)
class Format:
    """``bits`` per value without scales; ``compute`` is the type that a GEMM on such weights runs in.

    Weight-only formats (int4 groups, mxfp4 with 16-bit activations) compute in bf16: they save bytes, not FLOPs.
    """

    name: str
    bits: int
    compute: Compute
    scale_bytes: Callable[[ArrayLike, ArrayLike], Array]
    """(rows, cols) -> bytes of scales of a rows x cols weight (out x in features); broadcasts."""
    kv: bool = False
    """Engines keep KV caches in it."""
    kv_scale_bytes_per_value: float = 0.0
    """Scale bytes that a cache in this format adds to every value."""

    @property
    def bytes_per_value(self) -> float:
        return self.bits / 8

    @property
    def is_high_precision(self) -> bool:
        return self.bits >= 16


def _none(rows: ArrayLike, cols: ArrayLike) -> Array:
    return np.zeros(np.broadcast_shapes(np.shape(rows), np.shape(cols)))


def _per_tensor(rows: ArrayLike, cols: ArrayLike) -> Array:
    return _none(rows, cols) + _FP32_BYTES


def _per_row(rows: ArrayLike, cols: ArrayLike) -> Array:
    return _none(rows, cols) + _FP32_BYTES * np.asarray(rows, dtype=float)


def _blocks(side: int) -> Callable[[ArrayLike, ArrayLike], Array]:
    def scale_bytes(rows: ArrayLike, cols: ArrayLike) -> Array:
        return np.asarray(_FP32_BYTES * np.ceil(np.asarray(rows) / side) * np.ceil(np.asarray(cols) / side))

    return scale_bytes


def _groups(size: int, scale: int, per_tensor: int = 0) -> Callable[[ArrayLike, ArrayLike], Array]:
    def scale_bytes(rows: ArrayLike, cols: ArrayLike) -> Array:
        return np.asarray(scale * np.asarray(rows) * np.ceil(np.asarray(cols) / size) + per_tensor, dtype=float)

    return scale_bytes


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        f.name: f
        for f in (
            Format("fp32", 32, "bf16", _none),
            Format("bf16", 16, "bf16", _none, kv=True),
            Format("fp16", 16, "bf16", _none, kv=True),
            Format("fp8_tensor", 8, "fp8", _per_tensor, kv=True),
            Format("fp8_channel", 8, "fp8", _per_row),
            Format("fp8_block", 8, "fp8", _blocks(128)),
            Format("mxfp8", 8, "fp8", _groups(32, 1)),
            Format("int8_channel", 8, "int8", _per_row),
            Format("nvfp4", 4, "fp4", _groups(16, 1, _FP32_BYTES), kv=True, kv_scale_bytes_per_value=1 / 16),
            Format("mxfp4", 4, "bf16", _groups(32, 1)),
            Format("int4_g32", 4, "bf16", _groups(32, _16_BIT_BYTES)),
            Format("int4_g64", 4, "bf16", _groups(64, _16_BIT_BYTES)),
            Format("int4_g128", 4, "bf16", _groups(128, _16_BIT_BYTES)),
        )
    }
)
"""Every format by name.

fp8_block: one fp32 scale a 128 x 128 block (DeepSeek-V3 report, section 3.3). nvfp4: an e4m3 scale every 16 values and
one fp32 scale a tensor. mxfp4, mxfp8: an e8m0 scale every 32 values (OCP Microscaling 1.0, table 1). int4_gN: a 16-bit
scale every N values of a row, symmetric. *_channel: an fp32 scale a row. fp8_tensor: one fp32 scale.
"""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "bfloat16": "bf16",
        "float16": "fp16",
        "half": "fp16",
        "float32": "fp32",
        "fp8": "fp8_tensor",
        "fp8_e4m3": "fp8_tensor",
        "fp8-block128": "fp8_block",
        "fp8_block128": "fp8_block",
        "int8": "int8_channel",
        "w8a8": "int8_channel",
        "int4": "int4_g128",
        "w4a16": "int4_g128",
        "fp4": "nvfp4",
    }
)


def resolve_format(name: str) -> Format:
    """The format of a name or alias. Raises UnknownNameError naming the nearest."""
    key = str(name).lower()
    key = ALIASES.get(key, key)
    if key not in FORMATS:
        raise UnknownNameError("number format", str(name), [*FORMATS, *ALIASES])
    return FORMATS[key]


def resolve_kv_format(name: str) -> Format:
    """As :func:`resolve_format`, for a KV cache. Raises InputError for formats no engine caches in."""
    found = resolve_format(name)
    if not found.kv:
        allowed = ", ".join(f.name for f in FORMATS.values() if f.kv)
        raise InputError("kv format", name, f"formats of a KV cache: {allowed}")
    return found


def matrix_bytes(fmt: Format, rows: ArrayLike, cols: ArrayLike) -> Array:
    """Bytes of a rows x cols weight with its scales; broadcasts."""
    values = np.asarray(rows, dtype=float) * np.asarray(cols, dtype=float)
    return np.asarray(values * fmt.bytes_per_value + fmt.scale_bytes(rows, cols))

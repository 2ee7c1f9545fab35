"""Coefficients that end-to-end runs add to operator curves: host times, small-kernel overheads, factors by family.

Calibrated ones (``hardware_db/efficiency/e2e.yaml``, written by ``planner calibrate e2e``) per engine and accelerator
generation, assumed ones in ``assumed.yaml`` with their reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.units import MICROSECOND, MILLISECOND

FAMILIES = ("linear", "attention", "experts", "communication")
TYPED_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "linear": ("bf16", "fp8", "fp8_block", "nvfp4"),
    "experts": ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4"),
}
"""Families whose kernels differ by data type, and the types with a factor of their own."""
COLUMNS: tuple[tuple[str, str], ...] = tuple(
    (family, kind) for family in FAMILIES for kind in ("", *TYPED_FAMILIES.get(family, ()))
)
"""(family, data type) of every factor; type '' is the family's own, for types without one."""
HOST_KEYS = (
    "host_step_us",
    "host_prefill_step_us",
    "host_seq_us",
    "layer_overhead_us",
    "moe_layer_overhead_us",
    "launch_layer_us",
    "launch_moe_layer_us",
    "request_ms",
)

_TYPE_OF_FORMAT: Mapping[str, str] = {
    "bf16": "bf16",
    "fp16": "bf16",
    "fp32": "bf16",
    "fp8_tensor": "fp8",
    "fp8_channel": "fp8",
    "fp8_block": "fp8_block",
    "mxfp8": "fp8_block",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
}


def column_of(family: str, number_format: str = "") -> int:
    """Position in COLUMNS of a family's factor for weights in ``number_format``."""
    kind = _TYPE_OF_FORMAT.get(number_format, "")
    return COLUMNS.index((family, kind if kind in TYPED_FAMILIES.get(family, ()) else ""))


@dataclass(frozen=True)
class StepCoefficients:
    """Seconds and dimensionless factors (1 = exactly as the operator measurements say)."""

    host_step_s: float
    host_prefill_step_s: float
    host_seq_s: float
    request_s: float
    """Fixed time of a request outside steps: HTTP, tokenisation, first response."""
    layer_overhead_s: float
    """Small kernels of a layer that no operator class covers: norms, rotary embedding, routing, cache writes."""
    moe_layer_overhead_s: float
    """Further small kernels of a layer with routed experts: top-k, sorting, weighted sum."""
    launch_layer_s: float
    """Host time to launch a layer's kernels one by one: the least time of a layer where no CUDA graph is replayed."""
    launch_moe_layer_s: float
    """Further launch time of a layer with routed experts."""
    qk_norm_kernels: float
    latent_kernels: float
    indexer_kernels: float
    linear_attention_kernels: float
    """Further small kernels of a layer with q and k norms, latent, sparse or linear attention, in a plain one's."""
    elementwise_passes: float
    """Reads and writes of the hidden state by those small kernels, per layer."""
    stream_efficiency: float
    scan_efficiency: float
    scan_floor_s: float
    communication_sm_share: float
    placement_residual: float
    decode_factors: tuple[float, ...] = (1.0,) * len(COLUMNS)
    prefill_factors: tuple[float, ...] = (1.0,) * len(COLUMNS)
    """Factors on operator times in steps without and with prompt tokens, by COLUMNS."""
    marks: tuple[str, ...] = ()
    """Said where these coefficients were fitted on another engine or generation."""

    def factor(self, has_prefill: bool, family: str, number_format: str = "") -> float:
        """Factor on operator times of a family (with weights in ``number_format``) in a step of this kind."""
        fitted = self.prefill_factors if has_prefill else self.decode_factors
        return fitted[column_of(family, number_format)]

    def slowed(self, decode: float, prefill: float) -> StepCoefficients:
        """The same with steps ``decode`` and ``prefill`` times as long: what one deployment's own runs showed."""
        return replace(
            self,
            host_step_s=self.host_step_s * decode,
            host_seq_s=self.host_seq_s * decode,
            layer_overhead_s=self.layer_overhead_s * decode,
            moe_layer_overhead_s=self.moe_layer_overhead_s * decode,
            decode_factors=tuple(f * decode for f in self.decode_factors),
            host_prefill_step_s=self.host_prefill_step_s * prefill,
            launch_layer_s=self.launch_layer_s * prefill,
            launch_moe_layer_s=self.launch_moe_layer_s * prefill,
            request_s=self.request_s * prefill,
            prefill_factors=tuple(f * prefill for f in self.prefill_factors),
        )


def step_coefficients(engine: str, generation: str, directory: Path | None = None) -> StepCoefficients:
    """Coefficients of an engine on an accelerator generation, from the shipped files or those in ``directory``.

    A generation without runs of this engine takes the nearest one's, else the engine's own mean over generations; an
    engine without runs the mean over engines. ``marks`` says so.
    """
    folder = directory or data_root() / "hardware_db" / "efficiency"
    return coefficients_from(_document(folder / "e2e.yaml"), _document(folder / "assumed.yaml"), engine, generation)


def coefficients_from(
    fitted: Mapping[str, Any], assumed: Mapping[str, Any], engine: str, generation: str
) -> StepCoefficients:
    """:func:`step_coefficients` from documents already read."""
    marks: list[str] = []
    by_engine = fitted["engines"]
    own = by_engine.get(engine)
    if own is None:
        own = fitted["pooled"]
        marks.append(f"{engine}: no end-to-end runs to calibrate with; mean of {', '.join(sorted(by_engine))}")
    found = nearest_generation(generation, own["generations"], assumed)
    values = own["pooled"] if found is None else own["generations"][found]
    if found is None:
        seen = ", ".join(sorted(own["generations"])) or "no generation"
        marks.append(f"{engine} on {generation}: no end-to-end runs; coefficients of {seen} pooled")
    elif found != generation:
        marks.append(f"{engine} on {generation}: no end-to-end runs; coefficients of {found}")
    return StepCoefficients(
        host_step_s=values["host_step_us"] * MICROSECOND,
        host_prefill_step_s=values["host_prefill_step_us"] * MICROSECOND,
        host_seq_s=values["host_seq_us"] * MICROSECOND,
        request_s=values["request_ms"] * MILLISECOND,
        layer_overhead_s=values["layer_overhead_us"] * MICROSECOND,
        moe_layer_overhead_s=values["moe_layer_overhead_us"] * MICROSECOND,
        launch_layer_s=values["launch_layer_us"] * MICROSECOND,
        launch_moe_layer_s=values["launch_moe_layer_us"] * MICROSECOND,
        decode_factors=tuple(values["decode"][_key(*column)] for column in COLUMNS),
        prefill_factors=tuple(values["prefill"][_key(*column)] for column in COLUMNS),
        marks=tuple(marks),
        qk_norm_kernels=_assumed(assumed, "qk_norm_kernels"),
        latent_kernels=_assumed(assumed, "latent_kernels"),
        indexer_kernels=_assumed(assumed, "indexer_kernels"),
        linear_attention_kernels=_assumed(assumed, "linear_attention_kernels"),
        elementwise_passes=_assumed(assumed, "elementwise_passes"),
        stream_efficiency=_assumed(assumed, "stream_efficiency"),
        scan_efficiency=_assumed(assumed, "scan_efficiency"),
        scan_floor_s=_assumed(assumed, "scan_floor_us") * MICROSECOND,
        communication_sm_share=_assumed(assumed, "communication_sm_share"),
        placement_residual=_assumed(assumed, "placement_residual"),
    )


def nearest_generation(generation: str, known: Mapping[str, Any], assumed: Mapping[str, Any]) -> str | None:
    """The generation itself where it is known, else the first of its substitutes that is; None where none is."""
    order = (generation, *assumed["nearest_generation"].get(generation, ()))
    return next((g for g in order if g in known), None)


def factor_key(column: int) -> str:
    """Name of a factor in e2e.yaml: ``experts`` or ``experts_fp8_block``."""
    return _key(*COLUMNS[column])


def _key(family: str, kind: str) -> str:
    return f"{family}_{kind}" if kind else family


def unit_coefficients(directory: Path | None = None) -> StepCoefficients:
    """No host time, no layer overhead, every operator as measured: what calibrated coefficients multiply."""
    ones = {_key(*column): 1.0 for column in COLUMNS}
    nothing: dict[str, Any] = dict.fromkeys(HOST_KEYS, 0.0) | {"decode": ones, "prefill": ones}
    pooled = {"pooled": nothing, "generations": {}}
    folder = directory or data_root() / "hardware_db" / "efficiency"
    return coefficients_from({"engines": {}, "pooled": pooled}, _document(folder / "assumed.yaml"), "", "")


def _assumed(assumed: Mapping[str, Any], name: str) -> float:
    return float(assumed["values"][name]["value"])


@lru_cache(maxsize=16)
def _document(path: Path) -> Mapping[str, Any]:
    return read_yaml(path)


def default_expert_skew(directory: Path | None = None) -> float:
    """Coefficient of variation of expert popularity to take where a scenario gives none."""
    folder = directory or data_root() / "hardware_db" / "efficiency"
    return _assumed(_document(folder / "assumed.yaml"), "expert_skew")

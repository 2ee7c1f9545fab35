"""Coefficients of a step that operator measurements do not give: host time, launches, end-to-end factors.

Fitted from end-to-end runs per engine and accelerator generation by ``planner calibrate e2e``
(:mod:`planner.evidence.e2e_calibrate`), kept in ``hardware_db/efficiency/e2e.yaml``; what no run can tell apart is
assumed in ``hardware_db/efficiency/assumed.yaml`` with its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.catalog.files import read_yaml
from planner.catalog.loader import data_root
from planner.units import MICROSECOND, MILLISECOND

FAMILIES = ("linear", "attention", "experts", "communication")
HOST_KEYS = ("host_step_us", "host_prefill_step_us", "host_seq_us", "layer_overhead_us", "request_ms")


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
    eager_layer_overhead_s: float
    """Further launch time of a layer without CUDA graphs."""
    elementwise_passes: float
    """Reads and writes of the hidden state by those small kernels, per layer."""
    stream_efficiency: float
    scan_efficiency: float
    scan_floor_s: float
    communication_sm_share: float
    placement_residual: float
    decode_factors: tuple[float, ...] = (1.0,) * len(FAMILIES)
    prefill_factors: tuple[float, ...] = (1.0,) * len(FAMILIES)
    """Factors of FAMILIES on operator times in steps without and with prompt tokens."""
    marks: tuple[str, ...] = ()
    """Said where these coefficients were fitted on another engine or generation."""

    def factors(self, has_prefill: bool) -> dict[str, float]:
        """Factor by operator family for a step with or without prompt tokens."""
        fitted = self.prefill_factors if has_prefill else self.decode_factors
        return dict(zip(FAMILIES, fitted, strict=True)) | {"other": 1.0}


def step_coefficients(engine: str, generation: str, directory: Path | None = None) -> StepCoefficients:
    """Coefficients of an engine on an accelerator generation, from the shipped files or those in ``directory``.

    A generation without runs of this engine takes the engine's own mean over generations, an engine without runs the
    mean over engines; ``marks`` says so.
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
    values = own["generations"].get(generation)
    if values is None:
        values = own["pooled"]
        seen = ", ".join(sorted(own["generations"])) or "no generation"
        marks.append(f"{engine} on {generation}: no end-to-end runs; coefficients of {seen} pooled")
    return StepCoefficients(
        host_step_s=values["host_step_us"] * MICROSECOND,
        host_prefill_step_s=values["host_prefill_step_us"] * MICROSECOND,
        host_seq_s=values["host_seq_us"] * MICROSECOND,
        request_s=values["request_ms"] * MILLISECOND,
        layer_overhead_s=values["layer_overhead_us"] * MICROSECOND,
        decode_factors=tuple(values["decode"][f] for f in FAMILIES),
        prefill_factors=tuple(values["prefill"][f] for f in FAMILIES),
        marks=tuple(marks),
        **assumed_values(assumed),
    )


def assumed_values(assumed: Mapping[str, Any]) -> dict[str, float]:
    """The assumed part of :class:`StepCoefficients` in SI units."""
    v = {name: float(entry["value"]) for name, entry in assumed["values"].items()}
    return {
        "eager_layer_overhead_s": v["eager_layer_overhead_us"] * MICROSECOND,
        "elementwise_passes": v["elementwise_passes"],
        "stream_efficiency": v["stream_efficiency"],
        "scan_efficiency": v["scan_efficiency"],
        "scan_floor_s": v["scan_floor_us"] * MICROSECOND,
        "communication_sm_share": v["communication_sm_share"],
        "placement_residual": v["placement_residual"],
    }


@lru_cache(maxsize=16)
def _document(path: Path) -> Mapping[str, Any]:
    return read_yaml(path)


def default_expert_skew(directory: Path | None = None) -> float:
    """Coefficient of variation of expert popularity to take where a scenario gives none."""
    folder = directory or data_root() / "hardware_db" / "efficiency"
    return float(_document(folder / "assumed.yaml")["values"]["expert_skew"]["value"])

"""Coefficients of a step that operator measurements do not give: host time, launches, end-to-end factors.

Fitted from end-to-end runs per engine and accelerator generation by ``planner calibrate e2e``
(:mod:`planner.evidence.e2e_calibrate`), kept in ``hardware_db/efficiency/e2e.yaml``; what no run can tell apart is
assumed in ``hardware_db/efficiency/assumed.yaml`` with its source.
"""

from __future__ import annotations

from dataclasses import dataclass

FAMILIES = ("linear", "attention", "experts", "communication")


@dataclass(frozen=True)
class StepCoefficients:
    """Seconds and dimensionless factors (1 = exactly as the operator measurements say)."""

    host_step_s: float
    host_prefill_step_s: float
    host_seq_s: float
    request_s: float
    """Fixed time of a request outside steps: HTTP, tokenisation, first response."""
    layer_overhead_s: float
    eager_layer_overhead_s: float
    elementwise_passes: float
    stream_efficiency: float
    scan_efficiency: float
    scan_floor_s: float
    communication_sm_share: float
    placement_residual: float
    decode_factors: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    prefill_factors: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    """Factors of FAMILIES on operator times in steps without and with prompt tokens."""
    marks: tuple[str, ...] = ()
    """What these coefficients stand on when it is not this engine and generation."""

    def factors(self, has_prefill: bool) -> dict[str, float]:
        """Factor by operator family for a step with or without prompt tokens."""
        return dict(zip(FAMILIES, self.prefill_factors if has_prefill else self.decode_factors, strict=True))

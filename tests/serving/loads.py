"""Worker loads for tests: one worker with affine steps, scalars as arrays of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.scenario.lengths import FixedLength, LognormalLength
from planner.serving.length_shape import LengthShape
from planner.serving.open_loop import WorkerLoad

CHAT = LengthShape.of(LognormalLength(kind="lognormal", mean_tokens=1200.0, p95_tokens=3000.0))
ANSWERS = LengthShape.of(LognormalLength(kind="lognormal", mean_tokens=250.0, p95_tokens=700.0))
FIXED = LengthShape.of(FixedLength(kind="fixed", tokens=1000))
DECODE_S, SLOPE_S, PROMPT_S = 0.015, 1e-4, 0.045


def load(rate: Any, *, cv: float = 1.0, pause: bool = False, slots: float = 1e9, **changes: Any) -> WorkerLoad:
    """A worker at ``rate`` requests/s (scalar or array): 15 ms a decode step, 45 ms a prompt, 8 prompts a full step."""
    rates = np.atleast_1d(np.asarray(rate, dtype=float))
    occupancy = 20.0
    step = DECODE_S + SLOPE_S * occupancy
    values: dict[str, Any] = {
        "rate_rps": rates,
        "arrival_cv": np.array(cv),
        "prompts": CHAT,
        "outputs": ANSWERS,
        "decode_step_s": np.full(rates.shape, step),
        "reference_occupancy": np.array(occupancy),
        "decode_step_slope_s": np.array(SLOPE_S),
        "prefill_step_s": np.array(PROMPT_S + (0.0 if pause else step)),
        "prefill_fixed_s": np.array(0.005),
        "prompts_per_step": np.array(1.0),
        "chunks": np.array(1.0),
        "most_prompts": np.array(8.0),
        "lanes": np.array(1.0),
        "decodes_pause": np.array(pause),
        "quadratic_share": np.array(0.05),
        "slots": np.array(slots),
        "request_s": np.array(0.01),
        "poll_steps": np.array(1.0),
    }
    return WorkerLoad(**{**values, **changes})

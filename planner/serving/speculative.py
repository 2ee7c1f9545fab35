"""Speculative decoding and multi-token prediction: acceptance by position to tokens a step and steps of an output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError
from planner.serving.length_shape import LengthShape

Array = NDArray[np.float64]


def step_distribution(acceptance: Sequence[float]) -> Array:
    """P(a step makes 1, 2, ..., K + 1 tokens), (K + 1,).

    ``acceptance[k]`` is the chance that draft token k + 1 is accepted given that all before it are. Raises InputError
    outside 0..1.
    """
    a = np.asarray(acceptance, dtype=float)
    if a.size and (np.any(a < 0.0) or np.any(a > 1.0) or np.any(np.isnan(a))):
        raise InputError("acceptance", list(acceptance), "probabilities between 0 and 1")
    reach = np.concatenate([[1.0], np.cumprod(a)])
    return np.asarray(reach * np.concatenate([1.0 - a, [1.0]]))


def tokens_per_step(acceptance: Sequence[float]) -> float:
    """Mean tokens of a step: 1 + a1 + a1 a2 + ... (Leviathan et al. 2023, eq. 1, for acceptance by position)."""
    p = step_distribution(acceptance)
    return float(p @ np.arange(1, p.size + 1))


def acceptance_from_length(mean_tokens: float, drafts: int) -> tuple[float, ...]:
    """Equal acceptance at ``drafts`` positions that makes ``mean_tokens`` a step, by bisection.

    Published acceptance lengths (TensorRT-LLM: 1.92, 2.58, 2.82 for 1, 2, 3 drafts) turn into probabilities so.
    """
    if not 1.0 <= mean_tokens <= drafts + 1:
        raise InputError("mean_tokens", mean_tokens, f"between 1 and {drafts + 1}")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if tokens_per_step([middle] * drafts) < mean_tokens else (low, middle)
    return tuple([0.5 * (low + high)] * drafts)


def extra_kv_tokens(acceptance: Sequence[float]) -> float:
    """KV slots that drafts take per sequence beyond the accepted ones: all K are written, the rejected are dropped."""
    return len(acceptance) + 1.0 - tokens_per_step(acceptance)


def steps_for(tokens: ArrayLike, acceptance: Sequence[float]) -> Array:
    """Mean decode steps that make ``tokens``: the last one makes (E[j^2] / n - 1) / 2 more than is needed (renewal
    theory; Feller 1971, volume II, section XI.4), none where there is nothing to make.
    """
    chances = step_distribution(acceptance)
    counts = np.arange(1, chances.size + 1)
    n = tokens_per_step(acceptance)
    over = 0.5 * (float(chances @ np.square(counts)) / n - 1.0)
    wanted = np.asarray(tokens, dtype=float)
    return np.where(wanted > 0.0, np.maximum((wanted + over) / n, np.minimum(wanted, 1.0)), 0.0)


def in_steps(outputs: LengthShape, acceptance: Sequence[float]) -> LengthShape:
    """Output lengths in decode steps: the first token comes with the prompt, n tokens a step after it."""
    n = tokens_per_step(acceptance)
    if n == 1.0:
        return outputs
    steps = 1.0 + steps_for(np.maximum(outputs.values * outputs.mean - 1.0, 0.0), acceptance)
    mean = float(outputs.weights @ steps)
    return LengthShape(mean, steps / mean, outputs.weights)

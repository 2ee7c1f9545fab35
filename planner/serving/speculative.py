"""Speculative decoding and multi-token prediction: acceptance by position to tokens a step, cost of checking, gaps as a
user sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Speculated:
    """Decode with speculation, arrays (n,)."""

    step_s: Array
    """A step that drafts and checks."""
    tpot_s: Array
    """Mean time per token of a request: step over tokens a step."""
    speedup: Array
    """Over a step without drafts."""
    user_gap_s: Array
    """Mean of the gaps that are not zero: tokens of one step arrive together, and the wait is between steps."""
    within_step: float
    """Part of gaps that are zero: tokens that come with the one before."""


def speculated(
    plain_step_s: ArrayLike, verify_step_s: ArrayLike, draft_s: ArrayLike, acceptance: Sequence[float]
) -> Speculated:
    """TBT and TPOT with K drafts a step. All broadcast.

    ``verify_step_s`` is the time of a step with 1 + K tokens per sequence (more compute, the same weights and cache
    read), ``draft_s`` of making the drafts. A request's tokens come in groups: of all gaps 1 - 1 / n are zero and 1 / n
    are a whole step, n tokens a step, so percentiles of TBT above 1 - 1 / n are those of steps.
    """
    n = tokens_per_step(acceptance)
    step = np.asarray(verify_step_s, dtype=float) + np.asarray(draft_s, dtype=float)
    tpot = step / n
    return Speculated(step, tpot, np.asarray(plain_step_s, dtype=float) / tpot, step, 1.0 - 1.0 / n)


def gap_quantile(
    step_quantile_s: Sequence[float], levels: Sequence[float], acceptance: Sequence[float], p: float
) -> float:
    """Quantile ``p`` of the gaps between tokens: zero below 1 - 1 / n, else the steps' quantile 1 - (1 - p) n.

    ``step_quantile_s`` at ``levels`` (ascending) describe the step times; between them it is linear.
    """
    n = tokens_per_step(acceptance)
    among = 1.0 - (1.0 - p) * n
    return 0.0 if among <= 0.0 else float(np.interp(among, levels, step_quantile_s))


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

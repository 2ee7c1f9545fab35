"""Times of decode steps as users see them: by token, where a step makes several (speculative decoding)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.serving.latency import LoadResult
from planner.serving.quantiles import LEVELS, normal_quantile
from planner.serving.speculative import step_distribution, tokens_per_step

Array = NDArray[np.float64]

HALVINGS = 40


def by_token(result: LoadResult, acceptance: Sequence[float], output_steps: float) -> LoadResult:
    """Times by step turned into times by token; ``output_steps`` is the mean number of decode steps of a request.

    TBT: the j tokens of a step count as j gaps of a j-th of it, as the replay counts them: of all gaps j p_j / n are
    those of steps with j tokens, n tokens a step on average. TPOT: steps over n; a request's own number of tokens a
    step varies around n by sd / sqrt(steps). TTFT and whole requests stay what they are.
    """
    if not acceptance:
        return result
    chances = step_distribution(acceptance)
    n, counts = tokens_per_step(acceptance), np.arange(1, chances.size + 1)
    spread = float(np.sqrt(chances @ np.square(counts - n))) / n / np.sqrt(max(output_steps, 1.0))
    tpot = dict(result.tpot)
    mean = result.tpot.get("mean")
    for name, value in result.tpot.items():
        if name == "mean" or mean is None:
            tpot[name] = value / n
            continue
        with np.errstate(invalid="ignore"):
            above = np.hypot(value / mean - 1.0, normal_quantile(LEVELS[name]) * spread)
            tpot[name] = np.where(value >= mean, mean * (1.0 + above), value) / n
    tbt = _shared_gaps(result.tbt, counts, counts * chances / n)
    if "mean" in tbt:
        tbt["mean"] = result.tbt["mean"] / n
    flow = replace(result.flow, tpot_s=result.flow.tpot_s / n)
    return replace(result, tpot=tpot, tbt=tbt, flow=flow)


def _shared_gaps(steps: dict[str, Array], counts: NDArray[np.int64], weights: Array) -> dict[str, Array]:
    """Quantiles of steps divided by their tokens: sum of w_j P(step <= j t) = p, by bisection.

    Between percentiles of the steps the law is linear; below the median it mirrors the half above it.
    """
    names = [name for name in LEVELS if name in steps]
    if not names:
        return dict(steps)
    at = [0.0, *(LEVELS[name] for name in names), 1.0]
    middle, upper = steps[names[0]], steps[names[-1]]
    second = steps[names[1]] if len(names) > 1 else middle
    with np.errstate(invalid="ignore"):
        values = [np.maximum(2.0 * middle - second, 0.0), *(steps[name] for name in names), 1.1 * upper]

    def below(t: Array) -> Array:
        parts = []
        for (low, start), (high, end) in zip(
            zip(at, values, strict=True), zip(at[1:], values[1:], strict=True), strict=False
        ):
            inside = np.clip((t - start) / np.maximum(end - start, 1e-12), 0.0, 1.0)
            parts.append((high - low) * inside)
        return np.asarray(sum(parts))

    out = dict(steps)
    with np.errstate(invalid="ignore"):
        for name in names:
            low, high = np.zeros_like(middle), values[-1]
            for _ in range(HALVINGS):
                half = 0.5 * (low + high)
                reached = sum(w * below(half * j) for w, j in zip(weights, counts, strict=True))
                low, high = np.where(reached < LEVELS[name], half, low), np.where(reached < LEVELS[name], high, half)
            out[name] = np.where(np.isfinite(steps[name]), high, np.inf)
    return out

"""How many prompts share a step of a worker that takes everything that waits: a Markov chain from step to step."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from planner.blas import one_blas_thread
from planner.serving.prompt_steps import PromptWork
from planner.serving.queues import queue_wait
from planner.serving.rows import put

Array = NDArray[np.float64]

SMALL, STATES = 8, 36
"""States of the chain: each number up to SMALL, then equal ratios."""
AFRESH = 1e-9
"""Part of steps after which the chain starts again at one prompt: where next to nothing varies (a stream shared by
thousands of workers) it may have several ends, and the one that is reached from below is meant."""


@dataclass(frozen=True)
class Chain:
    """Steps of n workers by the number of their prompts, (n, m) for m states, (n,) else; seconds."""

    prompts: Array
    """States: prompts of a step (n, m)."""
    seconds: Array
    variance: Array
    seen: Array
    """Part of the busy time in steps of each state."""
    empty: Array
    """Part of steps that leave nobody waiting (n,)."""
    batch: Array
    step_s: Array

    def updated(self, rows: NDArray[np.int64], part: Chain) -> Chain:
        """With the workers at positions ``rows`` replaced by those of ``part``."""
        return Chain(*(put(getattr(self, f.name), rows, getattr(part, f.name)) for f in fields(self)))


@one_blas_thread()
def batch_chain(work: PromptWork, rate: Array, each_s: Array, bursts: Array) -> Chain:
    """Stationary numbers of prompts in a step of one worker at ``rate`` (n,).

    Arrivals of a step have mean L S and variance F L S + L^2 Var(S), F of ``bursts`` (n, 1). Their law is Poisson's
    continued and scaled to that variance (Hayward: counts of D at a time), P(N <= k) = Q((k + 1/2) / D + 1/2, L S / D),
    exact at D = 1.
    """
    from scipy.special import gammaincc

    n = rate.size
    queue = queue_wait(rate, 1.0, each_s, work.scv, work.third).mean
    top = 16.0 + 3.0 * (rate * work.step(np.ones((n, 1)))[0][:, 0] + work.steps.ranks) + 12.0 * rate * queue
    small = np.broadcast_to(np.arange(1.0, SMALL + 1.0), (n, SMALL))
    large = SMALL * (top / SMALL)[:, None] ** (np.arange(1, STATES - SMALL + 1) / (STATES - SMALL))
    states = np.concatenate([small, large], axis=1)
    seconds, variance = work.step(states)
    expected = rate[:, None] * seconds
    spread = bursts + rate[:, None] ** 2 * variance / expected
    ends = 0.5 * (states[:, 1:] + states[:, :-1] - 1.0)
    ends[:, :SMALL] = np.arange(1.0, SMALL + 1.0)
    upto = gammaincc((ends[:, None, :] + 0.5) / spread[..., None] + 0.5, (expected / spread)[..., None])
    upto = np.concatenate([np.zeros((n, STATES, 1)), upto, np.ones((n, STATES, 1))], axis=2)
    equations = (1.0 - AFRESH) * np.transpose(np.diff(upto, axis=2), (0, 2, 1)) - np.eye(STATES)
    equations[:, 0, :] += AFRESH
    equations[:, -1, :] = 1.0
    right = np.zeros((n, STATES, 1))
    right[:, -1] = 1.0
    often = np.clip(np.linalg.solve(equations, right)[..., 0], 0.0, None)
    often = often / often.sum(axis=1, keepdims=True)
    empty = np.sum(often * gammaincc(0.5 / spread + 0.5, expected / spread), axis=1)
    step_s, batch = np.sum(often * seconds, axis=1), np.sum(often * states, axis=1)
    return Chain(states, seconds, variance, often * seconds / step_s[:, None], empty, batch, step_s)

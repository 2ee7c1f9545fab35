"""Time of a request outside the steps of its worker: fixed request time, and the way through pipeline stages."""

from __future__ import annotations

import numpy as np

from planner.arrays import distinct_rows
from planner.search.setup import Setup
from planner.search.table import Array, Workers
from planner.serving.worker import passage_s


def outside_s(s: Setup, w: Workers) -> Array:
    """Seconds of TTFT beside queues and steps of the workers that read the prompt, (n,)."""
    fixed = np.full(len(w), w.hardware.ctx.coefficients.request_s)
    if np.all(w.layouts.pp == 1):
        return fixed
    settings = (w.token_budget, w.two_batch.astype(np.int64), w.deepep.astype(np.int64))
    first, of = distinct_rows([*w.layouts.as_columns().values(), *settings])
    few = w.take(first)
    how = few.two_batch, few.deepep
    return fixed + passage_s(w.hardware.ctx, few.layouts, s.traffic, few.token_budget.astype(float), how)[of]

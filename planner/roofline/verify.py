"""Decode steps that check drafts (speculative decoding, multi-token prediction)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import MlaAttention
from planner.layout.layouts import Layouts
from planner.roofline.step import StepContext, StepTimes, StepWork, step_times

Array = NDArray[np.float64]


def reads_each_query(ctx: StepContext) -> bool:
    """Whether attention takes the queries of a sequence one by one: absorbed MLA, bound by compute with its many heads.

    Others read a cache once whatever the number of queries.
    """
    return any(isinstance(a.spec, MlaAttention) for a in ctx.program.attentions)


def verify_times(
    ctx: StepContext,
    layouts: Layouts,
    work: StepWork,
    drafts: int,
    two_batch: NDArray[np.bool_],
    deepep: NDArray[np.bool_],
) -> StepTimes:
    """A decode step that checks ``drafts`` tokens of each sequence beside its own; ``work`` without prompts.

    Every operator but attention sees 1 + drafts tokens a sequence (:func:`reads_each_query` for attention). A draft
    token costs one layer and the head more, the term "drafts" (a multi-token prediction module; DeepSeek-V3 report,
    section 2.2).
    """
    if not drafts:
        return step_times(ctx, layouts, work, two_batch, deepep)
    wide = step_times(ctx, layouts, replace(work, decode_seqs=work.decode_seqs * (1 + drafts)), two_batch, deepep)
    exposed = dict(wide.exposed)
    repeated = wide.total - exposed["head"] - exposed["host"]
    exposed["drafts"] = drafts * (repeated / ctx.program.layers + exposed["head"])
    if not reads_each_query(ctx):
        exposed["attention_core"] = step_times(ctx, layouts, work, two_batch, deepep).exposed["attention_core"]
    return StepTimes(exposed, wide.hidden)

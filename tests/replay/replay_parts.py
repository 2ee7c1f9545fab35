"""Small parts that replay tests share: a table with given times, and deployments of one kind."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from planner.replay.settings import Cache, Deployment, Scheduler
from planner.replay.step_table import Prompts, StepTable
from planner.replay.trace import Trace, ragged


class FixedTable:
    """10 ms a decode step, 1 ms more per prompt token; nothing depends on lengths."""

    decode_s, token_s = 0.010, 0.001

    def decode(self, sequences: int, kv_tokens: float) -> float:
        return self.decode_s

    def mixed(self, sequences: int, kv_tokens: float, prompts: Prompts) -> float:
        return (self.decode_s if sequences else 0.0) + self.token_s * prompts.tokens


def table() -> StepTable:
    return cast(StepTable, FixedTable())


def deployment(
    workers: int = 1,
    *,
    mixed: bool = True,
    chunked: bool = True,
    reserve: float = 0.0,
    budget: int = 100,
    sequences: int = 64,
    tokens: int = 100_000,
    page: int = 1,
    prefix: bool = False,
    ranks: int = 1,
    static: bool = False,
) -> Deployment:
    scheduler = Scheduler(mixed, chunked, reserve, budget, sequences, static)
    return Deployment(workers, ranks, scheduler, Cache(tokens, page, prefix))


def trace(at: Any, inputs: Any, outputs: Any, blocks: list[list[int]] | None = None, **more: Any) -> Trace:
    n = len(at)
    full = [np.broadcast_to(np.asarray(v), (n,)) for v in (inputs, outputs)]
    if blocks is not None:
        more |= {"blocks": ragged(blocks), "block_tokens": more.get("block_tokens", 10)}
    return Trace.of("test", at, *full, **more)

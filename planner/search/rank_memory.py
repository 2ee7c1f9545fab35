"""The memory budget with an engine's own defaults filled in: one door for the command line and spreadsheet cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from planner.catalog.scheduler_spec import scheduler_spec
from planner.memory.budget import MemoryBudget, memory_budget
from planner.memory.coefficients import engine_memory

if TYPE_CHECKING:
    from planner.catalog import Catalog, ModelSpec
    from planner.hardware.device import Device
    from planner.layout.layouts import Layouts
    from planner.model.precision import PrecisionPlan


def rank_memory(
    catalog: Catalog,
    spec: ModelSpec,
    precision: PrecisionPlan,
    layouts: Layouts,
    device: Device,
    engine: str,
    *,
    engine_version: str | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    gpu_memory_utilization: ArrayLike | None = None,
    needed_tokens: int = 0,
    cuda_graphs: bool = True,
) -> MemoryBudget:
    """:func:`planner.memory_budget` with the engine's own sequences and tokens per step where none are given.

    With ``max_num_seqs`` the engine is started as launch scripts with that setting start it. ``needed_tokens`` is one
    sequence that must fit, in tokens.
    """
    memory = engine_memory(engine, catalog)
    seqs = memory.max_num_seqs(device.mem_bytes) if max_num_seqs is None else max_num_seqs
    tokens = max_num_batched_tokens
    if tokens is None:
        tokens = scheduler_spec(catalog, engine).default_token_budget(device.mem_bytes)
    return memory_budget(
        spec,
        precision,
        layouts,
        device,
        memory,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        engine_version=engine_version,
        gpu_memory_utilization=gpu_memory_utilization,
        needed_tokens=needed_tokens,
        cuda_graphs=cuda_graphs,
        planned=max_num_seqs is not None,
    )

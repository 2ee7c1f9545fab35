"""The memory budget of every rank of a worker, term by term, by engine and version; the worst rank decides.

One path for one layout and for a million: arrays (n,) over candidates, evaluated on the three kinds of pipeline stage
(first, middle, last) that can be the tightest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError
from planner.hardware.device import Device
from planner.layout.layouts import Layouts
from planner.memory.coefficients import EngineMemory, engine_memory
from planner.memory.pages import PageGroup, bytes_per_token, page_groups, sequence_bytes
from planner.memory.share import default_share
from planner.memory.stage_terms import StageTerms, divide
from planner.memory.weights import ROLES, StageTable, stage_table
from planner.memory.workspace import layer_widths
from planner.model.precision import PrecisionPlan
from planner.units import GIB

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

StageRole = Literal["first", "middle", "last"]
TERMS = ("weights", "kv", "workspace", "collectives", "graphs", "runtime", "margin")


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes of the tightest rank of each candidate, arrays (n,); the seven terms sum to ``capacity``.

    ``kv`` is what the engine can give to its cache: negative where the other terms leave nothing (never clipped).
    ``margin`` is what the memory share leaves outside after graphs and context: negative where those overrun it.
    """

    capacity: Array
    weights: Array
    kv: Array
    workspace: Array
    """Activation and sampler peak, expert workspace."""
    collectives: Array
    graphs: Array
    runtime: Array
    """CUDA context and other memory outside the allocator."""
    margin: Array
    needed_kv: Array
    """Cache that the caller asked for, at least one block."""
    share: Array
    """The engine's memory share in force (gpu_memory_utilization, mem_fraction_static, free_gpu_memory_fraction)."""
    stage: NDArray[np.int64]
    """Index into ROLES of the tightest stage."""
    row: NDArray[np.int64]
    """Row of the distinct layout in ``groups`` arrays."""
    groups: tuple[PageGroup, ...]
    hybrid: bool
    pages_pooled: bool
    """Whether all groups draw pages from one pool (vLLM)."""

    @property
    def fits(self) -> BoolArray:
        """Whether the engine starts and holds the cache asked for."""
        return np.asarray((self.kv >= self.needed_kv) & (self.margin >= 0))

    @property
    def shortfall(self) -> Array:
        """Bytes missing on the tightest rank: cache asked for but not there, plus what overruns the margin; 0
        where it fits."""
        return np.maximum(self.needed_kv - self.kv, 0.0) + np.maximum(-self.margin, 0.0)

    @property
    def total(self) -> Array:
        """Bytes the rank needs: all terms with the cache pool, or with the cache asked for where the pool is smaller.

        Equals ``capacity`` where everything fits and exceeds it by ``shortfall`` otherwise.
        """
        return self.capacity + self.shortfall

    @property
    def kv_bytes_per_token(self) -> Array:
        """Cache bytes per further token of a long sequence on the tightest rank."""
        return self.at(bytes_per_token(self.groups))

    @property
    def window_tokens(self) -> int | None:
        """Length from which on a further token takes no more than :attr:`kv_bytes_per_token`; None without windows."""
        return max((g.window_tokens for g in self.groups if g.window_tokens is not None), default=None)

    @property
    def kv_tokens(self) -> Array:
        """Tokens the cache holds as the engine prints it, per attention-DP rank; negative where ``kv`` is.

        For hybrids vLLM divides its pages by the number of groups: a printed figure, not a capacity
        (use :meth:`sequences`).
        """
        if not self.groups:
            return np.full_like(self.kv, np.inf)
        page, copies, block = self._printed_page()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(page > 0, np.floor(np.floor(self.kv / page) / copies) * block, np.inf)

    @property
    def printed_token_bytes(self) -> Array:
        """Cache bytes behind one token of the printed ``kv_tokens``; padding of hybrid groups included."""
        page, copies, block = self._printed_page()
        return page * copies / block

    def _printed_page(self) -> tuple[Array, int, Array]:
        """Bytes of a page, pages per block of tokens, tokens of a block: of the printed token count."""
        block = self.at(self.groups[0].block_tokens)
        if self.pages_pooled:
            return (
                np.max([self.at(g.page_bytes) for g in self.groups], axis=0),
                sum(g.copies for g in self.groups),
                block,
            )
        # Pools by kind: recurrent states have slots, not tokens.
        pages = [self.at(g.page_bytes) for g in self.groups if g.kind != "state"]
        return np.asarray(np.sum(pages, axis=0) + np.zeros_like(self.kv)), 1, block

    def sequence_bytes(self, tokens: ArrayLike, prefill_tokens: ArrayLike = 0) -> Array:
        """Cache bytes one sequence of ``tokens`` (n,) or scalar takes on the tightest rank, whole pages.

        ``prefill_tokens`` are still being prefilled, which keeps more than the window in windowed layers.
        """
        total = np.zeros_like(self.kv)
        for g in self.groups:
            mine = g.at(self.row, self.stage)
            total = total + mine.copies * mine.page_bytes * mine.pages(tokens, prefill_tokens)
        return total

    def sequences(self, tokens: ArrayLike, prefill_tokens: ArrayLike = 0) -> Array:
        """Sequences of ``tokens`` each that the cache holds, per attention-DP rank; fractional, as engines
        print it."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.pool / self.sequence_bytes(tokens, prefill_tokens))

    def term(self, name: str) -> Array:
        """A term by its name in a plan's ``memory_gib``."""
        return np.asarray(getattr(self, name))

    def gib(self, i: int) -> dict[str, float]:
        """Candidate ``i`` in GiB: the keys of a plan's ``memory_gib``."""
        return {name: float(self.term(name)[i] / GIB) for name in (*TERMS, "total", "capacity")}

    def stage_name(self, i: int) -> str:
        """Which pipeline stage is the tightest: first, middle or last."""
        return ROLES[int(self.stage[i])]

    @property
    def pool(self) -> Array:
        """``kv`` in whole pages where all groups share one pool."""
        if not (self.pages_pooled and self.groups):
            return self.kv
        page = np.max([self.at(g.page_bytes) for g in self.groups], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(page > 0, np.floor(self.kv / page) * page, self.kv)

    def at(self, table: object) -> Array:
        """Values of a (u, 3) table at each candidate's distinct layout and tightest stage, (n,)."""
        values = np.asarray(table, dtype=float)
        if values.ndim == 0:
            return np.full_like(self.kv, float(values))
        return np.asarray(values[self.row, self.stage])


def memory_budget(
    spec: ModelSpec,
    precision: PrecisionPlan,
    layouts: Layouts,
    device: Device,
    engine: str | EngineMemory,
    *,
    max_num_seqs: ArrayLike,
    max_num_batched_tokens: ArrayLike,
    engine_version: str | None = None,
    gpu_memory_utilization: ArrayLike | None = None,
    needed_tokens: ArrayLike = 0,
    needed_sequences: ArrayLike = 1,
    cuda_graphs: bool = True,
    mtp: bool = False,
    deepep: bool = True,
    planned: bool = False,
    dispatched: ArrayLike = 0.0,
    capacity_bytes: float | None = None,
    stage: StageRole | None = None,
    stage_layers: tuple[int, ...] | None = None,
) -> MemoryBudget:
    """Memory of the tightest rank of each layout and setting.

    ``layouts`` has n candidates; the array settings broadcast to (n,). ``max_num_seqs`` and
    ``max_num_batched_tokens`` are of one attention-DP rank. ``gpu_memory_utilization`` is the engine's own
    share option (see ``share_option`` of its file); None takes the version's default. ``needed_sequences`` of
    ``needed_tokens`` each are the cache asked for, per attention-DP rank; with 0 tokens one page of each kind
    of layer will do. ``engine_version`` None is the newest known. ``stage`` looks at one pipeline stage instead
    of the tightest. ``stage_layers`` are the layers of every stage where they were chosen by hand; None is the
    engine's own split. ``planned``: a launch by the plan's scripts, which set some of the engine's limits to its
    ``max_num_seqs``, instead of one that leaves them to the engine. ``dispatched`` are the tokens of a rank's decode
    step that low-latency dispatch buffers must hold, where that is more than the engine's own number.
    ``capacity_bytes`` replaces the accelerator's memory (a measured run's own figure).
    Sources: measured/README.md for vLLM's terms, the engine's file for the others.

    Raises InputError for a share outside (0, 1], settings below 1, more stages than layers, or a ``stage`` that
    a layout lacks.
    """
    memory = engine_memory(engine)
    fitted = memory.coefficients(engine_version)
    capacity = float(device.mem_bytes if capacity_bytes is None else capacity_bytes)
    table = stage_table(spec, precision, layouts, memory, mtp=mtp, stage_layers=stage_layers)
    seqs = _setting("max_num_seqs", max_num_seqs, 1)
    tokens = _setting("max_num_batched_tokens", max_num_batched_tokens, 1)
    if gpu_memory_utilization is None:
        share = default_share(memory, engine_version, capacity, layouts, seqs, tokens)
    else:
        share = np.asarray(gpu_memory_utilization, dtype=float)
        if np.any((share <= 0) | (share > 1)):
            raise InputError(memory.share_option, share.tolist(), "more than 0 and at most 1")
    groups = page_groups(
        spec,
        precision.kv,
        memory,
        tp=table.shards.tp,
        group_layers=table.group_layers,
        mtp_layers=table.mtp_layers(spec.mtp.blocks) if mtp and spec.mtp is not None else None,
    )
    widths = layer_widths(spec, precision)
    wanted = [np.asarray(v, dtype=float) for v in (needed_tokens, needed_sequences)]
    sent = np.asarray(dispatched, dtype=float)
    arrays = (table.of, seqs, tokens, share, sent, *wanted)
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    stages = StageTerms(spec, precision, device, memory, fitted, widths, table, cuda_graphs, deepep, planned, sent)

    best: dict[str, Array] | None = None
    roles = range(len(ROLES)) if stage is None else [ROLES.index(stage)]
    if stage is not None and not table.exists[:, roles[0]].all():
        raise InputError("stage", stage, "a stage that every layout has (middle from 3 stages on, last from 2)")
    for role in roles:
        if not table.exists[:, role].any():
            continue
        terms = stages.terms(role, seqs, tokens, shape)
        divide(terms, memory, share, capacity, engine_version)
        terms["needed_kv"] = np.broadcast_to(_needed(groups, table, role, *wanted), shape)
        per_token = _column(sequence_bytes(groups, 1.0), role, table)
        # Stages hold different numbers of layers: the one with the fewest sequences binds, not the one with the
        # fewest bytes.
        with np.errstate(divide="ignore", invalid="ignore"):
            terms["tightness"] = np.where(per_token > 0, terms["kv"] / per_token, np.sign(terms["kv"]) * np.inf)
        terms["stage"] = np.full_like(terms["kv"], role)
        best = terms if best is None else _tighter(best, terms, table.exists[table.of, role])
    assert best is not None
    return MemoryBudget(
        capacity=np.full_like(best["kv"], capacity),
        **{name: best[name] for name in TERMS},
        needed_kv=best["needed_kv"],
        share=np.broadcast_to(share, shape).astype(float),
        stage=best["stage"].astype(np.int64),
        row=np.broadcast_to(table.of, shape),
        groups=groups,
        hybrid=len(groups) > 1,
        pages_pooled=memory.hybrid_pages == "padded_groups" or len(groups) == 1,
    )


def _needed(groups: tuple[PageGroup, ...], table: StageTable, role: int, tokens: Array, sequences: Array) -> Array:
    """Cache asked for on one stage role: sequences x pages of one, at least a page of each group, (n,)."""
    length = np.maximum(tokens, 1.0)
    one = np.zeros(np.broadcast_shapes(length.shape, table.of.shape))
    for g in groups:
        mine = g.at(table.of, role)
        one = one + mine.copies * mine.page_bytes * mine.pages(length)
    return np.asarray(one * np.maximum(sequences, 1.0))


def _column(values: Array | float, role: int, table: StageTable) -> Array:
    full = np.broadcast_to(np.asarray(values, dtype=float), table.exists.shape)
    return np.asarray(full[table.of, role])


def _tighter(best: dict[str, Array], other: dict[str, Array], exists: BoolArray) -> dict[str, Array]:
    """Per candidate the stage that is short of margin or, if neither is, holds fewer sequences."""
    worse = exists & (
        (np.minimum(other["margin"], 0) < np.minimum(best["margin"], 0))
        | ((np.minimum(other["margin"], 0) == np.minimum(best["margin"], 0)) & (other["tightness"] < best["tightness"]))
    )
    return {name: np.where(worse, other[name], best[name]) for name in best}


def _setting(name: str, value: ArrayLike, lowest: int) -> Array:
    array = np.asarray(value, dtype=float)
    if array.size and array.min() < lowest:
        raise InputError(f"engine.options.{name}", float(array.min()), f"at least {lowest}")
    return array

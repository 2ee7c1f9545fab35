"""Numbers of the memory page: budgets by stage, cache by kind of layer, what fits, formats by tensor class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import ModelSpec
from planner.errors import InputError
from planner.memory.blocks import (
    fragmentation,
    paged_need,
    reserved_need,
    resident_tokens,
    sequences_that_fit,
)
from planner.memory.budget import MemoryBudget, StageRole
from planner.memory.coefficients import engine_memory
from planner.memory.weights import stage_table
from planner.model.builder import tensors
from planner.model.kv import kv_bytes_per_token, kv_groups, uncompressed_mla_bytes_per_token
from planner.model.parameters import active_parameters
from planner.model.precision import FORMATS, PrecisionPlan
from planner.model.sensitivity import SENSITIVITY, Check, Level, checks_owed, class_savings
from planner.scenario.lengths import Length
from planner.search.plan_schema import MemoryGib
from planner.search.setup import Setup
from planner.ui.subject import PoolWorkers

Array = NDArray[np.float64]

CERTAIN_Z = 2.326
"""Standard normal quantile at 99 %: the cache overflows in one moment of a hundred."""
_NODES = 4096
"""Midpoints of equal probability over which moments of a length are taken."""


def stage_budgets(s: Setup, w: PoolWorkers) -> dict[StageRole, MemoryGib]:
    """Budget of a rank of each pipeline stage: first, middle (of three or more), last (of two or more)."""
    stages = int(w.layouts.pp[0])
    roles: list[StageRole] = ["first"]
    if stages > 2:
        roles.append("middle")
    if stages > 1:
        roles.append("last")
    return {role: MemoryGib(**w.memory(s, stage=role).gib(0)) for role in roles}


@dataclass(frozen=True)
class KvLayers:
    """Layers that cache alike, in one format on one rank."""

    kind: str
    """gqa, mla, window, linear"""
    layers: int
    values: float
    """Cached values per token and layer."""
    token_bytes: float
    """Bytes per token of all these layers, scales and indexer included."""
    state_bytes: float
    """Bytes per sequence of all these layers, whatever its length."""
    window_tokens: int | None


def kv_layers(s: Setup, w: PoolWorkers, budget: MemoryBudget, kv_format: str) -> tuple[KvLayers, ...]:
    """Cache of the layers on the stage of ``budget`` by kind of layer, equal ones merged."""
    spec, tp = s.spec, int(w.layouts.tp[0])
    table = stage_table(spec, s.precision, w.layouts, engine_memory(s.scenario.engine.name, s.catalog))
    row, stage = table.of[0], budget.stage[0]
    counts = [int(n) for n in table.group_layers[row, stage]]
    if s.keeps_mtp and spec.mtp is not None:
        counts.append(int(table.mtp_layers(spec.mtp.blocks)[row, stage]))
    found: dict[tuple[str, float, float, int | None], KvLayers] = {}
    for group, count in zip(kv_groups(spec, mtp=s.keeps_mtp), counts, strict=True):
        if not count:
            continue
        one = group.layer(kv_format, tp)
        kind = "window" if group.window_tokens is not None else str(group.kind)
        token, state = float(one.token_bytes), float(one.state_bytes)
        key = (kind, token, state, group.window_tokens)
        layers = count + (found[key].layers if key in found else 0)
        values = float(group.values_per_token_per_rank(tp))
        found[key] = KvLayers(kind, layers, values, layers * token, layers * state, group.window_tokens)
    return tuple(found.values())


@dataclass(frozen=True)
class KvAnswer:
    """What the calculator says, bytes on the tightest rank; ``sequences`` of one whole worker."""

    layers: tuple[KvLayers, ...]
    growing: tuple[KvLayers, ...]
    """Those of ``layers`` that keep one token more of a sequence of the length asked for."""
    per_sequence: float
    """Whole pages, as the memory budget counts them."""
    sequences: float
    uncompressed_ratio: float | None
    """Bytes of the same heads cached as plain multi-head attention over the bytes of this model's latent."""

    @property
    def per_token(self) -> float:
        """Of one token more."""
        return sum(g.token_bytes for g in self.growing)


def kv_answer(s: Setup, w: PoolWorkers, kv_format: str, tokens: int) -> KvAnswer:
    """Cache of a sequence of ``tokens`` on a rank of the worker, and how many the worker holds."""
    budget = w.memory(s, kv_format=kv_format)
    layers = kv_layers(s, w, budget, kv_format)
    fits = np.maximum(np.floor(budget.sequences(float(tokens))), 0.0) * w.layouts.attention_dp
    return KvAnswer(
        layers,
        tuple(g for g in layers if g.window_tokens is None or tokens < g.window_tokens),
        float(budget.sequence_bytes(float(tokens))[0]),
        float(fits[0]),
        _compression(s.spec, kv_format),
    )


def _compression(spec: ModelSpec, kv_format: str) -> float | None:
    try:
        return uncompressed_mla_bytes_per_token(spec, kv_format) / float(kv_bytes_per_token(spec, kv_format))
    except InputError:
        return None


def kv_formats() -> list[str]:
    """Formats that engines cache in."""
    return [name for name, fmt in FORMATS.items() if fmt.kv]


@dataclass(frozen=True)
class FitCurve:
    """Sequences that a worker holds by their length, arrays (n,)."""

    tokens: Array
    paged: Array
    """Sequences of exactly that length, whole pages."""
    reserved: Array
    """Sequences that hold as many tokens on average but reserve the longest request."""


def fit_curve(s: Setup, w: PoolWorkers, kv_format: str) -> FitCurve:
    """From 256 tokens to the model's context."""
    budget = w.memory(s, kv_format=kv_format)
    ranks = float(w.layouts.attention_dp[0])
    tokens = np.unique(np.round(np.geomspace(256, max(s.spec.max_context_tokens, 512), 60)))
    paged = np.maximum(np.floor(budget.sequences(tokens)), 0.0) * ranks
    slot = reserved_need(budget, np.maximum(tokens, s.longest_request))
    reserved = np.maximum(np.floor(budget.pool / slot.mean), 0.0) * ranks
    return FitCurve(tokens, paged, np.broadcast_to(reserved, tokens.shape))


@dataclass(frozen=True)
class Admission:
    """Reservation by maximum length against paging, whole worker."""

    mean_tokens: float
    """Tokens that a running request holds at a random moment."""
    std_tokens: float
    longest_tokens: int
    paged: float
    """Requests that fit on average."""
    paged_99: float
    """Requests that fit in 99 of 100 moments."""
    reserved: float
    reserved_unused: float
    """Part of a reserved slot's bytes that hold no token, windows that are reserved whole included."""
    paged_unused: float
    """Part of the pages that holds no token: the unfilled ends of last blocks."""
    block_tokens: int


def admission(s: Setup, w: PoolWorkers) -> Admission:
    """Both ways to give out the cache at this scenario's lengths."""
    budget = w.memory(s)
    ranks = float(w.layouts.attention_dp[0])
    work = s.scenario.workload
    mean, std = resident(work.input_tokens, work.output_tokens)
    paged = paged_need(budget, mean, std)
    slot = reserved_need(budget, max(s.longest_request, round(mean)))
    block = int(budget.at(budget.groups[0].block_tokens)[0]) if budget.groups else 1
    return Admission(
        mean,
        std,
        s.longest_request,
        float(sequences_that_fit(budget, paged)[0]) * ranks,
        float(sequences_that_fit(budget, paged, z=CERTAIN_Z)[0]) * ranks,
        float(sequences_that_fit(budget, slot)[0]) * ranks,
        float(1.0 - paged.mean[0] / slot.mean[0]),
        float(fragmentation(mean, block)),
        block,
    )


def resident(inputs: Length, outputs: Length) -> tuple[float, float]:
    """Mean and standard deviation of the tokens that a running request holds at a random moment.

    A moment finds output o with weight o (length bias) and the request uniformly within it: E[u^2] = E[o^3] / (3 E[o]).
    """
    p = (np.arange(_NODES) + 0.5) / _NODES
    out = np.maximum(outputs.quantile(p), 1.0)
    m1, m2, m3 = (float(np.mean(out**k)) for k in (1, 2, 3))
    mean = float(resident_tokens(inputs.mean(), m1, m2))
    part = m3 / (3.0 * m1) - (m2 / (2.0 * m1)) ** 2
    spread = max(inputs.second_moment() - inputs.mean() ** 2, 0.0)
    return mean, float(np.sqrt(spread + part))


@dataclass(frozen=True)
class ClassRow:
    """One tensor class of the precision plan."""

    tensor_class: str
    format: str
    bytes: float
    """Of all its weights; 0 for the cache, activations and messages."""
    saved_bytes: float
    """Against 16 bits."""
    level: Level
    checks: tuple[Check, ...]
    published: str
    """Format of the checkpoint."""


def precision_rows(s: Setup) -> tuple[ClassRow, ...]:
    """Every class that the model has, weights first, largest first."""
    published = PrecisionPlan.from_checkpoint(s.spec)
    weights = sorted(class_savings(s.spec, s.precision), key=lambda c: -c.bytes)
    rows = [
        ClassRow(
            c.tensor_class,
            c.format,
            c.bytes,
            c.saved_bytes,
            c.level,
            c.checks_owed,
            published.format_of(c.tensor_class).name,
        )
        for c in weights
    ]
    return (*rows, *_messages(s, published, any(r.tensor_class == "routed_experts" for r in rows)))


def _messages(s: Setup, published: PrecisionPlan, experts: bool) -> tuple[ClassRow, ...]:
    owed = checks_owed(s.spec, s.precision)
    names = ("kv", "activations", *(("dispatch", "combine") if experts else ()))
    return tuple(
        ClassRow(
            name,
            s.precision.format_of(name).name,
            0.0,
            0.0,
            SENSITIVITY[name].level,
            owed.get(name, ()),
            published.format_of(name).name,
        )
        for name in names
    )


@dataclass(frozen=True)
class Share:
    """Parameters of one tensor class."""

    tensor_class: str
    total: float
    active: float
    """Those that one token passes through."""


def parameter_shares(spec: ModelSpec) -> tuple[Share, ...]:
    """Parameters of the main model by class, largest first."""
    total: dict[str, float] = {}
    active: dict[str, float] = {}
    for tensor in tensors(spec):
        if tensor.part != "main":
            continue
        name = tensor.tensor_class
        total[name] = total.get(name, 0.0) + tensor.parameters
        active[name] = active.get(name, 0.0) + active_parameters(tensor)
    return tuple(Share(name, total[name], active[name]) for name in sorted(total, key=lambda n: -total[n]))

"""KV pages: how an engine cuts the cache of each kind of layer into pages, and what one sequence takes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.catalog.model_spec import AttentionSpec, GqaAttention, LinearAttention, ModelSpec
from planner.memory.coefficients import EngineMemory
from planner.model.kv import LayerKv, layer_kv
from planner.model.precision import FORMATS

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
Kind = Literal["full", "window", "state"]

GROUP_SLACK = 1.25
"""vllm/v1/core/kv_cache_utils.py: groups take the largest kind's size while it is within this factor of the
smallest."""


@dataclass(frozen=True)
class PageGroup:
    """``copies`` identical groups of layers that page together; arrays (u, 3) by distinct layout and stage role."""

    kind: Kind
    copies: int
    page_bytes: Array
    """Bytes of a page of one copy (all its layers); 0 where a stage has none of these layers."""
    block_tokens: IntArray
    window_tokens: int | None = None

    def at(self, rows: IntArray, stages: IntArray | int) -> PageGroup:
        """The group at chosen layouts and stages: arrays become (n,)."""
        return replace(self, page_bytes=self.page_bytes[rows, stages], block_tokens=self.block_tokens[rows, stages])

    def pages(self, tokens: ArrayLike, prefill_tokens: ArrayLike = 0) -> Array:
        """Pages one sequence of ``tokens`` takes of one copy, shape broadcast with (u, 3).

        full: every block once begun. window: the window (and ``prefill_tokens`` still being prefilled) and one block
        more, because a window seldom starts on a block's edge; no more than the sequence has. state: one.
        """
        length = np.asarray(tokens, dtype=float)
        if self.kind == "state":
            return np.broadcast_to(1.0, np.broadcast_shapes(length.shape, self.block_tokens.shape)).astype(float)
        blocks = np.ceil(length / self.block_tokens)
        if self.window_tokens is None:
            return np.asarray(blocks)
        kept = np.minimum(length, self.window_tokens - 1 + np.asarray(prefill_tokens, dtype=float))
        return np.asarray(np.minimum(np.ceil(kept / self.block_tokens) + 1, np.maximum(blocks, 1)))


def page_groups(
    spec: ModelSpec,
    kv_format: str,
    memory: EngineMemory,
    *,
    tp: IntArray,
    group_layers: IntArray,
    mtp_layers: IntArray | None = None,
) -> tuple[PageGroup, ...]:
    """The page groups of a model on every distinct layout and stage role.

    ``tp`` (u,), ``group_layers`` (u, 3, layer groups). Layers of one kind, or of a cache without windows and
    states (MLA with its indexer), page as one group. Hybrids: ``padded_groups`` engines form groups of equal
    size over the whole model (vllm/v1/core/kv_cache_utils.py: the smallest kind's number of layers, or the
    largest's within 1.25 times it) and pad the last; ``per_layer`` engines keep a pool for each kind. On a
    pipeline stage a group holds its share of layers, rounded up.
    """
    kinds = _kinds(spec, kv_format, tp, group_layers, mtp_layers)
    if not kinds:
        return ()
    if len(kinds) == 1 or memory.hybrid_pages == "per_layer":
        return tuple(
            PageGroup(
                k.kind,
                1,
                k.layers * (k.state_bytes if k.kind == "state" else memory.block_tokens * k.token_bytes)[:, None],
                np.full(k.layers.shape, memory.block_tokens, dtype=np.int64),
                k.window,
            )
            for k in kinds
        )
    return _padded(spec, kinds, memory)


@dataclass(frozen=True)
class _Kind:
    kind: Kind
    window: int | None
    layers: IntArray
    """(u, 3)"""
    total: int
    token_bytes: Array
    """Bytes per token of one layer on a rank, (u,)."""
    state_bytes: Array
    """Constant bytes of a sequence in one layer on a rank, (u,)."""


def _kinds(
    spec: ModelSpec, kv_format: str, tp: IntArray, group_layers: IntArray, mtp_layers: IntArray | None
) -> list[_Kind]:
    owners = [(g.attention, group_layers[:, :, i], g.count) for i, g in enumerate(spec.layers)]
    if mtp_layers is not None and spec.mtp is not None:
        owners.append((spec.mtp.attention, mtp_layers, spec.mtp.blocks))
    found: dict[tuple[Kind, int | None, bytes, bytes], _Kind] = {}
    for name, layers, total in owners:
        attention = spec.attentions[name]
        kind, window = _kind(attention)
        one = _layer_kv(attention, kv_format, tp)
        key = (kind, window, one.token_bytes.tobytes(), one.state_bytes.tobytes())
        seen = found.get(key)
        if seen is not None:
            layers, total = layers + seen.layers, total + seen.total
        found[key] = _Kind(kind, window, layers, total, one.token_bytes, one.state_bytes)
    return list(found.values())


def _layer_kv(attention: AttentionSpec, kv_format: str, tp: IntArray) -> LayerKv:
    """Cache of one layer; a model run in fp32 caches in fp32, which no checkpoint asks for by itself."""
    fmt = FORMATS[kv_format]
    if fmt.bits <= FORMATS["bf16"].bits:
        return layer_kv(attention, kv_format, tp)
    one = layer_kv(attention, "bf16", tp)
    return LayerKv(one.token_bytes * fmt.bits / FORMATS["bf16"].bits, one.state_bytes)


def _kind(attention: AttentionSpec) -> tuple[Kind, int | None]:
    if isinstance(attention, LinearAttention):
        return "state", None
    if isinstance(attention, GqaAttention):
        window = attention.window_tokens or attention.chunk_tokens
        if window is not None:
            return "window", window
    return "full", None


def _padded(spec: ModelSpec, kinds: list[_Kind], memory: EngineMemory) -> tuple[PageGroup, ...]:
    counts = [k.total for k in kinds]
    size = max(counts) if max(counts) < GROUP_SLACK * min(counts) else min(counts)
    token_bytes = np.max([k.token_bytes for k in kinds], axis=0)
    state = np.max([k.state_bytes for k in kinds], axis=0)
    # A recurrent state takes a whole page, so the block grows until a layer's page holds it.
    block = memory.block_tokens
    needed = np.ceil(state / np.maximum(token_bytes, 1.0) / block).astype(np.int64) * block
    block_tokens = np.maximum(needed, block)
    groups = []
    for k in kinds:
        share = np.ceil(size * k.layers / k.total)
        groups.append(
            PageGroup(
                k.kind,
                -(-k.total // size),
                share * (block_tokens * token_bytes)[:, None],
                np.broadcast_to(block_tokens[:, None], k.layers.shape),
                k.window,
            )
        )
    return tuple(groups)


def sequence_bytes(groups: tuple[PageGroup, ...], tokens: ArrayLike, prefill_tokens: ArrayLike = 0) -> Array | float:
    """Bytes of the pages of one sequence of ``tokens``, summed over the groups, broadcast with (u, 3)."""
    return sum((g.copies * g.page_bytes * g.pages(tokens, prefill_tokens) for g in groups), start=0.0)


def bytes_per_token(groups: tuple[PageGroup, ...]) -> Array | float:
    """Bytes one more token takes in a long sequence: the layers that keep every token, (u, 3)."""
    return sum((g.copies * g.page_bytes / g.block_tokens for g in groups if g.kind == "full"), start=0.0)

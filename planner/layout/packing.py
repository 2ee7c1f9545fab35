"""Workers on whole nodes: how many nodes workers of one size take, and of two sizes that fill each other's gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Packed:
    """Nodes of two kinds of workers, arrays (n,)."""

    nodes: IntArray
    """All of them."""
    first: IntArray
    """Those with a worker of the first kind."""
    second: IntArray
    shared: IntArray
    """Those with workers of both kinds."""


def nodes_of(count: ArrayLike, size: ArrayLike, per_node: int) -> IntArray:
    """Nodes of ``per_node`` GPUs that ``count`` workers of ``size`` GPUs each take, (n,): several small workers share
    one, a large one takes several.
    """
    fit, span = _fit_and_span(size, per_node)
    return np.asarray(-(-np.asarray(count, dtype=np.int64) // fit) * span)


def packed(count: ArrayLike, size: ArrayLike, others: ArrayLike, other_size: ArrayLike, per_node: int) -> Packed:
    """Nodes of ``count`` workers of ``size`` GPUs and ``others`` of ``other_size`` side by side, (n,).

    First fit decreasing: larger workers first, on as few nodes as they take alone; smaller ones then fill what those
    leave of their nodes (of the last node, where one takes several), and lie on further nodes when that is full. Never
    more nodes than both kinds take apart (Johnson 1973, "Near-optimal bin packing algorithms"). A worker of several
    nodes shares the last of them with smaller ones and none with another worker of several nodes. Of equal size the
    first kind counts as the larger. Places of each worker: :func:`places`.
    """
    n, size, m, other = np.broadcast_arrays(*(np.asarray(v, dtype=np.int64) for v in (count, size, others, other_size)))
    swap = other > size
    large, many = np.where(swap, other, size), np.where(swap, m, n)
    small, few = np.where(swap, size, other), np.where(swap, n, m)
    gaps = _gaps(many, large, small, per_node)
    in_full = np.where(gaps.per_full > 0, np.minimum(-(-few // np.maximum(gaps.per_full, 1)), gaps.full), 0)
    left = np.maximum(few - gaps.full * gaps.per_full, 0)
    shared = in_full + ((left > 0) & (gaps.in_last > 0))
    further = nodes_of(np.maximum(left - gaps.in_last, 0), small, per_node)
    alone = nodes_of(many, large, per_node)
    of_large, of_small = alone, shared + further
    return Packed(alone + further, np.where(swap, of_small, of_large), np.where(swap, of_large, of_small), shared)


def room_beside(count: ArrayLike, size: ArrayLike, other_size: ArrayLike, nodes: ArrayLike, per_node: int) -> IntArray:
    """Workers of ``other_size`` GPUs that ``nodes`` nodes hold beside ``count`` workers of ``size``, (n,); 0 where
    those alone take more.
    """
    n, size, other, given = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.int64) for v in (count, size, other_size, nodes))
    )
    gaps = _gaps(n, size, other, per_node)
    free = given - nodes_of(n, size, per_node)
    fit, span = _fit_and_span(other, per_node)
    return np.where(free >= 0, gaps.full * gaps.per_full + gaps.in_last + np.maximum(free, 0) // span * fit, 0)


@dataclass(frozen=True)
class Places:
    """Where each worker of two kinds begins: its first node and its first GPU there, arrays (count,)."""

    node: IntArray
    gpu: IntArray
    other_node: IntArray
    other_gpu: IntArray


def places(count: int, size: int, others: int, other_size: int, per_node: int) -> Places:
    """Where the workers lie that :func:`packed` counts, each kind in order of nodes."""
    if other_size > size:
        found = places(others, other_size, count, size, per_node)
        return Places(found.other_node, found.other_gpu, found.node, found.gpu)
    fit, span = (int(v) for v in _fit_and_span(size, per_node))
    i = np.arange(count)
    node, gpu = i // fit * span, i % fit * size
    groups = -(-count // fit)
    used = np.bincount(i // fit, minlength=groups) * size - (span - 1) * per_node  # of the last node of each group
    other_fit, other_span = (int(v) for v in _fit_and_span(other_size, per_node))
    further = -(-others // other_fit)
    room = np.concatenate([(per_node - used) // other_size, np.full(further, other_fit)])
    at = np.concatenate([np.arange(groups) * span + span - 1, groups * span + np.arange(further) * other_span])
    before = np.concatenate([used, np.zeros(further, dtype=np.int64)])
    ends = np.cumsum(room)
    group = np.searchsorted(ends, np.arange(others), side="right")
    place = np.arange(others) - (ends - room)[group]
    return Places(node, gpu, at[group], before[group] + place * other_size)


@dataclass(frozen=True)
class _Gaps:
    """Room for smaller workers beside larger ones, arrays (n,)."""

    full: IntArray
    """Groups of nodes (one, or those of a worker of several) with as many larger workers as they hold."""
    per_full: IntArray
    """Smaller workers that the rest of each holds."""
    in_last: IntArray
    """Those that the rest of a last node with fewer larger workers holds."""


def _gaps(many: IntArray, large: IntArray, small: IntArray, per_node: int) -> _Gaps:
    fit, span = _fit_and_span(large, per_node)
    over = many % fit
    last = np.where(over > 0, (per_node - over * large) // small, 0)
    return _Gaps(many // fit, (span * per_node - fit * large) // small, last)


def _fit_and_span(size: ArrayLike, per_node: int) -> tuple[IntArray, IntArray]:
    """Workers on a node (1 where one takes several), and nodes that one takes."""
    gpus = np.asarray(size, dtype=np.int64)
    return np.maximum(per_node // gpus, 1), -(-gpus // per_node)

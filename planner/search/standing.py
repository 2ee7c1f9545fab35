"""Where the pools of a deployment stand: the nodes of each and of both, what of them is paid for, what joins them.

Pools of one node type stand on the same nodes (:func:`planner.layout.packing.packed`) unless the scenario keeps
hardware for each (hardware.pools); others have nodes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.layout.packing import packed
from planner.search.setup import Setup
from planner.search.table import Workers

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Standing:
    """Nodes of deployments without spare ones, arrays (n,)."""

    nodes: IntArray
    """Of the whole deployment."""
    of_pool: tuple[IntArray, ...]
    """Those with workers of each pool, in the order given."""
    shared: IntArray | None
    """Those with workers of both; None where the pools cannot meet on a node."""


def together(s: Setup, pools: Sequence[Workers]) -> bool:
    """Whether these are two pools that may stand on the same nodes."""
    if len(pools) < 2 or s.scenario.hardware.pools is not None:
        return False
    a, b = (pool.hardware.choice for pool in pools)
    return (a.node, a.gpus) == (b.node, b.gpus)


def standing(s: Setup, pools: Sequence[Workers]) -> Standing:
    """Where the workers of one pool, or of a prefill and a decode pool, stand."""
    if not together(s, pools):
        each = tuple(pool.nodes for pool in pools)
        return Standing(np.asarray(sum(each)), each, None)
    a, b = pools
    found = packed(a.count, a.footprint, b.count, b.footprint, a.hardware.gpus_per_node)
    return Standing(found.nodes, (found.first, found.second), found.shared)


def spare_nodes(s: Setup, pools: Sequence[Workers]) -> int:
    """Spare nodes of a deployment: so many for each node type that pools have for themselves, once for both where they
    stand on the same nodes, as a spare one then takes workers of either.
    """
    return s.scenario.reliability.spare_nodes * (1 if together(s, pools) else len(pools))


def billed_nodes(s: Setup, pools: Sequence[Workers]) -> tuple[tuple[Workers, IntArray], ...]:
    """Nodes that are taken of each node type, spare ones included, (n,), beside a pool that stands on them: of both
    pools together where they stand on the same nodes.
    """
    stand, extra = standing(s, pools), s.scenario.reliability.spare_nodes
    if stand.shared is not None:
        return ((pools[0], stand.nodes + extra),)
    return tuple((pool, nodes + extra) for pool, nodes in zip(pools, stand.of_pool, strict=True))


def billed_gpus(s: Setup, pools: Sequence[Workers]) -> IntArray:
    """GPUs that are paid for, (n,): those of whole nodes and of spare ones, whether or not a worker uses them."""
    return np.asarray(sum(nodes * pool.hardware.gpus_per_node for pool, nodes in billed_nodes(s, pools)))


def rent_per_hour(s: Setup, pools: Sequence[Workers]) -> Array:
    """US dollars per hour of the same, (n,); NaN where a price is not known."""
    return np.asarray(
        sum(
            nodes * pool.hardware.gpus_per_node * pool.hardware.usd_per_gpu_hour
            for pool, nodes in billed_nodes(s, pools)
        ),
        dtype=float,
    )


def gpus_paid(s: Setup, pools: Sequence[Workers], *, spares: bool = True) -> tuple[Array, ...]:
    """GPUs of whole nodes that each pool pays for, (n,) each, whether or not a worker uses them, spare nodes included
    or not. Pools on the same nodes share them as they share the GPUs in use.
    """
    per_node = pools[0].hardware.gpus_per_node
    if not together(s, pools):
        extra = s.scenario.reliability.spare_nodes if spares else 0
        return tuple(np.asarray((pool.nodes + extra) * pool.hardware.gpus_per_node, dtype=float) for pool in pools)
    every = (standing(s, pools).nodes + (spare_nodes(s, pools) if spares else 0)) * float(per_node)
    used = sum(pool.gpus for pool in pools)
    return tuple(np.asarray(every * pool.gpus / used) for pool in pools)


def in_one_domain(s: Setup, prefill: Workers, decode: Workers) -> BoolArray:
    """Where all workers of both pools stand in one scale-up domain, (n,): any of one may then send to any of the other
    without the network. A pool that also has workers elsewhere sends to and takes from those over the NICs.
    """
    pools = (prefill, decode)
    if not together(s, pools):
        return np.zeros(len(decode), dtype=bool)
    inside = prefill.gpus + decode.gpus <= prefill.hardware.shape.domain
    return np.asarray(inside & (standing(s, pools).nodes == 1))

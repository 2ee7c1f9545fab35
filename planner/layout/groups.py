"""How a group of ranks lies over domains (nodes, scale-up domains), from its size and stride alone.

Ranks are numbered so that tp is innermost, then attention_dp, pp outermost; inside a stage moe_tp is
innermost and ep around it. A group is then `size` ranks `stride` apart, and a domain is `domain`
consecutive ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.layout.layouts import IntArray, Layouts
from planner.layout.node_shape import NodeShape


@dataclass(frozen=True)
class Span:
    """Spread of a group; arrays that broadcast together."""

    size: IntArray
    """Ranks of the group."""
    domains: IntArray
    """Domains that hold at least one of its ranks."""
    ranks_per_domain: IntArray
    """Most ranks of the group that one domain can hold."""


def group_span(size: ArrayLike, stride: ArrayLike, domain: ArrayLike, start: ArrayLike = 0) -> Span:
    """Spread of the group start, start + stride, … (``size`` ranks) over domains of ``domain`` ranks each."""
    size_, stride_, domain_, start_ = (np.asarray(v, dtype=np.int64) for v in (size, stride, domain, start))
    last = start_ + (size_ - 1) * stride_
    touched = last // domain_ - start_ // domain_ + 1
    # beyond one rank per domain a group skips domains, so it touches as many as it has ranks
    domains = np.where(stride_ >= domain_, size_, touched)
    most = np.minimum(size_, -(-domain_ // stride_))
    return Span(*np.broadcast_arrays(size_, domains, most))


def layout_groups(layouts: Layouts) -> dict[str, tuple[IntArray, IntArray]]:
    """Group kind -> (size, stride), each (n,): tp, attention_dp, moe_tp, ep, pp."""
    one = np.ones_like(layouts.tp)
    return {
        "tp": (layouts.tp, one),
        "attention_dp": (layouts.attention_dp, layouts.tp),
        "moe_tp": (layouts.moe_tp, one),
        "ep": (layouts.ep, layouts.moe_tp),
        "pp": (layouts.pp, layouts.stage_gpus),
    }


def layout_spans(layouts: Layouts, node: NodeShape) -> dict[str, Span]:
    """Group kind -> its spread over fast domains (scale-up, or the node where that is PCIe), arrays (n,)."""
    return {k: group_span(size, stride, node.tp_domain) for k, (size, stride) in layout_groups(layouts).items()}

"""Bytes per tier that each kind of communication sends, per GPU; everything broadcasts.

The scale-up tier is the domain of a group's ranks, the scale-out tier the network between domains.
Collectives are counted at their lower bound (each byte crosses a tier once): reduce-scatter and all-
gather inside the domain, the rest between domains, so that the tiers add up to the flat algorithm's
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.layout.groups import Span
from planner.layout.routing import expected_units

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class TierBytes:
    """Bytes sent per GPU on each tier."""

    scale_up: FloatArray
    scale_out: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.scale_up + self.scale_out

    def __add__(self, other: TierBytes) -> TierBytes:
        return TierBytes(self.scale_up + other.scale_up, self.scale_out + other.scale_out)

    def times(self, factor: ArrayLike) -> TierBytes:
        """The same communication ``factor`` times (layers, micro-batches)."""
        times = _floats(factor)
        return TierBytes(self.scale_up * times, self.scale_out * times)


def _floats(values: ArrayLike) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def _per_domain(span: Span) -> FloatArray:
    """Ranks of a group in one domain, on average."""
    return span.size / span.domains


def all_reduce_bytes(payload: ArrayLike, span: Span) -> TierBytes:
    """All-reduce of ``payload`` bytes: 2 (n - 1) / n of it per rank.

    Inside the domain 2 (r - 1) / r, between d domains 2 (d - 1) / d of the 1 / r shard (n = r d).
    """
    size = _floats(payload)
    r, d = _per_domain(span), span.domains
    return TierBytes(2.0 * size * (1.0 - 1.0 / r), 2.0 * size / r * (1.0 - 1.0 / d))


def all_gather_bytes(gathered: ArrayLike, span: Span) -> TierBytes:
    """All-gather (or reduce-scatter) of ``gathered`` bytes in all: (n - 1) / n of it per rank.

    Between domains every rank sends its shard to the d - 1 ranks of its rail; inside it passes d shards on.
    """
    size = _floats(gathered)
    r, d = _per_domain(span), span.domains
    return TierBytes(size * (1.0 - 1.0 / r), size / r * (1.0 - 1.0 / d))


def expert_copies(
    span: Span, experts: int, topk: int, groups: int = 1, groups_per_token: int = 1, *, relay: bool
) -> TierBytes:
    """Copies of one token that leave its rank's share of the fabric, per tier (expected, uniform routing).

    ``relay`` (DeepEP normal kernels): one copy per other domain that holds one of the token's experts,
    then one per further rank inside each domain. Without it (low-latency kernels) every chosen expert
    gets its own copy, straight to its rank. ``span`` is the expert-parallel group.
    """
    r, d, n = _per_domain(span), span.domains, span.size
    if not relay:
        copies = np.full(np.shape(n), float(topk))
        return TierBytes(copies * (r - 1.0) / n, copies * (n - r) / n)
    domains = expected_units(d, experts, topk, groups, groups_per_token)
    ranks = expected_units(n, experts, topk, groups, groups_per_token)
    # The sender's domain is one of d; in each domain one of its r ranks is where the copy lands (or the
    # sender).
    return TierBytes(ranks * (1.0 - 1.0 / r), domains * (1.0 - 1.0 / d))


def expert_bytes(
    tokens: ArrayLike, destinations: ArrayLike, hidden: ArrayLike, bytes_per_value: ArrayLike
) -> FloatArray:
    """Dispatch (or combine) of ``tokens`` per rank: tokens x destinations x hidden x bytes per value."""
    return _floats(tokens) * _floats(destinations) * _floats(hidden) * _floats(bytes_per_value)


def expert_tier_bytes(tokens: ArrayLike, copies: TierBytes, hidden: ArrayLike, bytes_per_value: ArrayLike) -> TierBytes:
    """:func:`expert_bytes` on each tier, with the copies of :func:`expert_copies` as destinations."""
    return TierBytes(
        expert_bytes(tokens, copies.scale_up, hidden, bytes_per_value),
        expert_bytes(tokens, copies.scale_out, hidden, bytes_per_value),
    )


def pipeline_bytes(
    tokens: ArrayLike, hidden: ArrayLike, bytes_per_value: ArrayLike, span: Span, tp: ArrayLike
) -> TierBytes:
    """Activations that a rank sends to the next stage, averaged over the pp ranks of a pipeline.

    Each of the ``tp`` ranks sends its share of tokens x hidden; of the pp - 1 borders, domains - 1 are on
    the network. ``span`` is the pipeline group.
    """
    share = _floats(tokens) * _floats(hidden) * _floats(bytes_per_value) / _floats(tp)
    borders_out = span.domains - 1
    borders_in = span.size - span.domains
    return TierBytes(share * borders_in / span.size, share * borders_out / span.size)


def expert_communication_time(
    tokens: ArrayLike,
    destinations: ArrayLike,
    hidden: ArrayLike,
    bytes_per_value: ArrayLike,
    bandwidth: ArrayLike,
) -> FloatArray:
    """Lower bound in seconds of sending ``tokens`` per rank to ``destinations`` each at ``bandwidth`` (B/s).

    32 tokens to 9 destinations (8 routed and 1 shared expert, all remote) of 7,000 values in 1 (dispatch,
    fp8) + 2 (combine, bf16) bytes at 50 GB/s take 120.96 us ("Insights into DeepSeek-V3", ISCA 2025,
    section 2.3.2).
    """
    return expert_bytes(tokens, destinations, hidden, bytes_per_value) / _floats(bandwidth)

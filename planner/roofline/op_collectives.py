"""Times of collectives: all-reduce, all-gather, reduce-scatter, all-to-all, DeepEP dispatch and combine, sends.

``ranks`` in a group of which ``domain`` share a scale-up domain (default: all). Inside a domain bytes run over
``curve.link_bw``, between domains over ``curve.nic_bw``, both per GPU and one way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import InputError
from planner.hardware.curves import Curve
from planner.roofline.op_common import Array, as_array


def all_reduce(curve: Curve, message_bytes: ArrayLike, ranks: ArrayLike, domain: ArrayLike = np.inf) -> Array:
    """Seconds to sum ``message_bytes`` held by each of ``ranks``; 0 for one rank.

    Inside a domain the cheaper of one-shot (every rank reads the n − 1 others) and two-shot, ring or multicast:
    volume 2(n − 1)/n, or 1 + 1/n with in-switch reduction, of the message. Across N domains hierarchical and
    pipelined: the longer of the domain's own and w = 2(N − 1)/N of the message's share per rank over the NIC, and for
    every doubling of domains a latency that rises with w from the protocol of small messages to that of large ones,
    a + b · w/(w + c) (nccl-tests on 2 nodes, hardware_db/efficiency/ops/_fallbacks.yaml).
    """
    s, n, per = as_array(message_bytes), as_array(ranks), as_array(domain)
    inside = np.minimum(n, per)
    nodes = np.maximum(np.ceil(n / per), 1.0)
    ring = 2.0 - 2.0 / inside
    volume = np.minimum(ring, 1.0 + 1.0 / inside) if curve["multicast"] else ring
    link = _link(curve)
    crowd = 1.0 + curve["contention"] * np.maximum(inside - 2.0, 0.0)
    one_shot = s * (inside - 1.0) * (crowd / (curve["one_shot_efficiency"] * link))
    wire = _ramped(curve, s * volume) * (crowd / (curve["bandwidth_efficiency"] * link))
    time = np.minimum(one_shot, curve["two_shot_floor_s"] + wire)
    time = curve["floor_s"] + curve["floor_per_rank_s"] * (inside - 1.0) + time
    share = 2.0 * s / inside
    time = _across(curve, np.where(inside > 1, time, 0.0), share, nodes)
    if not np.any(nodes > 1):
        return time
    far = share * (1.0 - 1.0 / nodes)
    return time + curve["cross_rise_s"] * far / (far + curve["cross_rise_bytes"]) * np.log2(nodes)


def all_gather(curve: Curve, total_bytes: ArrayLike, ranks: ArrayLike, domain: ArrayLike = np.inf) -> Array:
    """Seconds until each of ``ranks`` holds all ``total_bytes`` (each contributed 1/n of them)."""
    s, n, per = as_array(total_bytes), as_array(ranks), as_array(domain)
    inside = np.minimum(n, per)
    nodes = np.ceil(n / per)
    return _across(curve, _shard_collective(curve, s, inside), s / inside, nodes)


def reduce_scatter(curve: Curve, total_bytes: ArrayLike, ranks: ArrayLike, domain: ArrayLike = np.inf) -> Array:
    """Seconds until each of ``ranks`` holds its 1/n of the sum of everybody's ``total_bytes``."""
    return all_gather(curve, total_bytes, ranks, domain)


def all_to_all(curve: Curve, rank_bytes: ArrayLike, ranks: ArrayLike, domain: ArrayLike = np.inf) -> Array:
    """Seconds in which each rank exchanges ``rank_bytes`` in n equal parts (its own stays) with the others."""
    s, n, per = as_array(rank_bytes), as_array(ranks), as_array(domain)
    inside = np.minimum(n, per)
    nodes = np.ceil(n / per)
    return _across(curve, _shard_collective(curve, s * (inside / n), inside), s, nodes)


def send(curve: Curve, message_bytes: ArrayLike, across: ArrayLike = False) -> Array:
    """Seconds to send ``message_bytes`` to one peer over the scale-up link, or the NIC where ``across`` is true."""
    s, far = as_array(message_bytes), np.asarray(across, dtype=bool)
    near = curve["floor_s"] + _ramped(curve, s) / (curve["bandwidth_efficiency"] * _link(curve))
    if not far.any():
        return near
    return np.where(far, curve["cross_floor_s"] + s / (curve["cross_efficiency"] * _nic(curve)), near)


def deepep_ll_dispatch(
    curve: Curve, tokens: ArrayLike, hidden: ArrayLike, topk: ArrayLike, ep: ArrayLike, domain: ArrayLike = 8
) -> Array:
    """Seconds of a DeepEP low-latency dispatch: each rank's ``tokens`` go to ``topk`` experts each.

    In the curve's data type (measured in fp8 with scales). ``ep`` ranks, ``domain`` of them to a node; the share
    1 − 1/nodes of the bytes crosses the NIC.
    """
    size = as_array(tokens) * as_array(topk) * as_array(hidden) * curve.activation_bytes
    return _deepep_low_latency(curve, size, as_array(ep), as_array(domain))


def deepep_ll_combine(
    curve: Curve, tokens: ArrayLike, hidden: ArrayLike, topk: ArrayLike, ep: ArrayLike, domain: ArrayLike = 8
) -> Array:
    """Seconds of a DeepEP low-latency combine: the expert outputs of ``tokens`` come back (measured in bf16)."""
    size = as_array(tokens) * as_array(topk) * as_array(hidden) * curve.activation_bytes
    return _deepep_low_latency(curve, size, as_array(ep), as_array(domain))


def deepep_normal_dispatch(
    curve: Curve,
    tokens: ArrayLike,
    hidden: ArrayLike,
    topk: ArrayLike,
    ep: ArrayLike,
    domain: ArrayLike = 8,
    node_limit: ArrayLike = 4,
) -> Array:
    """Seconds of a DeepEP normal dispatch of ``tokens`` per rank, notification included.

    A token crosses the network once per remote node it reaches (at most ``node_limit`` nodes: group-limited routing)
    and is copied over the link to each of its distinct ranks.
    """
    size = as_array(tokens) * as_array(hidden) * curve.activation_bytes
    return _deepep_normal(curve, size, as_array(topk), as_array(ep), as_array(domain), as_array(node_limit))


def deepep_normal_combine(
    curve: Curve,
    tokens: ArrayLike,
    hidden: ArrayLike,
    topk: ArrayLike,
    ep: ArrayLike,
    domain: ArrayLike = 8,
    node_limit: ArrayLike = 4,
) -> Array:
    """Seconds of a DeepEP normal combine: as :func:`deepep_normal_dispatch`, back (measured in bf16)."""
    size = as_array(tokens) * as_array(hidden) * curve.activation_bytes
    return _deepep_normal(curve, size, as_array(topk), as_array(ep), as_array(domain), as_array(node_limit))


def distinct_targets(topk: ArrayLike, places: ArrayLike) -> Array:
    """Expected number of distinct places (ranks or nodes) that ``topk`` uniform choices hit: P (1 − (1 − 1/P)^k)."""
    p = as_array(places)
    return p * -np.expm1(as_array(topk) * np.log1p(-1.0 / np.maximum(p, 1.0 + 1e-12)))


def _deepep_low_latency(curve: Curve, size: Array, ep: Array, domain: Array) -> Array:
    nodes = np.ceil(ep / domain)
    near = size / (curve["bandwidth_efficiency"] * _link(curve))
    far = size * (1.0 - 1.0 / nodes) / (curve["cross_efficiency"] * _nic(curve, nodes))
    return curve["floor_s"] + curve["cross_floor_s"] * np.log2(nodes) + np.maximum(near, far)


def _deepep_normal(curve: Curve, size: Array, topk: Array, ep: Array, domain: Array, node_limit: Array) -> Array:
    nodes = np.ceil(ep / domain)
    reached = np.minimum(nodes, node_limit)
    copies = distinct_targets(topk, np.minimum(ep, domain * reached))
    near = size * copies / (curve["bandwidth_efficiency"] * _link(curve))
    remote = distinct_targets(topk, reached) * (1.0 - 1.0 / nodes)
    far = size * remote / (curve["cross_efficiency"] * _nic(curve, nodes))
    return curve["floor_s"] + curve["cross_floor_s"] * np.log2(nodes) + np.maximum(near, far)


def _shard_collective(curve: Curve, total: Array, inside: Array) -> Array:
    crowd = 1.0 + curve["contention"] * np.maximum(inside - 2.0, 0.0)
    moved = _ramped(curve, total * (1.0 - 1.0 / inside))
    time = moved * (crowd / (curve["bandwidth_efficiency"] * _link(curve)))
    time = time + curve["floor_s"] + curve["floor_per_rank_s"] * (inside - 1.0)
    return np.where(inside > 1, time, 0.0)


def _ramped(curve: Curve, size: Array) -> Array:
    """Bytes with the slow start of a transfer: size + sqrt(size · ramp), so that bandwidth grows with the message."""
    return size + np.sqrt(size * curve["ramp_bytes"])


def _across(curve: Curve, inner: Array, size: Array, nodes: Array) -> Array:
    if not np.any(nodes > 1):
        return inner
    wire = size * (1.0 - 1.0 / nodes) / (curve["cross_efficiency"] * _nic(curve))
    return np.where(nodes > 1, np.maximum(inner, wire) + curve["cross_floor_s"] * np.log2(nodes), inner)


def _link(curve: Curve) -> float:
    if curve.link_bw is None:
        raise InputError(f"{curve.op}: scale-up bandwidth", None, "the accelerator's link bandwidth is needed")
    return curve.link_bw


def _nic(curve: Curve, nodes: Array | None = None) -> float:
    if curve.nic_bw is None:
        if nodes is not None and not np.any(nodes > 1):
            return np.inf
        raise InputError(f"{curve.op}: network bandwidth", None, "the accelerator's NIC bandwidth is needed")
    return curve.nic_bw

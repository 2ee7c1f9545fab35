"""Expert placement: replicate hot experts and pack the replicas onto ranks so that every rank gets the same work.

All layers at once: arrays are (layers, ...). The steps are those of DeepSeek's EPLB (deepseek-ai/EPLB: replicate, then
pack; groups onto nodes first where routing is limited to groups), followed by swaps between the fullest rank and the
others. Everything is deterministic: ties go to the lower number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MOST_SWAPS = 400
"""Swaps tried per layer; every one lowers the fullest rank, and most layers need fewer."""
PIECES = (1.0, 0.97, 0.93, 0.85, 0.75, 0.5)
"""Largest copies tried, in parts of a rank's mean load."""
SIZES = (1.1, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Experts that get the copies left over: those whose copies are below this part of a rank's mean load."""
GOOD_ENOUGH = 0.005
"""Distance from the lower bound within which no other numbers of copies are tried."""
SMALLEST_GAIN = 1e-9
"""Relative gain below which a swap is rounding."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Which expert each slot holds; slot ``r * slots_per_rank + j`` is the j-th of rank r."""

    physical_to_logical: IntArray
    """Expert of each slot, (layers, experts + redundant)."""
    counts: Array
    """Tokens per expert that it was made for, (layers, experts)."""
    ranks: int

    @property
    def layers(self) -> int:
        return int(self.counts.shape[0])

    @property
    def experts(self) -> int:
        return int(self.counts.shape[1])

    @property
    def slots_per_rank(self) -> int:
        return int(self.physical_to_logical.shape[1]) // self.ranks

    @cached_property
    def replicas(self) -> IntArray:
        """Copies of each expert, (layers, experts)."""
        return _replicas_of(self.physical_to_logical, self.experts)

    @property
    def rank_load(self) -> Array:
        """Tokens of each rank where copies share an expert's tokens evenly, (layers, ranks)."""
        share = np.take_along_axis(self.counts / self.replicas, self.physical_to_logical, axis=1)
        return np.asarray(share.reshape(self.layers, self.ranks, -1).sum(axis=2))

    @property
    def imbalance(self) -> Array:
        """Largest over mean load of a rank, (layers,); at least 1."""
        return _max_over_mean(self.rank_load)

    @property
    def imbalance_before(self) -> Array:
        """The same with every expert once, in order over the ranks, (layers,)."""
        rank = np.arange(self.experts) * self.ranks // self.experts
        load = np.zeros((self.layers, self.ranks))
        np.add.at(load.T, rank, self.counts.T)
        return _max_over_mean(load)

    @property
    def lower_bound(self) -> Array:
        """What no placement with these slots can beat, as largest over mean load, (layers,).

        The mean itself, and the hottest copy after the best use of all copies (at most one of an expert per rank).
        """
        best = replicate(self.counts, self.physical_to_logical.shape[1] - self.experts, self.ranks)
        hottest = (self.counts / best).max(axis=1)
        mean = self.counts.sum(axis=1) / self.ranks
        return np.maximum(np.where(mean > 0, hottest / np.where(mean > 0, mean, 1.0), 1.0), 1.0)

    def logical_to_physical(self) -> IntArray:
        """Slots of each expert, (layers, experts, most copies), filled with -1."""
        out = np.full((self.layers, self.experts, int(self.replicas.max())), -1, dtype=np.int64)
        seen = np.zeros((self.layers, self.experts), dtype=np.int64)
        rows = np.arange(self.layers)
        for slot in range(self.physical_to_logical.shape[1]):
            expert = self.physical_to_logical[:, slot]
            out[rows, expert, seen[rows, expert]] = slot
            seen[rows, expert] += 1
        return out


def place_experts(counts: ArrayLike, ranks: int, redundant: int = 0, groups: int = 1, *, nodes: int = 1) -> Placement:
    """The placement of ``experts + redundant`` copies over ``ranks``, from tokens per expert.

    ``counts``: (experts,) or (layers, experts), not negative. With ``groups`` of experts (group-limited routing) over
    several ``nodes``, whole groups are packed onto nodes first, so that a token that may reach 4 of 8 groups reaches
    few nodes; copies then stay inside their node. ``nodes`` = 1 packs all copies onto all ranks.

    Raises InputError where the slots do not divide evenly over ranks, or groups and ranks over nodes.
    """
    load = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    if load.ndim != 2 or not load.size or not np.isfinite(load).all() or load.min() < 0:
        raise InputError("counts", np.shape(counts), "finite numbers of at least 0, (experts,) or (layers, experts)")
    layers, experts = load.shape
    if ranks < 1 or redundant < 0 or (experts + redundant) % ranks:
        allowed = f"a number that makes {experts} + redundant a multiple of {ranks} ranks"
        raise InputError("redundant", redundant, allowed)
    if nodes == 1:
        return Placement(_place(load, ranks, redundant), load, ranks)
    if nodes < 1 or ranks % nodes or redundant % nodes:
        raise InputError("nodes", nodes, f"a divisor of {ranks} ranks and of {redundant} redundant experts")
    if experts % groups or groups % nodes:
        raise InputError("groups", groups, f"a divisor of {experts} experts and a multiple of {nodes} nodes")
    size, per_node = experts // groups, groups // nodes
    weight = load.reshape(layers, groups, size).sum(axis=2)
    packed = _pack(weight, np.broadcast_to(np.arange(groups), (layers, groups)), nodes)
    chosen = packed.reshape(layers, nodes, per_node)
    members = (chosen[..., None] * size + np.arange(size)).reshape(layers, nodes, per_node * size)
    slots = []
    for node in range(nodes):
        own = members[:, node]
        inside = _place(np.take_along_axis(load, own, axis=1), ranks // nodes, redundant // nodes)
        slots.append(np.take_along_axis(own, inside, axis=1))
    return Placement(np.concatenate(slots, axis=1), load, ranks)


def replicate(
    counts: Array, redundant: int, most: int, start: IntArray | None = None, among: BoolArray | None = None
) -> IntArray:
    """Copies of each expert, (layers, experts), at most ``most``: the expert with the largest load per copy gets the
    next one, from one copy each or from ``start`` on, until ``experts + redundant`` are given.

    From one copy each this gives the smallest possible largest load per copy (a greedy choice is optimal for a minimum
    of a maximum of decreasing functions). ``among`` (layers, experts) says who may get further copies first; when all
    of them have ``most``, the others do.
    """
    copies = np.ones(counts.shape, dtype=np.int64) if start is None else start.copy()
    left = counts.shape[1] + redundant - copies.sum(axis=1)
    later = 0.0 if among is None else np.where(among, 0.0, -2.0 * counts.max(axis=1, keepdims=True))
    rows = np.arange(counts.shape[0])
    for step in range(int(left.max())):
        chosen = np.argmax(np.where(copies < most, counts / copies + later, -np.inf), axis=1)
        copies[rows, chosen] += step < left
    return copies


def _cut(load: Array, redundant: int, ranks: int, piece: float, size: float) -> IntArray:
    """Numbers of copies worth packing besides the greedy one.

    Heavy copies pack badly: two of 0.6 of a rank's share make 1.2, while one of 0.95 with light company is fine. So hot
    experts are cut only until a copy is at most ``piece`` of a rank's share, where the slots suffice, and the copies
    left go to experts below ``size``.
    """
    share = load.sum(axis=1, keepdims=True) / ranks
    start = np.clip(np.ceil(load / np.maximum(share * piece, 1e-300) - 1e-9), 1, ranks).astype(np.int64)
    start[start.sum(axis=1) > load.shape[1] + redundant] = 1
    return replicate(load, redundant, ranks, start, load / start < share * size)


def _place(load: Array, ranks: int, redundant: int) -> IntArray:
    """Slots (layers, experts + redundant) of all ranks in a row, each rank's experts in rising order."""
    greedy = replicate(load, redundant, ranks)
    ids, worst = _packed(load, greedy, ranks)
    bound = np.maximum((load / greedy).max(axis=1), load.sum(axis=1) / ranks)
    poor = np.flatnonzero(worst > bound * (1.0 + GOOD_ENOUGH)) if redundant else np.empty(0, dtype=np.int64)
    for piece, size in product(PIECES, SIZES):
        if not poor.size:
            break
        other, its_worst = _packed(load[poor], _cut(load[poor], redundant, ranks, piece, size), ranks)
        better = its_worst < worst[poor]
        ids[poor[better]], worst[poor[better]] = other[better], its_worst[better]
        poor = poor[worst[poor] > bound[poor] * (1.0 + GOOD_ENOUGH)]
    return ids


def _packed(load: Array, copies: IntArray, ranks: int) -> tuple[IntArray, Array]:
    """(slots, load of the fullest rank) of given numbers of copies."""
    layers, experts = load.shape
    slots = int(copies[0].sum())
    expert = np.repeat(np.tile(np.arange(experts), layers), copies.ravel()).reshape(layers, slots)
    weight = np.take_along_axis(load / copies, expert, axis=1)
    packed = _pack(weight, expert, ranks)
    ids = np.take_along_axis(expert, packed, axis=1).reshape(layers, ranks, -1)
    share = np.take_along_axis(weight, packed, axis=1).reshape(layers, ranks, -1)
    _swap(ids, share)
    ids.sort(axis=2)
    return ids.reshape(layers, slots), share.sum(axis=2).max(axis=1)


def _pack(weight: Array, kind: IntArray, bins: int) -> IntArray:
    """Items in order of their bin, (layers, items): heaviest first, each into the lightest bin with room.

    ``kind``: two items of one kind avoid a common bin where another bin has room.
    """
    layers, items = weight.shape
    room = items // bins
    rows = np.arange(layers)
    order = np.argsort(-weight, axis=1, kind="stable")
    load = np.zeros((layers, bins))
    used = np.zeros((layers, bins), dtype=np.int64)
    holds = np.zeros((layers, bins, int(kind.max()) + 1), dtype=bool)
    out = np.empty((layers, bins, room), dtype=np.int64)
    for step in range(items):
        item = order[:, step]
        mine = kind[rows, item]
        full = used >= room
        double = holds[rows, :, mine]
        cost = np.where(full, np.inf, load)
        apart = np.where(double, np.inf, cost)
        cost = np.where(np.isinf(apart).all(axis=1, keepdims=True), cost, apart)
        chosen = np.argmin(cost, axis=1)
        out[rows, chosen, used[rows, chosen]] = item
        used[rows, chosen] += 1
        load[rows, chosen] += weight[rows, item]
        holds[rows, chosen, mine] = True
    return out.reshape(layers, items)


def _swap(ids: IntArray, share: Array) -> None:
    """Swaps copies between the fullest rank and any other while that lowers the fuller of the two; in place.

    ``ids`` and ``share`` (layers, ranks, slots). Layers go on together; those without a useful swap are left out.
    """
    layers, ranks, slots = ids.shape
    if ranks == 1:
        return
    active = np.arange(layers)
    for _ in range(MOST_SWAPS):
        rows = np.arange(active.size)
        part, held = share[active], ids[active]
        load = part.sum(axis=2)
        fullest = np.argmax(load, axis=1)
        top = load[rows, fullest]
        mine, mine_ids = part[rows, fullest], held[rows, fullest]
        moved = mine[:, :, None, None] - part[:, None, :, :]
        after = np.maximum(top[:, None, None, None] - moved, load[:, None, :, None] + moved)
        same: BoolArray = np.asarray(held[:, :, :, None] == mine_ids[:, None, None, :])
        given_there = np.any(same, axis=2, keepdims=True).transpose(0, 3, 1, 2)
        taken_here = np.any(same, axis=3, keepdims=True).transpose(0, 3, 1, 2)
        after = np.where(given_there | taken_here, np.inf, after)
        after[rows, :, fullest, :] = np.inf
        flat = after.reshape(active.size, -1)
        best = np.argmin(flat, axis=1)
        gain: BoolArray = np.asarray(flat[rows, best] < top * (1.0 - SMALLEST_GAIN))
        if not gain.any():
            return
        active, rows, best, fullest = active[gain], rows[gain], best[gain], fullest[gain]
        give, rest = np.divmod(best, ranks * slots)
        to, take = np.divmod(rest, slots)
        for table in (ids, share):
            kept = table[active, fullest, give].copy()
            table[active, fullest, give] = table[active, to, take]
            table[active, to, take] = kept


def _replicas_of(slots: IntArray, experts: int) -> IntArray:
    layers = slots.shape[0]
    flat = (np.arange(layers)[:, None] * experts + slots).ravel()
    return np.bincount(flat, minlength=layers * experts).reshape(layers, experts)


def _max_over_mean(load: Array) -> Array:
    mean = load.mean(axis=1)
    return np.where(mean > 0, load.max(axis=1) / np.where(mean > 0, mean, 1.0), 1.0)


def popularity_cv(counts: ArrayLike) -> float:
    """Coefficient of variation of expert loads, mean over layers: the ``expert_skew`` of a scenario."""
    load = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    mean = load.mean(axis=1)
    spread = np.where(mean > 0, load.std(axis=1) / np.where(mean > 0, mean, 1.0), 0.0)
    return float(spread.mean())

"""The smallest change that would make a rejected candidate fit, in one sentence each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.search.rejections import number, told_apart
from planner.units import GIB, MILLISECOND

VAST_GPUS = 10_000
"""GPUs that hardly anybody has: more are no example of what keeps a limit, and where nodes are what lacks, the fix says
how many GPUs they are.
"""
KV_IN_FP8 = "KV cache in fp8"


@dataclass(frozen=True)
class MemoryTerms:
    """One candidate's memory on its fullest GPU, in bytes."""

    fixed: float
    """Everything but KV: weights, workspace, collectives, graphs, runtime, margin."""
    kv: float
    """KV that the asked concurrency needs."""
    capacity: float
    """Usable memory of the GPU."""
    utilization: float
    """Share of the capacity that the engine may use."""
    kv_bytes_per_value: float
    """Bytes of a cached value now."""

    @property
    def needed(self) -> float:
        return self.fixed + self.kv

    @property
    def short(self) -> float:
        """Bytes missing on the fullest GPU."""
        return self.needed - self.capacity * self.utilization


def fitting_alternative(
    needed: ArrayLike, capacity: ArrayLike, gpus: ArrayLike, describe: Callable[[int], str]
) -> str | None:
    """Of all evaluated candidates that do fit memory, the one with the fewest GPUs; None where there is none.

    ``needed`` and ``capacity`` in bytes, ``gpus`` of one worker; arrays (n,). Larger nodes and more tp
    are among the candidates, so this names the smallest change of layout or node that was tried.
    """
    want, have, count = (np.asarray(v, dtype=np.float64) for v in (needed, capacity, gpus))
    fits = np.flatnonzero(want <= have)
    if not fits.size:
        return None
    best = int(fits[np.lexsort((want[fits] / have[fits], count[fits]))[0]])
    return f"{describe(best)} fits ({number(float(want[best]) / GIB)} of {number(float(have[best]) / GIB)} GiB)"


def memory_fix(terms: MemoryTerms, alternative: str | None = None) -> str:
    """What would make the memory of one candidate fit: utilisation, KV in 8 bits, fewer requests, or another layout.

    Only changes that are enough by themselves are named, the least disturbing first; the shortage is
    always said.
    """
    short = f"short by {number(terms.short / GIB)} GiB per GPU"
    ways = list(_own_ways(terms))
    if alternative:
        ways.append(alternative)
    if not ways:
        return f"{short}; nothing that was tried fits: more GPUs per worker, a larger GPU or a smaller format"
    return f"{short}; {' or '.join(ways)}"


def longest_fix(short_gib: float, tokens: float, alternative: str | None) -> str:
    """What would make one request of the longest length fit a cache that holds ``tokens`` tokens."""
    ways = [f"a max_model_len of {tokens:,.0f} tokens fits"] if 1.0 <= tokens < np.inf else []
    if alternative:
        ways.append(alternative)
    return "; ".join((f"short by {number(short_gib)} GiB of KV", " or ".join(ways) or "a larger worker"))


def _own_ways(terms: MemoryTerms) -> Sequence[str]:
    ways = []
    share = terms.needed / terms.capacity
    if share <= 1.0:
        # rounded up: a value rounded down would not be enough
        ways.append(f"gpu_memory_utilization {np.ceil(share * 100) / 100:.2f} instead of {terms.utilization:.2f}")
    budget = terms.capacity * terms.utilization - terms.fixed
    if terms.kv_bytes_per_value > 1.0 and terms.kv / terms.kv_bytes_per_value <= budget:
        ways.append(KV_IN_FP8)
    if terms.kv > 0 and 0 < budget < terms.kv:
        ways.append(f"{number(100.0 * budget / terms.kv)} % of the requests at a time")
    return ways


def latency_fix(
    metric: str,
    reached_s: ArrayLike,
    limit_s: float,
    gpus: ArrayLike,
    describe: Callable[[int], str],
    *,
    within_nodes: bool = False,
    serves: ArrayLike | None = None,
    broken: Callable[[int], str | None] = lambda _: None,
) -> str | None:
    """The candidate of the fewest ``gpus`` (n,) that keeps a limit on a latency, else the nearest value that any
    reaches; ``reached_s`` (n,) in seconds, NaN for those left out. None where that takes more than VAST_GPUS.

    Those that serve as asked (``serves``, (n,)) go before others; of one that does not, what it breaks is said, in
    words by ``broken``: it is no way out. ``within_nodes``: those that take more nodes than allowed are left out, and
    are fast in vain.
    """
    values, count = np.asarray(reached_s, dtype=np.float64), np.asarray(gpus)
    known = np.flatnonzero(np.isfinite(values))
    keep = known[values[known] <= limit_s]
    if keep.size:
        whole = keep if serves is None else keep[np.asarray(serves)[keep]]
        keep = whole if whole.size else keep
        best = int(keep[np.lexsort((values[keep], count[keep]))[0]])
        value, _ = told_apart(float(values[best]) / MILLISECOND, limit_s / MILLISECOND)
        if count[best] > VAST_GPUS:
            return None
        text, why = f"{describe(best)} reaches a {metric} of {value} ms", broken(best)
        return text if why is None else f"{text}, but {why}"
    small = known[count[known] <= VAST_GPUS]
    if not small.size:
        return None
    best = int(small[np.argmin(values[small])])
    value, limit = told_apart(float(values[best]) / MILLISECOND, limit_s / MILLISECOND)
    if values[best] > values[known].min():
        where = f"with at most {VAST_GPUS:,} GPUs"
    else:
        where = "within the nodes allowed" if within_nodes else "reached"
    return f"the smallest {metric} {where} is {value} ms ({describe(best)}), against a limit of {limit} ms"


def nodes_fix(needed: float, nodes_allowed: float, name: str) -> str | None:
    """The nodes that a deployment takes, which only lacks nodes; None where the number is not known."""
    if not np.isfinite(needed):
        return None
    nodes = int(np.ceil(needed - 1e-9))
    return f"{nodes:,} node{'s' if nodes != 1 else ''} instead of {number(nodes_allowed)} ({name})"

"""N + k: how many workers keep the SLO when GPUs, nodes or racks fail, and how often the SLO breaks all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError

IntArray = NDArray[np.int64]
Array = NDArray[np.float64]
Failure = Literal["gpu", "node", "rack"]


@dataclass(frozen=True)
class Domains:
    """What fails together: GPUs of a worker, of a node, of a rack."""

    worker_gpus: int
    node_gpus: int
    rack_gpus: int

    def __post_init__(self) -> None:
        for name in ("worker_gpus", "node_gpus", "rack_gpus"):
            if getattr(self, name) < 1:
                raise InputError(name, getattr(self, name), "at least 1")
        if self.rack_gpus < self.node_gpus:
            raise InputError("rack_gpus", self.rack_gpus, f"at least node_gpus, {self.node_gpus}")

    def gpus(self, failure: Failure) -> int:
        """GPUs that one failure takes down."""
        return {"gpu": 1, "node": self.node_gpus, "rack": self.rack_gpus}[failure]

    def lost_workers(self, failure: Failure) -> int:
        """Workers that one failure takes down: every worker with a GPU in the domain.

        A worker inside a domain shares it with others; one that spans domains is lost whole. Workers are packed, so a
        domain of G GPUs touches ceil(G / worker) of them where they are smaller, and one where they are larger.
        """
        return max(-(-self.gpus(failure) // self.worker_gpus), 1)


def spare_workers(needed: ArrayLike, workers: ArrayLike, lost: int, k: int = 1) -> IntArray:
    """Workers to add to ``workers`` so that ``needed`` (those that just meet the SLO) are left after ``k`` failures
    that take ``lost`` each, (n,).

    What k failures take, less what there is beyond ``needed``; where one failure takes all workers, k further fleets
    of ``needed``, which lie where the failures that take the others do not reach them.
    """
    if k < 0:
        raise InputError("k", k, "at least 0")
    least, here = np.asarray(needed, dtype=np.int64), np.asarray(workers, dtype=np.int64)
    return np.asarray(np.where(lost >= here, k * least, np.maximum(least + k * lost - here, 0)))


def slo_availability(workers: ArrayLike, needed: ArrayLike, unavailability: ArrayLike) -> Array:
    """Part of the time in which at least ``needed`` of ``workers`` are up, each down ``unavailability`` of it, (n,).

    Binomial; workers fail independently, so it holds for GPU failures and is a bound for nodes and racks that take
    several workers along.
    """
    from scipy.special import bdtr

    n, k = (np.asarray(v, dtype=float) for v in (workers, needed))
    spare = n - k
    up = bdtr(np.maximum(spare, 0.0), np.maximum(n, 1.0).astype(np.int64), np.asarray(unavailability, dtype=float))
    return np.where(spare < 0, 0.0, up)

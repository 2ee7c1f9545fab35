"""How many workers for a rate, over a day, and as whole GPUs and nodes.

What one worker carries within the SLO depends on how many share the load (bursts smooth out), so a capacity is a
function of the worker count: ``carried(workers)`` requests per second that this many meet every limit at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.errors import InfeasibleError, InputError

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

HOURS = 24
MOST_WORKERS = 1 << 20
"""More workers than this are not tried: the load does not fit the question."""


@dataclass(frozen=True)
class Fleet:
    """Workers of one layout for a load."""

    workers: int
    worker_gpus: int
    spare_workers: int = 0

    @property
    def gpus(self) -> int:
        return (self.workers + self.spare_workers) * self.worker_gpus

    def describe(self, layout: str) -> str:
        """``40 GPUs = 5 replicas × TP8``; spares are named apart."""
        name = f"{self.workers + self.spare_workers} replica{'s' if self.workers + self.spare_workers != 1 else ''}"
        spare = f" ({self.spare_workers} spare)" if self.spare_workers else ""
        return f"{self.gpus} GPUs = {name} × {layout}{spare}"


def smallest_fleet(rate_rps: float, carried: Callable[[int], float]) -> int:
    """Smallest number of workers with ``carried(workers)`` >= ``rate_rps``.

    ``carried`` must not fall with more workers. Raises InfeasibleError where no number of workers carries the rate,
    InputError for a rate that is not positive.
    """
    if not rate_rps > 0:
        raise InputError("rate_rps", rate_rps, "above 0")
    low, high = 1, 1
    while carried(high) < rate_rps:
        low, high = high + 1, high * 2
        if high > MOST_WORKERS:
            raise InfeasibleError(f"no number of workers carries {rate_rps:g} requests/s within the limits")
    while low < high:
        middle = (low + high) // 2
        if carried(middle) < rate_rps:
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(frozen=True)
class DaySize:
    """A fleet over a day, hour by hour."""

    workers: tuple[int, ...]
    """Workers that each hour needs."""
    rates_rps: tuple[float, ...]

    @property
    def peak(self) -> int:
        """What a fleet of fixed size needs."""
        return max(self.workers)

    @property
    def average(self) -> float:
        """What an autoscaled fleet runs on average."""
        return float(np.mean(self.workers))

    @property
    def lowest(self) -> int:
        """Lower end of the autoscaling range."""
        return min(self.workers)

    @property
    def saved_share(self) -> float:
        """Part of the worker-hours that autoscaling saves against the peak fleet."""
        return 1.0 - self.average / self.peak

    @property
    def peak_utilisation(self) -> float:
        """Mean rate over the peak rate: how full a fleet of fixed size is."""
        return float(np.mean(self.rates_rps)) / max(self.rates_rps)


def day_size(rates_rps: Sequence[float], carried: Callable[[int], float], start_s: float = 0.0) -> DaySize:
    """Workers for a daily profile of 24 hourly rates, the smallest each hour.

    A worker takes ``start_s`` seconds to start (:func:`planner.economics.recovery.recovery`), so where that is above 0
    an hour is already served at its beginning by what the next hour needs if that is more. Hours without load need no
    worker. Raises InputError for another number of rates or negative ones.
    """
    if len(rates_rps) != HOURS:
        raise InputError("rates_rps", f"{len(rates_rps)} values", f"{HOURS} values, one for each hour")
    if any(not rate >= 0 for rate in rates_rps) or max(rates_rps) == 0:
        raise InputError("rates_rps", list(rates_rps), "rates of at least 0, one of them above 0")
    known = {rate: smallest_fleet(rate, carried) if rate > 0 else 0 for rate in set(rates_rps)}
    need = [known[rate] for rate in rates_rps]
    if start_s > 0:
        need = [max(now, need[(hour + 1) % HOURS]) for hour, now in enumerate(need)]
    return DaySize(tuple(need), tuple(float(r) for r in rates_rps))


def scaled_profile(mean_rps: float, shape: Sequence[float]) -> Array:
    """24 hourly rates of mean ``mean_rps`` in proportion to ``shape``."""
    values = np.asarray(shape, dtype=float)
    if values.size != HOURS or np.any(values < 0) or not values.sum() > 0:
        raise InputError("shape", list(shape), f"{HOURS} values of at least 0, one of them above 0")
    return np.asarray(mean_rps * values / values.mean())

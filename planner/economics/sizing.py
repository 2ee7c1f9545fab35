"""How many workers for a rate, and over a day.

What one worker carries within the SLO depends on how many share the load (bursts smooth out), so the question put to
the serving formulas is ``holds(rates, workers)``: whether so many workers meet every limit at that rate, arrays (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InfeasibleError, InputError

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Holds = Callable[[Array, IntArray], BoolArray]
Confirmed = Callable[[Array, IntArray], IntArray]

HOURS = 24
MOST_WORKERS = 1 << 20
"""More workers than this are not tried: the load does not fit the question."""
CLOSE = 0.002
"""Relative step within which a rate counts as found."""
HALVINGS = 60
REACH, MOST_REACH = 8.0, 1e12
"""Factor by which rates are tried above and below the first one, and within which the limit is looked for."""
TRIED, TRIED_RATES = 16, 16
"""Worker counts, and rates, that are tried for each question in one evaluation."""


def smallest_fleets(rates_rps: ArrayLike, holds: Holds, first_guess: ArrayLike) -> IntArray:
    """Smallest numbers of workers that meet every limit at ``rates_rps`` (n,), all of them at once.

    ``holds`` must not turn false with more workers; ``first_guess`` (n,), 1 or more, sets where the search starts and
    not what it finds. Raises InfeasibleError where no number of workers is enough, InputError for a rate that is not
    positive.
    """
    rates = np.atleast_1d(np.asarray(rates_rps, dtype=float))
    if not np.all(rates > 0):
        raise InputError("rates_rps", rates.tolist(), "above 0")
    low = np.ones(rates.size, dtype=np.int64)
    high = np.broadcast_to(np.asarray(first_guess, dtype=np.int64), rates.shape).copy()
    missing = ~holds(rates, high)
    while missing.any():
        low[missing], high[missing] = high[missing] + 1, high[missing] * 2
        if high.max() > MOST_WORKERS:
            worst = float(rates[missing][0])
            raise InfeasibleError(f"no number of workers carries {worst:g} requests/s within the limits")
        missing[missing] = ~holds(rates[missing], high[missing])
    while np.any(low < high):
        rows = np.flatnonzero(low < high)
        width = (high - low)[rows]
        steps = np.arange(TRIED) * width[:, None] // TRIED
        tried = low[rows][:, None] + steps
        good = holds(np.repeat(rates[rows], TRIED), tried.ravel()).reshape(tried.shape)
        reached = np.where(good, tried, high[rows][:, None]).min(axis=1)
        below = np.where(good, low[rows][:, None] - 1, tried).max(axis=1)
        low[rows], high[rows] = np.minimum(below + 1, reached), reached
    return high


def most_carried(workers: int, rate_rps: float, holds: Holds) -> float:
    """Highest rate that ``workers`` carry within every limit, to :data:`CLOSE`; NaN where they carry none above the
    1e-12th part of ``rate_rps``, and infinity where they carry 1e12 times it.

    ``holds`` must not turn true with more load; ``rate_rps`` sets where the search starts and not what it finds.
    """
    count = np.full(TRIED_RATES, workers, dtype=np.int64)
    low, high = rate_rps / REACH, rate_rps * REACH
    while True:
        tried = np.geomspace(low, high, TRIED_RATES)
        good = holds(tried, count)
        if good.all():
            low, high = high, high * REACH**2
            if low > MOST_REACH * rate_rps:
                return float("inf")
        elif not good[0]:
            low, high = low / REACH**2, low
            if high < rate_rps / MOST_REACH:
                return float("nan")
        else:
            last = int(np.argmin(good)) - 1
            low, high = float(tried[last]), float(tried[last + 1])
            if high < (1.0 + CLOSE) * low:
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


def day_size(
    rates_rps: Sequence[float],
    holds: Holds,
    *,
    confirmed: Confirmed | None = None,
    peak_workers: int | None = None,
    start_s: float = 0.0,
) -> DaySize:
    """Workers for a daily profile of 24 hourly rates, the smallest each hour (:func:`smallest_fleets`).

    ``confirmed`` takes rates and the workers found for them, (n,), and returns as many or more, for limits that take a
    closer look than ``holds`` is put to every number.
    ``peak_workers`` are known to carry the busiest hour, where given. A worker takes ``start_s`` seconds to start, so
    where that is above 0 an hour is already served at its beginning by what the next hour needs if that is more. Hours
    without load need no worker. Raises InputError for another number of rates or negative ones.
    """
    if len(rates_rps) != HOURS:
        raise InputError("rates_rps", f"{len(rates_rps)} values", f"{HOURS} values, one for each hour")
    rates = np.asarray(rates_rps, dtype=float)
    if not np.all(rates >= 0) or rates.max() == 0:
        raise InputError("rates_rps", list(rates_rps), "rates of at least 0, one of them above 0")
    peak = float(rates.max())
    asked = np.unique(rates[rates > 0])
    known = {0.0: 0}
    if peak_workers is not None:
        known[peak] = peak_workers
        asked = asked[asked < peak]
    if asked.size:
        guess = np.maximum(np.ceil((peak_workers or 1) * asked / peak), 1.0)
        found = smallest_fleets(asked, holds, guess)
        found = found if confirmed is None else confirmed(asked, found)
        known |= dict(zip(asked.tolist(), found.tolist(), strict=True))
    need = [known[rate] if peak_workers is None else min(known[rate], peak_workers) for rate in rates.tolist()]
    if start_s > 0:
        need = [max(now, need[(hour + 1) % HOURS]) for hour, now in enumerate(need)]
    return DaySize(tuple(need), tuple(rates.tolist()))


def scaled_profile(peak_rps: float, shape: Sequence[float]) -> Array:
    """24 hourly rates in proportion to ``shape``, the busiest of them ``peak_rps``."""
    values = np.asarray(shape, dtype=float)
    if values.size != HOURS or np.any(values < 0) or not values.max() > 0:
        raise InputError("shape", list(shape), f"{HOURS} values of at least 0, one of them above 0")
    return np.asarray(peak_rps * values / values.max())


def smooth_day(peak_to_mean: float, peak_hour: int = 12) -> Array:
    """24 hourly rates, busiest 1 at ``peak_hour``, where only the busiest hour over the mean is known.

    exp(k cos(2 pi (h - peak_hour) / 24)) over its maximum (von Mises), with k so that the mean is 1 / ``peak_to_mean``:
    a flat day at 1, all load in one hour at 24. Raises InputError outside 1 to 24.
    """
    if not 1.0 <= peak_to_mean <= HOURS:
        raise InputError("peak_to_mean", peak_to_mean, f"1 to {HOURS}")
    turn = np.cos(2.0 * np.pi * (np.arange(HOURS) - peak_hour) / HOURS) - 1.0
    low, high = 1e-9, 1e6
    for _ in range(HALVINGS):
        k = np.sqrt(low * high)
        low, high = (k, high) if np.exp(k * turn).mean() > 1.0 / peak_to_mean else (low, k)
    return np.asarray(np.exp(high * turn))

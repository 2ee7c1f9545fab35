"""Queues in closed form: waits of one and of several servers, blocking, priorities, and what burstiness does to them.

Arrays broadcast. Rates in requests per second, times in seconds; ``cv`` is the coefficient of variation of the gaps
between arrivals, ``scv`` of a service time is squared already. Unstable queues answer infinity, never a large number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError

Array = NDArray[np.float64]
Routing = Literal["least_loaded", "round_robin", "random"]


def worker_cv(cv: ArrayLike, workers: ArrayLike, routing: Routing = "least_loaded") -> Array:
    """CV of the gaps at one of ``workers`` that share a stream of CV ``cv``.

    Round robin: a worker's gap is the sum of as many gaps, cv / sqrt(workers) (exact for independent gaps). Random:
    thinning, cv_w^2 = 1 + (cv^2 - 1) / workers (exact). Least loaded: the same; a burst spreads evenly,
    cv^2 / workers of the variance, but which worker is chosen hangs on what has left it, as good as at random.
    """
    c2, n = np.square(np.asarray(cv, dtype=float)), np.asarray(workers, dtype=float)
    return np.sqrt(c2 / n if routing == "round_robin" else 1.0 + (c2 - 1.0) / n)


FANO = (0.22, 0.4, 0.1)
"""How fast the variance of counts reaches its limit (:func:`fano`); fitted to counts of 4e6 simulated gamma gaps of CV
2 to 8 in windows of 0.1 to 1,000 mean arrivals, within 0.1 of the share below 0.3 and 0.05 above."""


def fano(cv: ArrayLike, arrivals: ArrayLike) -> Array:
    """Variance over mean of the number of arrivals in a window that expects ``arrivals`` of them.

    1 in a window without arrivals, cv^2 in a long one. For gamma gaps the share of (cv^2 - 1) that is reached is
    1 / (1 + a y^-b + c / arrivals) with y = arrivals / max(cv^2, 1); a, b, c fitted (:data:`FANO`).
    """
    c2, x = np.square(np.asarray(cv, dtype=float)), np.maximum(np.asarray(arrivals, dtype=float), 1e-9)
    a, b, c = FANO
    if np.all(c2 == 1.0):
        return np.ones(np.broadcast(c2, x).shape)
    share = 1.0 / (1.0 + a * (x / np.maximum(c2, 1.0)) ** -b + c / x)
    return np.asarray(1.0 + (c2 - 1.0) * share)


def batch_of(arrivals: ArrayLike, dispersion: ArrayLike = 1.0) -> Array:
    """Mean arrivals in a window that has any, where ``arrivals`` are expected: x / (1 - exp(-x / m)).

    Exact for Poisson arrivals (``dispersion`` 1, m = 1); bursts count as Poisson clusters of m = (dispersion + 1) / 2,
    which have that variance over mean.
    """
    x = np.maximum(np.asarray(arrivals, dtype=float), 1e-9)
    size = np.maximum(0.5 * (np.asarray(dispersion, dtype=float) + 1.0), 1.0)
    return np.asarray(np.maximum(x / -np.expm1(-x / size), 1.0))


@dataclass(frozen=True)
class Wait:
    """The wait of a queue, arrays (n,): its mean in seconds, the part of arrivals that wait at all, and the squared CV
    of the waits above zero."""

    mean: Array
    probability: Array
    delayed_scv: Array


def queue_wait(
    rate: ArrayLike,
    cv: ArrayLike,
    service_s: ArrayLike,
    service_scv: ArrayLike,
    service_third: ArrayLike,
    servers: ArrayLike = 1.0,
) -> Wait:
    """Wait of GI/G/c, ``service_s`` seconds on each of ``servers``; ``service_third`` is E[s] E[s^3] / E[s^2]^2.

    Poisson or smoother: mean (cv^2 + scv) / 2 x rho^(sqrt(2 (c + 1)) - 1) / (1 - rho) x service / c (Sakasegawa 1977;
    exact for M/G/1) times the correction of Kraemer and Langenbach-Belz (1976), probability rho times the same factor.
    Burstier than Poisson: the exact root sigma of gamma gaps before an exponential server,
    sigma = (1 + (1 - sigma) cv^2 / rho)^(-1 / cv^2), mean sigma / (1 - sigma) x service x (cv^2 + scv) / (cv^2 + 1),
    probability sigma; several servers count for what is left of them when a burst of (cv^2 + 1) / 2 arrives at once.
    Infinite at rho >= 1.
    """
    ca2, scv = np.square(np.asarray(cv, dtype=float)), np.asarray(service_scv, dtype=float)
    s, c = np.asarray(service_s, dtype=float), np.asarray(servers, dtype=float)
    rho = np.asarray(rate, dtype=float) * s / c
    burst = np.maximum(0.5 * (ca2 + 1.0), 1.0)
    pooled = np.minimum(rho, 1.0) ** (np.sqrt(2.0 * (1.0 + (c - 1.0) / burst) + 2.0) - 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        single = 0.5 * (ca2 + scv) * rho / (1.0 - rho)
        chance = np.minimum(rho, 1.0)
        if np.any(ca2 < 1.0):
            single = single * np.where(ca2 < 1.0, _kraemer(rho, ca2, scv), 1.0)
            chance = np.where(ca2 < 1.0, _smooth_chance(chance, ca2, scv), chance)
        tail = delayed_scv(rho, service_third)
        if np.any(ca2 > 1.0):
            root = _gamma_root(rho, np.maximum(ca2, 1.0))
            single = np.where(ca2 > 1.0, root / (1.0 - root) * (ca2 + scv) / (ca2 + 1.0), single)
            chance = np.where(ca2 > 1.0, root, chance)
            tail = np.where(ca2 > 1.0, 1.0 + (tail - 1.0) / np.maximum(ca2, 1.0), tail)
        wait = single * pooled * s / c
    return Wait(np.where(rho < 1.0, wait, np.inf), np.clip(chance * pooled, 0.0, 1.0), tail)


def _kraemer(rho: Array, ca2: Array, scv: Array) -> Array:
    scale = 3.0 * np.maximum(rho, 1e-12) * np.maximum(ca2 + scv, 1e-12)
    return np.asarray(np.exp(-2.0 * (1.0 - rho) * np.square(1.0 - ca2) / scale))


def _smooth_chance(rho: Array, ca2: Array, scv: Array) -> Array:
    """Part of arrivals that wait, cv below 1 (Kraemer and Langenbach-Belz as in Whitt's QNA, 1983, eq. 48-49)."""
    spread = np.square(rho) * (4.0 * ca2 + scv)
    h = (1.0 + ca2 + rho * scv) / (1.0 + rho * (scv - 1.0) + spread)
    return np.clip(rho + (ca2 - 1.0) * rho * (1.0 - rho) * h, 0.0, 1.0)


NEWTON_STEPS = 6


def _gamma_root(rho: Array, ca2: Array) -> Array:
    """Root in (0, 1) of sigma = (1 + (1 - sigma) ca2 / rho)^(-1 / ca2), by Newton steps from the left of it."""
    r = np.clip(rho, 1e-9, 1.0 - 1e-9)
    # The first iterate from 0 lies below the root, where the function is convex.
    left = np.asarray((1.0 + ca2 / r) ** (-1.0 / ca2))
    for _ in range(NEWTON_STEPS):
        inside = 1.0 + (1.0 - left) * ca2 / r
        value = inside ** (-1.0 / ca2)
        left = left + (value - left) / np.maximum(1.0 - value / (inside * r), 1e-12)
    return np.clip(left, r, 1.0 - 1e-12)


def delayed_scv(rho: ArrayLike, third_moment: ArrayLike) -> Array:
    """Squared CV of the waits above zero: 2 rho - 1 + 4 (1 - rho) d / 3, d = E[s] E[s^3] / E[s^2]^2.

    Exact for M/G/1 (second moment of Takacs); taken for other arrivals too, as in QNA (Whitt 1983, eq. 53).
    """
    r = np.minimum(np.asarray(rho, dtype=float), 1.0)
    return np.asarray(2.0 * r - 1.0 + 4.0 / 3.0 * (1.0 - r) * np.asarray(third_moment, dtype=float))


def erlang_b(slots: ArrayLike, load: ArrayLike) -> Array:
    """Part of Poisson arrivals that find all ``slots`` taken and leave; ``load`` = rate x mean time in a slot.

    a^K e^-a / Gamma(K + 1) / Q(K + 1, a): Erlang's formula continued to fractional K. It depends on the mean service
    time only (Sevastyanov 1957).
    """
    from scipy.special import gammaincc, gammaln

    k, a = np.asarray(slots, dtype=float), np.maximum(np.asarray(load, dtype=float), 1e-300)
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        found = np.exp(k * np.log(a) - a - gammaln(k + 1.0)) / gammaincc(k + 1.0, a)
    # far overloaded, where both parts vanish: 1 - K / a
    return np.clip(np.where(np.isfinite(found), found, np.maximum(1.0 - k / a, 0.0)), 0.0, 1.0)


def peaked_blocking(slots: ArrayLike, load: ArrayLike, peakedness: ArrayLike = 1.0) -> Array:
    """Erlang's B for arrivals whose number present would vary ``peakedness`` times Poisson: B(K / z, a / z)
    (Hayward's approximation; Fredericks 1980).
    """
    z = np.asarray(peakedness, dtype=float)
    return erlang_b(np.asarray(slots) / z, np.asarray(load) / z)


def erlang_c(slots: ArrayLike, load: ArrayLike) -> Array:
    """Part of Poisson arrivals that wait where nobody leaves: B / (1 - rho (1 - B)); 1 at rho >= 1."""
    rho = np.asarray(load, dtype=float) / np.asarray(slots, dtype=float)
    blocked = erlang_b(slots, load)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = blocked / (1.0 - rho * (1.0 - blocked))
    return np.where(rho < 1.0, np.minimum(found, 1.0), 1.0)


def priority_waits(rates: Sequence[ArrayLike], service_s: ArrayLike, second_moment: ArrayLike) -> list[Array]:
    """Mean wait of each class of non-preemptive M/G/1, highest priority first: W0 / ((1 - s_(k-1)) (1 - s_k)).

    W0 = rate E[s^2] / 2 over all classes and s_k the load of classes 1 to k (Cobham 1954). Infinite from the class on
    at which the load reaches 1.
    """
    if not rates:
        raise InputError("rates", rates, "at least one class")
    lam = [np.asarray(r, dtype=float) for r in rates]
    residual = 0.5 * sum(lam) * np.asarray(second_moment, dtype=float)
    waits, before = [], np.zeros(())
    for rate in lam:
        upto = before + rate * np.asarray(service_s, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            wait = residual / ((1.0 - before) * (1.0 - upto))
        waits.append(np.where(upto < 1.0, wait, np.inf))
        before = upto
    return waits

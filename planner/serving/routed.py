"""Workers of one stream that are kept equally full: what one of them sees of arrivals when its own steps are long.

A request goes to the worker that holds the fewest (join the shortest queue). Seen from one of N that makes arrivals
whose rate depends on its own state, the single-queue approximation of Gupta, Harchol-Balter, Sigman and Whitt
("Analysis of join-the-shortest-queue routing for web server farms", 2007). Few requests leave a worker while its steps
are long: it holds more than the others and gets fewer, as far as a difference has time to show.

Arrays broadcast over candidates; rates in 1/s, times in seconds, the rest are parts from 0 to 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Number = Array | float

BALANCE_POWER = 0.58
"""How the rate of balance grows with workers (:func:`balance_rps`)."""


def balance_rps(rate_rps: Number, workers: Number) -> Array:
    """Rate at which a difference in requests between ``workers`` that get ``rate_rps`` each goes back.

    Differences vary by v = Var(n - mean n) requests^2 while 2 rate (1 - 1 / N) come and leave apart from the mean: an
    Ornstein-Uhlenbeck process of rate (1 - 1 / N) rate / v. v = 1 / 2 for two workers, from the exact balance of their
    difference; (N / 2)^0.58 rate for more, within 4 % of v as stepped through for 3 to 8 of them.
    """
    return np.asarray(rate_rps * np.maximum(0.5 * np.asarray(workers), 1.0) ** BALANCE_POWER)


def apart(workers: Number, dispersion: Number, work_scv: Number) -> Array:
    """Part of the variance of the work that comes to a worker which is not that of all workers alike.

    (F + scv) / N of all alike, F the ``dispersion`` of the stream's counts and scv of a prompt's work, and
    (1 - 1 / N) (1 + scv) of one alone.
    """
    alone = (1.0 - 1.0 / workers) * (1.0 + work_scv)
    return np.asarray(alone / (alone + (dispersion + work_scv) / workers))


def left_in(mean_step_s: Number, step_s: Number, pause: NDArray[np.bool_] | bool) -> Array:
    """Requests that leave in a step of ``step_s`` over those of as much other time: as many as in a mean step, and
    none where decodes ``pause``."""
    part = np.minimum(mean_step_s / np.maximum(step_s, 1e-300), 1.0)
    return np.where(pause, 0.0, part)


def damping(workers: Number, balance: Number, lasting_s: Number, own: Number, used: Number, leaving: Number) -> Array:
    """Part of the arrivals that follow what leaves a worker instead of time; 0 for one worker.

    A difference of rates that is forgotten in ``lasting_s`` seconds shows to k T / (1 + k T) in arrivals that follow at
    rate k = ``balance``. It lowers the load rho = ``used`` that a queue of full steps sees, as far as requests leave in
    those (``leaving``, over those of as much other time). Queues that are not alike, ``own`` of the variance, then
    shrink by (1 - rho) / (1 - rho'), and the part found is that with which a single queue shrinks as much as the sum.
    """
    shown, rho = balance * lasting_s, np.minimum(used, 1.0 - 1e-9)
    still = np.maximum(1.0 - leaving, 1e-9)
    most = (1.0 - 1.0 / workers) * shown / (1.0 + shown)
    shrunk = 1.0 - own + own * (1.0 - rho) / (1.0 - rho * (1.0 - most * still))
    seen = 1.0 - (1.0 - rho) / shrunk
    found = np.clip((1.0 - seen / np.maximum(rho, 1e-9)) / still, 0.0, 1.0)
    return np.where(most > 0.0, found, 0.0)


def busy_rate(damped: Number, leaving: Number) -> Array:
    """Arrivals over those of as much other time in steps in which ``leaving`` (over the usual) leave."""
    return np.asarray(1.0 - damped * (1.0 - leaving))

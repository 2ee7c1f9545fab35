"""Disaggregated serving at an offered rate: prefill pool, KV transfer and decode pool in a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SplitTimes:
    """Means of a split deployment, arrays (n,)."""

    ttft_s: Array
    prefill_utilisation: Array


def split_at_rate(
    rate_rps: ArrayLike,
    prefill_servers: ArrayLike,
    prompt_s: ArrayLike,
    transfer_s: ArrayLike,
    request_s: ArrayLike,
    tpot_s: ArrayLike,
) -> SplitTimes:
    """TTFT of ``rate_rps`` requests per second through ``prefill_servers`` parallel prompts of ``prompt_s`` each.

    TTFT = wait + prompt + KV transfer + fixed request time + half a decode step until the decode scheduler looks. The
    wait is that of one queue in front of near-constant services, rho / (2 (1 - rho)) x prompt_s / servers
    (Pollaczek-Khinchine without service variance, spread over the servers); infinite at rho >= 1.
    """
    servers, prompt = np.asarray(prefill_servers, dtype=float), np.asarray(prompt_s, dtype=float)
    rho = np.asarray(rate_rps, dtype=float) * prompt / servers
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = np.where(rho < 1.0, rho / (2.0 * (1.0 - rho)) * prompt / servers, np.inf)
    ttft = wait + prompt + np.asarray(transfer_s) + np.asarray(request_s) + 0.5 * np.asarray(tpot_s)
    return SplitTimes(ttft, rho)

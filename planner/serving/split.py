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


def exposed_transfer(
    size_bytes: ArrayLike, bytes_per_s: ArrayLike, latency_s: ArrayLike, layers: ArrayLike, prompt_s: ArrayLike
) -> Array:
    """Seconds of a KV transfer that show when each layer is sent as soon as it is computed; all broadcast.

    The link works beside the layers that follow, so of the whole transfer T what exceeds the prompt's remaining layers
    shows, and at least the last layer: max(T - prompt (L - 1) / L, T / L) + latency.
    """
    whole = np.asarray(size_bytes, dtype=float) / np.asarray(bytes_per_s, dtype=float)
    count = np.asarray(layers, dtype=float)
    beside = np.asarray(prompt_s, dtype=float) * (count - 1.0) / count
    return np.asarray(np.maximum(whole - beside, whole / count) + np.asarray(latency_s, dtype=float))


@dataclass(frozen=True)
class LinkLoad:
    """A link that several prompts share, arrays (n,)."""

    utilisation: Array
    wait_s: Array
    """Mean wait for the link; infinite at full load."""


def shared_link(
    rate_rps: ArrayLike, size_bytes: ArrayLike, second_moment_ratio: ArrayLike, bytes_per_s: ArrayLike
) -> LinkLoad:
    """Contention of transfers on one link: M/G/1 with transfers one after the other.

    ``second_moment_ratio`` is E[x^2] / E[x]^2 of the prompt lengths (KV grows with them). Wait = rho / (1 - rho) x
    ratio / 2 x transfer (Pollaczek-Khinchine).
    """
    each = np.asarray(size_bytes, dtype=float) / np.asarray(bytes_per_s, dtype=float)
    rho = np.asarray(rate_rps, dtype=float) * each
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = 0.5 * rho / (1.0 - rho) * np.asarray(second_moment_ratio, dtype=float) * each
    return LinkLoad(rho, np.where(rho < 1.0, wait, np.inf))


def pool_ratio(
    prompt_s: ArrayLike,
    prefill_servers: ArrayLike,
    output_tokens: ArrayLike,
    tpot_s: ArrayLike,
    decode_slots: ArrayLike,
) -> Array:
    """Prefill workers for each decode worker when both are equally full: decode rate over prefill rate.

    A prefill worker passes servers / prompt_s requests per second, a decode worker slots / ((O - 1) TPOT).
    """
    prefill_rps = np.asarray(prefill_servers, dtype=float) / np.asarray(prompt_s, dtype=float)
    further = np.maximum(np.asarray(output_tokens, dtype=float) - 1.0, 1.0)
    decode_rps = np.asarray(decode_slots, dtype=float) / (further * np.asarray(tpot_s, dtype=float))
    return np.asarray(decode_rps / prefill_rps)

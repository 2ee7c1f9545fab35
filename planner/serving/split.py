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
    shows, and at least the last layer: max(T - prompt (L - 1) / L, T / L) + latency. One layer is a transfer after the
    prompt.
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
    rate_rps: ArrayLike, each_s: ArrayLike, second_moment_ratio: ArrayLike, together: ArrayLike = 1.0
) -> LinkLoad:
    """Contention of transfers of ``each_s`` seconds on one link, one after the other: M/G/1 with batches.

    ``together`` prompts are done in the same step (mean of their number as one of them sees it) and
    ``second_moment_ratio`` is E[x^2] / E[x]^2 of their lengths, KV growing with them. Mean wait = each x
    (rho ratio + together - 1) / (2 (1 - rho)) (Pollaczek-Khinchine; batches as in Cooper, "Introduction to Queueing
    Theory", 1981, section 5.10).
    """
    each = np.asarray(each_s, dtype=float)
    rho = np.asarray(rate_rps, dtype=float) * each
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = 0.5 * each * (rho * np.asarray(second_moment_ratio, dtype=float) + np.asarray(together) - 1.0)
        wait = wait / (1.0 - rho)
    return LinkLoad(rho, np.where(rho < 1.0, wait, np.inf))


@dataclass(frozen=True)
class KvMoves:
    """KV transfers of a split deployment, arrays (n,); seconds of a prompt of mean length."""

    exposed_s: Array
    """What shows of a transfer that finds its links free, latency included."""
    wait_s: Array
    """Mean wait for the sending and the receiving link."""
    whole_s: Array
    """The transfer itself, the slower end's."""
    send_utilisation: Array
    receive_utilisation: Array

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Where both links pass what they are given."""
        return np.asarray((self.send_utilisation < 1.0) & (self.receive_utilisation < 1.0))


def kv_moves(
    send_s: ArrayLike,
    receive_s: ArrayLike,
    latency_s: ArrayLike,
    layers: ArrayLike,
    step_s: ArrayLike,
    together: ArrayLike,
    send_rps: ArrayLike,
    receive_rps: ArrayLike,
    second_moment_ratio: ArrayLike,
) -> KvMoves:
    """Transfers from prefill to decode ranks; all broadcast.

    ``send_s`` and ``receive_s`` are the seconds that a prompt of mean length keeps a sending and a receiving rank's
    link busy; the slower of both sets the pace. ``together`` prompts of a rank end with the same step of ``step_s``.
    With ``layers`` above 1 each is sent while later ones are computed, so that the batch as a whole must fit beside the
    step; what shows is what does not, and the last layer.
    """
    send, receive = np.asarray(send_s, dtype=float), np.asarray(receive_s, dtype=float)
    whole, count = np.maximum(send, receive), np.asarray(layers, dtype=float)
    batch = np.asarray(together, dtype=float)
    out = shared_link(send_rps, send, second_moment_ratio, batch)
    into = shared_link(receive_rps, receive, second_moment_ratio)
    beside = exposed_transfer(whole * batch, 1.0, latency_s, count, step_s)
    overlapped = count > 1.0
    exposed = np.where(overlapped, beside, whole + np.asarray(latency_s, dtype=float))
    # what is spread over a step meets others on the receiving link only with its last layer
    wait = np.where(overlapped, into.wait_s / count, out.wait_s + into.wait_s)
    shape = np.broadcast(exposed, wait)
    given = (exposed, wait, whole, out.utilisation, into.utilisation)
    return KvMoves(*(np.broadcast_to(v, shape.shape) for v in given))

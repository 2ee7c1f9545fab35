"""Steady state of workers that keep a fixed number of requests in flight: means of TTFT, TPOT and throughput.

Notation of all functions: C requests in flight in a worker, R of them hold KV slots (R <= C), O output tokens, D
seconds of a decode step, M seconds of a step that also carries prompt tokens, ``chunks`` such steps per prompt, ``g``
prompts sharing one such step. Arrays broadcast; seconds and requests per second. Derivation in
docs/reference/serving.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LoopTimes:
    """Means of a closed loop, arrays of shape (n,)."""

    ttft_s: Array
    tpot_s: Array
    throughput_rps: Array
    """Requests per second of one worker."""
    prefill_utilisation: Array
    """Part of time in which a prompt is being processed (0 to 1)."""


def aggregated(
    concurrency: ArrayLike,
    slots: ArrayLike,
    output_tokens: ArrayLike,
    decode_step_s: ArrayLike,
    prefill_step_s: ArrayLike,
    chunks: ArrayLike,
    prompts_per_step: ArrayLike,
    decodes_pause: ArrayLike,
    request_s: ArrayLike = 0.0,
    first_wave_share: ArrayLike = 0.0,
) -> LoopTimes:
    """Prefill and decode share the worker.

    While a request decodes its O - 1 further tokens, the R requests of the worker each need a prompt processed. Where
    decodes pause (prefill-first schedulers) every prefill step adds all of M to them; where prompts ride along (mixed
    schedulers) it adds M - D, and no more than one per decode step can. TPOT = D + (prefill steps per decode step) x
    (time added).

    TTFT of a steady request is its own prompt, half a step until the scheduler looks, the prompts ahead of it (a
    single server with near-constant service: rho / (2 (1 - rho)) services, Pollaczek-Khinchine with no service
    variance) and, where C > R, the wait for a slot. ``first_wave_share`` of requests instead arrive together at the
    start, as closed-loop benchmarks do, and wait for half of the wave.
    """
    c, r = _array(concurrency), np.minimum(_array(concurrency), _array(slots))
    out = np.maximum(_array(output_tokens) - 1.0, 1.0)
    d, m, k, g = (_array(v) for v in (decode_step_s, prefill_step_s, chunks, prompts_per_step))
    pause = np.asarray(decodes_pause, dtype=bool)
    prompt_s = k * m
    per_decode_step = r * k / (out * g)
    added = np.where(pause, per_decode_step * m, np.minimum(per_decode_step, 1.0) * np.maximum(m - d, 0.0))
    tpot = d + added
    own = prompt_s + _array(request_s) + 0.5 * np.where(pause, d, tpot)
    capacity = g / prompt_s
    unqueued = r / (own + out * tpot)
    rho = np.minimum(unqueued / capacity, 1.0)
    queue = np.minimum(rho / np.maximum(2.0 * (1.0 - rho), 1e-9), 0.5 * r / g) * prompt_s
    throughput = np.minimum(r / (own + queue + out * tpot), capacity)
    steady = c / throughput - out * tpot
    share = _array(first_wave_share)
    wave = 0.5 * (c / g + 1.0) * prompt_s + _array(request_s)
    ttft = (1.0 - share) * steady + share * np.maximum(wave, own)
    return LoopTimes(ttft, tpot, throughput, np.minimum(throughput / capacity, 1.0))


def disaggregated(
    concurrency: ArrayLike,
    decode_slots: ArrayLike,
    output_tokens: ArrayLike,
    decode_step_s: ArrayLike,
    prefill_step_s: ArrayLike,
    chunks: ArrayLike,
    prefill_servers: ArrayLike,
    transfer_s: ArrayLike,
    request_s: ArrayLike = 0.0,
    first_wave_share: ArrayLike = 0.0,
) -> LoopTimes:
    """Separate pools, seen from the whole deployment: C requests in flight, ``prefill_servers`` prompts processed at
    once.

    Decode is not disturbed (TPOT = D). The prefill pool is one queue of several servers; a closed loop can hold at
    most its own requests there, so throughput is the smaller of what the decode slots and the prefill pool can pass.
    """
    c = _array(concurrency)
    out = np.maximum(_array(output_tokens) - 1.0, 1.0)
    tpot = _array(decode_step_s) + 0.0 * c
    prompt_s = _array(chunks) * _array(prefill_step_s)
    servers = _array(prefill_servers)
    capacity = servers / prompt_s
    own = prompt_s + _array(transfer_s) + _array(request_s) + 0.5 * tpot
    decoding = np.minimum(c, _array(decode_slots))
    unqueued = np.minimum(c / (own + out * tpot), decoding / (out * tpot))
    rho = np.minimum(unqueued / capacity, 1.0)
    queue = np.minimum(rho / np.maximum(2.0 * (1.0 - rho), 1e-9), 0.5 * c / servers) * prompt_s / servers
    throughput = np.minimum(np.minimum(c / (own + queue + out * tpot), decoding / (out * tpot)), capacity)
    steady = c / throughput - out * tpot
    share = _array(first_wave_share)
    wave = 0.5 * (c / servers + 1.0) * prompt_s + own - prompt_s
    ttft = (1.0 - share) * steady + share * np.maximum(wave, own)
    return LoopTimes(ttft, tpot, throughput, np.minimum(throughput / capacity, 1.0))


def _array(value: ArrayLike) -> Array:
    return np.asarray(value, dtype=float)

"""Steady state of workers that keep a fixed number of requests in flight: means of TTFT, TPOT and throughput.

Notation of all functions: C requests in flight in a worker, R of them hold KV slots (R <= C), O output tokens, D
seconds of a decode step, M seconds of a step that also carries prompt tokens, ``chunks`` such steps per prompt, ``g``
prompts sharing one such step. Arrays broadcast; seconds and requests per second. Derivation in
docs/reference/serving.md; the discrete-step replay is the check.
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
    *,
    group_prompts: ArrayLike | None = None,
    most_prompts: ArrayLike | None = None,
    poll_steps: ArrayLike = 1.0,
    wave_step_s: ArrayLike | None = None,
) -> LoopTimes:
    """Prefill and decode share the worker.

    In one cycle of a request (its prompt and its O - 1 further tokens) each of the R requests has its prompt processed
    once. A prefill step adds all of M to the others where decodes pause (prefill-first schedulers) and M - D where
    prompts ride along (mixed schedulers; at most one such step per decode step). So

        TPOT = D + (R - own) w / (O - 1),   w = seconds added per prompt,

    where ``own`` prompts are processed before the request's own first token. TTFT of a steady request is the wait until
    the scheduler looks (half of ``poll_steps`` decode steps and the half under way), then the steps of its group:
    ``group_prompts`` that are seen together, ``prompts_per_step`` of them to a step, mean position in between; where
    C > R, also the wait for a slot, by Little's law C = X (TTFT + (O - 1) TPOT).

    ``most_prompts`` is what one step's token budget holds (default: ``prompts_per_step``); ``first_wave_share`` of the
    requests arrive together at the start, as closed-loop benchmarks do, and pass in full steps of ``wave_step_s``
    (default: M scaled to a full step). They and the last ones of a run see only half of the others' prompts.
    """
    c, r = _array(concurrency), np.minimum(_array(concurrency), _array(slots))
    out = np.maximum(_array(output_tokens) - 1.0, 1.0)
    d, m, k, g = (_array(v) for v in (decode_step_s, prefill_step_s, chunks, prompts_per_step))
    most = g if most_prompts is None else np.maximum(_array(most_prompts), g)
    group = g if group_prompts is None else np.maximum(_array(group_prompts), g)
    pause = np.asarray(decodes_pause, dtype=bool)
    share = _array(first_wave_share)

    riding = np.where(pause, 0.0, d)
    added = np.maximum(m - riding, 0.0)
    fullest = added * (most / g)
    position = 0.5 * (group / g + 1.0)
    per_token = np.maximum(r - g * position, 0.0) * (k / g) * added / out
    capacity = np.where(pause, np.inf, most / (k * np.maximum(riding + fullest, 1e-12)))
    per_token = np.where(pause, per_token, np.minimum(per_token, fullest))
    tpot = d + per_token
    own = position * k * m + (0.5 + 0.5 * _array(poll_steps)) * d + _array(request_s)
    throughput = np.minimum(r / (own + out * tpot), capacity)
    steady = c / throughput - out * tpot

    full_step = riding + fullest if wave_step_s is None else _array(wave_step_s)
    admitted = 0.5 * (r / most + 1.0) * k * full_step + _array(request_s)
    wave = np.where(c > r, (r * admitted + (c - r) * (0.5 * (c - r) / throughput + steady)) / c, admitted)
    ttft = (1.0 - share) * steady + share * np.maximum(wave, own)
    busy = throughput * k * m / g
    return LoopTimes(ttft, d + (1.0 - share) * per_token, throughput, np.minimum(busy, 1.0))


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

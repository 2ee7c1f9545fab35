"""Percentiles in a closed loop: the means of :mod:`planner.serving.closed_loop`, spread as far as the loop lets them.

A closed loop keeps its requests: occupancy does not vary and no burst arrives. What varies is the length of prompts and
outputs, the place in the group of prompts that a request comes back with, and which gaps prompts interrupt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.serving.closed_loop import LoopTimes
from planner.serving.latency import EVERYTHING, LoadResult, spread_of
from planner.serving.open_loop import Flow, WorkerLoad, work_moments
from planner.serving.quantiles import Part, waiting_part
from planner.serving.queues import Wait
from planner.serving.ttft import own_prompt_part

Array = NDArray[np.float64]


def closed_percentiles(
    load: WorkerLoad,
    loop: LoopTimes,
    concurrency: Array,
    wanted: Mapping[str, Sequence[str]] = EVERYTHING,
) -> LoadResult:
    """Latencies of a worker with ``concurrency`` requests in flight; ``load.rate_rps`` is not used.

    TTFT: its mean less one's own prompt is waiting, taken as exponential where prompts queue one by one; the prompt
    varies with its length. TPOT: the chance number of prompts beside a request, a compound of Poisson variance. TBT:
    the part f of gaps that prompts prolong, at a decode step of constant length.
    """
    held = np.minimum(concurrency, load.slots)
    rate = loop.throughput_rps
    open_like = load.at_rate(rate, np.zeros(1))
    second, _ = work_moments(load)
    pause = load.decodes_pause
    decode = np.minimum(load.decode_step_s, loop.tpot_s)
    alone = np.maximum(load.prefill_step_s - np.where(pause, 0.0, load.decode_step_s), 1e-12)
    share = np.clip(1.0 - decode / loop.tpot_s, 0.0, 1.0 - 1e-9)
    batch = np.maximum(load.prompts_per_step, 1.0)
    often = rate * load.chunks / batch
    mixed = np.minimum(often * loop.tpot_s, 1.0)
    paused = -np.expm1(-often * decode / (1.0 - share))
    part = np.clip(np.where(pause, paused, mixed), 1e-12, 1.0)
    work = load.chunks * alone / np.maximum(load.prompts_per_step / load.lanes, 1.0)
    own = work + np.where(pause, 0.0, decode * np.maximum(load.chunks, 1.0))
    zero = np.zeros(np.broadcast(rate, own).shape)
    f = Flow(
        occupancy=held + zero,
        occupancy_variance=zero,
        residence_s=held / rate,
        tpot_s=loop.tpot_s + zero,
        decode_s=decode + zero,
        feedback=zero,
        prefill_share=share + zero,
        batch=batch + zero,
        counted=np.maximum(batch / load.lanes, 1.0) + zero,
        counted_several=np.where(load.lanes > batch, 1.0, np.maximum(batch / load.lanes, 2.0)) + zero,
        counted_each=1.0 + zero,
        alone=1.0 / batch + zero,
        added_s=alone + zero,
        interrupted=part + zero,
        interruption_s=share * decode / ((1.0 - share) * part) + zero,
        after_own_s=zero,
        fixed_s=zero,
        prompt_work_s=work + zero,
        own_prompt_s=own + zero,
        steps_per_prompt=load.chunks + zero,
        full_step_s=zero,
        utilisation=loop.prefill_utilisation + zero,
        backlog=Wait(zero, zero, zero + 1.0),
        dispersion=zero + 1.0,
        first_gaps=zero,
        slots=load.slots + zero,
        relaxation_tokens=zero + 1.0,
        damped=zero,
        apart=zero + 1.0,
        stable=np.isfinite(loop.tpot_s) & np.isfinite(loop.ttft_s),
    )
    waited = np.maximum(loop.ttft_s - load.request_s - own, 0.0)
    wait = waiting_part(waited + zero, np.ones(1), np.ones(1))
    prompt = own_prompt_part(open_like, f, second)
    rest = Part(prompt.mean + np.minimum(loop.ttft_s - load.request_s - own, 0.0), prompt.variance, prompt.quantile)
    return spread_of(open_like, f, [wait, rest], [wait], wanted, zero)

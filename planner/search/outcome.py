"""From steady state to money and energy: what a deployment as a whole delivers and takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.economics.cost import token_cost
from planner.economics.energy import energy, power_model
from planner.search.loaded import good_part
from planner.search.setup import Setup
from planner.search.standing import gpus_paid, rent_per_hour
from planner.search.table import Outcome, Workers
from planner.serving.latency import METRICS, LoadResult

Array = NDArray[np.float64]

DECODE_ACTIVITY, PREFILL_ACTIVITY = 0.5, 1.0
"""How hard a step works a GPU (planner.economics.energy.activity): prompts saturate it, decode mostly streams."""


def outcome_of(
    s: Setup,
    decode: Workers,
    prefill: Workers | None,
    result: LoadResult,
    worker_rps: Array,
    prefill_busy: Array | None = None,
) -> Outcome:
    """Latencies, goodput, cost and energy of deployments; all arrays (n,).

    They pass the offered rate, or in a closed loop ``worker_rps`` requests per second for each decode worker.
    A worker runs steps while it holds a request (:func:`busy_part`), and always in a closed loop.

    Rent is paid for whole nodes and for spare ones. Prefill's share of the cost is its share of busy time, or its
    pool's share of the rent where the pools are separate (:func:`planner.search.standing.gpus_paid`).
    """
    pools = [decode] if prefill is None else [prefill, decode]
    billed = gpus_paid(s, pools)
    rents = [gpus * pool.hardware.usd_per_gpu_hour for gpus, pool in zip(billed, pools, strict=True)]
    hourly = rent_per_hour(s, pools)
    flow = result.flow
    closed = s.rate_rps is None
    throughput = decode.count * worker_rps if closed else np.full(len(decode), float(s.rate_rps or np.nan))
    utilisation = np.ones(len(decode)) if closed else busy_part(result)
    prompts = np.clip(flow.prefill_share if prefill_busy is None else prefill_busy, 0.0, 1.0)
    share = prompts if prefill is None else _rent_share(billed, rents)
    inputs = throughput * float(s.traffic.input_tokens)
    outputs = throughput * float(s.traffic.output_tokens)
    cost = token_cost(hourly, inputs, outputs, np.nan_to_num(share))
    watts = np.zeros(len(decode))
    for pool, gpus in zip(pools, gpus_paid(s, pools, spares=False), strict=True):
        work = (
            share * PREFILL_ACTIVITY + (1.0 - share) * DECODE_ACTIVITY
            if prefill is None
            else (PREFILL_ACTIVITY if pool is prefill else DECODE_ACTIVITY)
        )
        busy = prompts if pool is prefill else utilisation
        watts = watts + energy(gpus, busy, work, inputs, outputs, pool.hardware.power, power_model()).average_w
    return Outcome(
        latency={(m, level): v for m in METRICS for level, v in getattr(result, m).items()},
        throughput_rps=throughput,
        goodput_rps=throughput * good_part(s, result),
        rejection=result.rejection,
        stable=result.stable,
        reached_rps=throughput / np.clip(np.nan_to_num(pressure(result), nan=1e9), 1e-9, 1e9),
        prefill_share=share,
        utilisation=utilisation,
        prefill_utilisation=prompts,
        usd_per_hour=hourly,
        usd_per_mtok_input=cost.input,
        usd_per_mtok_output=cost.output_only,
        joules_per_token=watts / np.maximum(outputs, 1e-30),
        limit_share=_limit_share(s, result),
    )


def _limit_share(s: Setup, result: LoadResult) -> Array:
    shares = [result.get(m, level) / limit for m, levels in s.limits_s.items() for level, limit in levels.items()]
    return np.max(np.stack(shares), axis=0) if shares else np.zeros(result.stable.shape)


def busy_part(result: LoadResult) -> Array:
    """Part of the time in which a worker holds a request, 1 - exp(-occupancy); 1 where it is not stable."""
    return np.asarray(-np.expm1(-np.where(result.stable, result.flow.occupancy, np.inf)))


def pressure(result: LoadResult) -> Array:
    """Load over what keeps a worker stable: its prompts, its own feedback on decode steps, its KV slots (1 is full)."""
    flow = result.flow
    return np.maximum(np.maximum(flow.utilisation, flow.feedback), flow.occupancy / np.maximum(flow.slots, 1e-9))


def _rent_share(billed: Sequence[Array], rents: Sequence[Array]) -> Array:
    """Part of the rent that the first pool takes; of the GPUs billed where they cost nothing."""
    hourly = np.asarray(sum(rents))
    free = hourly == 0
    return np.asarray(np.where(free, billed[0] / sum(billed), rents[0] / np.where(free, 1.0, hourly)))

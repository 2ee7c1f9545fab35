"""From steady state to money and energy: what a deployment as a whole delivers and takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.economics.cost import token_cost
from planner.economics.energy import energy, power_model
from planner.search.setup import Setup
from planner.search.table import Outcome, Workers
from planner.serving.closed_loop import LoopTimes

Array = NDArray[np.float64]

DECODE_ACTIVITY, PREFILL_ACTIVITY = 0.5, 1.0
"""How hard a step works a GPU (planner.economics.energy.activity): prompts saturate it, decode mostly streams."""


def outcome_of(
    s: Setup, decode: Workers, prefill: Workers | None, loop: LoopTimes, throughput: Array, utilisation: Array
) -> Outcome:
    """Cost and energy of deployments that pass ``throughput`` requests per second; all arrays (n,).

    Rent is paid for whole nodes and for spare ones. Prefill's share of the cost is its share of busy time, or its
    pool's share of the rent where the pools are separate.
    """
    pools = [decode] if prefill is None else [prefill, decode]
    rents = [_rent(s, pool) for pool in pools]
    hourly = np.asarray(sum(rents))
    share = loop.prefill_utilisation if prefill is None else rents[0] / hourly
    inputs = throughput * float(s.traffic.input_tokens)
    outputs = throughput * float(s.traffic.output_tokens)
    cost = token_cost(hourly, inputs, outputs, np.nan_to_num(share))
    watts = np.zeros(len(decode))
    for pool in pools:
        hw = pool.hardware
        gpus = pool.nodes * hw.gpus_per_node
        work = (
            share * PREFILL_ACTIVITY + (1.0 - share) * DECODE_ACTIVITY
            if prefill is None
            else (PREFILL_ACTIVITY if pool is prefill else DECODE_ACTIVITY)
        )
        watts = watts + energy(gpus, utilisation, work, inputs, outputs, hw.power, power_model()).average_w
    return Outcome(
        ttft_s=loop.ttft_s,
        tpot_s=loop.tpot_s,
        throughput_rps=throughput,
        prefill_share=share,
        utilisation=utilisation,
        prefill_utilisation=loop.prefill_utilisation,
        usd_per_hour=hourly,
        usd_per_mtok_input=cost.input,
        usd_per_mtok_output=cost.output_only,
        joules_per_token=watts / np.maximum(outputs, 1e-30),
    )


def _rent(s: Setup, pool: Workers) -> Array:
    nodes = pool.nodes + s.scenario.reliability.spare_nodes
    return np.asarray(nodes * pool.hardware.gpus_per_node * pool.hardware.usd_per_gpu_hour, dtype=float)

"""Workers on hosts: how many hosts a worker's ranks lie evenly on, and what of a node of several hosts that takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.layout.layouts import Layouts

IntArray = NDArray[np.int64]


def even_hosts(layouts: Layouts, host: int, engine: str) -> IntArray:
    """Fewest hosts of ``host`` GPUs on which a worker's ranks lie evenly, (n,), as every engine asks of a multi-node
    worker.

    vLLM starts whole data-parallel ranks on a host, or a rank on whole hosts (vllm/config/parallel.py
    nnodes_within_dp); SGLang whole pipeline stages on a host, or a stage on whole hosts
    (sglang/srt/entrypoints/engine.py _calculate_rank_ranges).
    """
    gpus, one = layouts.gpus, np.ones(len(layouts), dtype=np.int64)
    unit = {"vllm": layouts.tp * layouts.pp, "sglang": layouts.tp * layouts.attention_dp}.get(engine, one)
    hosts = -(-gpus // host)
    while True:
        each = gpus // hosts
        uneven = (gpus % hosts != 0) | ((each % unit != 0) & (unit % each != 0))
        if not uneven.any():
            return hosts
        hosts = hosts + uneven


def footprint(layouts: Layouts, host: int, per_node: int, engine: str) -> IntArray:
    """GPUs of a node of ``per_node`` that a worker keeps from others, (n,): its own and, where a node has several hosts
    of ``host`` GPUs, those of its hosts on which no other worker has room.
    """
    gpus = layouts.gpus
    if host >= per_node:
        return gpus
    small = host // np.maximum(host // gpus, 1)
    return np.where(gpus <= host, small, even_hosts(layouts, host, engine) * host)

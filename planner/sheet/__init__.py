"""Functions for spreadsheet cells and notebooks: plain arguments in, plain numbers or tables out.

Every function names its unit. Models, nodes and accelerators are ids of the catalogue (``planner catalog``); a model
may also be a path to a config.json. Layout arguments (``tp``, ``pp``, ``attention_dp``, ``ep``, ``moe_tp``) describe
one worker as in the plan. Functions of one number raise :class:`planner.InputError` for a bad argument, and
:class:`planner.InfeasibleError` where nothing fits; tables hold such a message in the row's own ``message`` column.
"""

from __future__ import annotations

from planner.sheet.cells import (
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    max_concurrency,
    min_gpus,
    tpot_ms,
    ttft_ms,
    usd_per_mtok,
    weights_gib,
)
from planner.sheet.table import candidates_table, plan_table

__all__ = [
    "candidates_table",
    "kv_bytes_per_sequence",
    "kv_bytes_per_token",
    "max_concurrency",
    "min_gpus",
    "plan_table",
    "tpot_ms",
    "ttft_ms",
    "usd_per_mtok",
    "weights_gib",
]

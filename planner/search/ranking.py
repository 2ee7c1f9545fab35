"""Order of feasible candidates by the chosen objective, the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError, UnknownNameError
from planner.search.pareto import Direction

IntArray = NDArray[np.int64]

SIGNIFICANT_DIGITS = 9
"""Values that agree to this many digits are equal: the order must not hang on the last bit of a sum."""


@dataclass(frozen=True)
class Objective:
    """What a scenario may ask for."""

    name: str
    column: str
    direction: Direction
    text: str


OBJECTIVES: dict[str, Objective] = {
    o.name: o
    for o in (
        Objective("lowest_cost", "usd_per_mtok", "min", "lowest cost per million output tokens"),
        Objective("fewest_gpus", "gpus", "min", "fewest GPUs"),
        Objective(
            "highest_goodput", "goodput_rps", "max", "most requests per second and GPU in use that meet every limit"
        ),
        Objective("lowest_energy", "joules_per_token", "min", "lowest energy per output token"),
        Objective("lowest_ttft", "ttft_s", "min", "shortest time to first token"),
        Objective("lowest_tbt", "tbt_s", "min", "shortest time between tokens"),
    )
}
TIE_BREAKERS: tuple[tuple[str, Direction], ...] = (
    ("usd_per_mtok", "min"),
    ("gpus", "min"),
    ("tbt_s", "min"),
    ("ttft_s", "min"),
    ("goodput_rps", "max"),
    ("worker_gpus", "min"),
    ("pp", "min"),
    ("ep", "min"),
    ("attention_dp", "min"),
    ("tp", "min"),
    ("concurrency", "max"),
)
"""Columns that decide between equals, in this order, as far as they are there; last the position itself."""
AT_THE_SAME_COST = ("limit_share", "tbt_s", "ttft_s")
"""What decides first at the same known cost: nodes are paid for whole, so how many of their GPUs are used matters less
than the room to the limits, and where that is the same (or nothing is limited) than the times."""


def objective(name: str) -> Objective:
    """The objective of that name. Raises UnknownNameError."""
    if name not in OBJECTIVES:
        raise UnknownNameError("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def rank(columns: Mapping[str, ArrayLike], name: str, feasible: ArrayLike | None = None) -> IntArray:
    """Positions of the feasible candidates, best first, (m,).

    ``columns``: arrays (n,) by name; the objective's column is required, the tie-breakers are used as far
    as they are present. A candidate whose objective is NaN (a price or power that is not known) comes
    last, in tie-break order.
    """
    wanted = objective(name)
    if wanted.column not in columns:
        raise InputError("objective", name, f"needs the column {wanted.column}")
    count = np.asarray(columns[wanted.column]).shape[0]
    keep = np.arange(count) if feasible is None else np.flatnonzero(np.asarray(feasible, dtype=bool))
    keys = [(wanted.column, wanted.direction), *(t for t in TIE_BREAKERS if t[0] in columns and t[0] != wanted.column)]
    sortable = []
    for column, direction in keys:
        sortable.append(_key(columns[column], direction)[keep])
        if column == "usd_per_mtok":
            cost = np.asarray(columns[column], dtype=float)[keep]
            paid = np.isfinite(cost) & (cost > 0.0)
            sortable += [
                np.where(paid, _key(columns[name], "min")[keep], 0.0) for name in AT_THE_SAME_COST if name in columns
            ]
    return keep[np.lexsort((keep, *sortable[::-1]))].astype(np.int64)


def _key(values: ArrayLike, direction: Direction) -> NDArray[np.float64]:
    """Smaller is better, NaN last, noise of the last digits removed."""
    signed = np.asarray(values, dtype=np.float64) * (1.0 if direction == "min" else -1.0)
    rounded = round_significant(signed)
    return np.where(np.isnan(rounded), np.inf, rounded)


def round_significant(values: NDArray[Any], digits: int = SIGNIFICANT_DIGITS) -> NDArray[np.float64]:
    """``values`` rounded to a number of significant digits; 0, infinities and NaN stay."""
    fixed = np.isfinite(values) & (values != 0)
    safe = np.where(fixed, values, 1.0)
    scale = 10.0 ** (np.floor(np.log10(np.abs(safe))) - digits + 1)
    return np.where(fixed, np.round(safe / scale) * scale, values)

"""Layouts of runs as tables state them: what is left out is 1, moe_tp what the others leave to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.catalog.model_spec import ModelSpec, MoeFeedForward
from planner.errors import InputError
from planner.evidence.runs import LAYOUT, Runs
from planner.layout.layouts import Layouts
from planner.layout.legality import require_possible


def run_layouts(runs: Runs, rows: Sequence[int] | NDArray[np.int64], pool: str, spec: ModelSpec) -> Layouts:
    """Layouts of the runs at ``rows`` in a pool ('', 'prefill_', 'decode_'), (n,).

    A model without experts has no moe_tp and ep. Raises InputError where the columns contradict each other.
    """
    index = np.asarray(rows, dtype=np.int64)
    given = {name: runs[f"{pool}{name}"][index] for name in LAYOUT}
    known = {name: np.where(values >= 1, values, 1).astype(np.int64) for name, values in given.items()}
    if not any(isinstance(f, MoeFeedForward) for f in spec.feed_forwards.values()):
        if np.any(known["ep"] > 1):
            raise InputError(f"{pool}ep", int(known["ep"].max()), f"1: {spec.name} has no experts")
        return Layouts.of(**{name: known[name] for name in ("tp", "pp", "attention_dp")})
    stage = known["tp"] * known["attention_dp"]
    open_ = ~(given["moe_tp"] >= 1)
    uneven = open_ & (stage % known["ep"] != 0)
    if uneven.any():
        i = int(np.argmax(uneven))
        raise InputError(f"{pool}ep", int(known["ep"][i]), f"a divisor of tp * attention_dp = {int(stage[i])}")
    known["moe_tp"] = np.where(open_, stage // known["ep"], known["moe_tp"])
    return Layouts.of(**known)


def impossible_layouts(
    runs: Runs, rows: Sequence[int], pools: Sequence[str], spec: ModelSpec, engine: str
) -> dict[int, str]:
    """Rows whose layout contradicts itself or the model's shape, with the reason; each layout is looked at once."""
    reasons: dict[tuple[float, ...], str] = {}
    found: dict[int, str] = {}
    for row in rows:
        for pool in pools:
            key = tuple(-1.0 if np.isnan(v) else v for v in (runs[f"{pool}{name}"][row] for name in LAYOUT))
            if key not in reasons:
                try:
                    require_possible(spec, run_layouts(runs, [row], pool, spec), engine)
                    reasons[key] = ""
                except InputError as error:
                    reasons[key] = str(error)
            if reasons[key]:
                found.setdefault(row, reasons[key])
    return found

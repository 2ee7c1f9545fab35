"""What a chosen deployment carries within every limit: its workers with their steps at the occupancy of that rate."""

from __future__ import annotations

import numpy as np

from planner.economics.sizing import most_carried
from planner.search.fleet import Fleet
from planner.search.refining import refine
from planner.search.settling import at_own_steps
from planner.search.setup import Setup, with_rate
from planner.search.table import Deployments

FIRST = np.zeros(1, dtype=np.int64)
CARRY_ROUNDS, CARRY_CLOSE = 8, 0.005
"""Evaluations of a deployment at the rate that it was found to carry, and the relative change at which they end."""


def carried(fleet: Fleet) -> float | None:
    """Highest rate of a fleet within every limit, from steps at the occupancy of that very rate; at least the planned
    one; None in a closed loop and where nothing limits it."""
    planned = fleet.s.rate_rps
    if planned is None:
        return None
    rate = float(planned)
    for _ in range(CARRY_ROUNDS):
        found = most_carried(fleet.replicas, rate, fleet.holds)
        settled = abs(found / rate - 1.0) < CARRY_CLOSE
        rate = found
        if not np.isfinite(found) or settled or fleet.row.prefill is not None:
            break
        fleet = Fleet(*at_rate(fleet.s, fleet.row, rate))
    return max(rate, float(planned)) if np.isfinite(rate) else None


def at_rate(s: Setup, row: Deployments, rate_rps: float) -> tuple[Setup, Deployments]:
    """The scenario at ``rate_rps`` and a table of one aggregated row with its load, evaluated anew as a plan does:
    steps at the occupancy of that rate, one by one where their chain applies.

    The occupancy to begin with follows the slope of the step times from where ``row`` was evaluated.
    """
    assert row.loaded is not None
    there = with_rate(s, rate_rps)
    found = at_own_steps(there, row.decode, row.loaded.worker)
    return there, refine(there, found, FIRST) if found.outcome.stable[0] else found

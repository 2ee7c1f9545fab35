"""Slots that run out, beside workers that never come to rest."""

from __future__ import annotations

import numpy as np
from serving.loads import load

from planner.serving.open_loop import flow
from planner.serving.slots import rejection, slot_part


def test_a_worker_without_a_steady_state_leaves_the_others_alone() -> None:
    """Occupancy and its variance are infinite there; what others are told must not pass through that."""
    one = load([6.0, 8.0, 60.0], slots=60.0)
    f = flow(one)
    assert np.isfinite(f.occupancy).tolist() == [True, True, False]
    with np.errstate(all="raise"):
        refused, wait = rejection(one, f), slot_part(one, f)
    assert 0.0 < refused[0] < refused[1] < refused[2] == 1.0
    assert wait.chance is not None
    assert 0.0 < wait.chance[0] < wait.chance[1]

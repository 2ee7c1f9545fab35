"""N + k for GPUs, nodes and racks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.economics.headroom import Domains, slo_availability, spare_workers
from planner.errors import InputError

SMALL = Domains(worker_gpus=2, node_gpus=8, rack_gpus=32)
LARGE = Domains(worker_gpus=16, node_gpus=8, rack_gpus=32)


def test_what_a_failure_takes_down() -> None:
    assert [SMALL.lost_workers(f) for f in ("gpu", "node", "rack")] == [1, 4, 16]
    assert [LARGE.lost_workers(f) for f in ("gpu", "node", "rack")] == [1, 1, 2]


def test_workers_added() -> None:
    assert spare_workers(np.array([5, 10]), np.array([5, 10]), SMALL.lost_workers("node")).tolist() == [4, 4]
    assert spare_workers(5, 5, LARGE.lost_workers("gpu"), 2) == 2
    assert spare_workers(np.array([3, 30]), np.array([3, 30]), SMALL.lost_workers("rack")).tolist() == [3, 16]
    assert spare_workers(np.array([8, 5]), np.array([9, 9]), SMALL.lost_workers("node")).tolist() == [
        3,
        0,
    ]  # some are spare already
    with pytest.raises(InputError):
        spare_workers(5, 5, SMALL.lost_workers("node"), -1)
    with pytest.raises(InputError):
        Domains(8, 8, 4)


@settings(deadline=None)
@given(needed=st.integers(1, 30), spare=st.integers(0, 5), down=st.floats(1e-4, 0.2))
def test_a_spare_never_lowers_availability(needed: int, spare: int, down: float) -> None:
    here = slo_availability(needed + spare, needed, down)
    assert 0 <= here <= 1
    assert slo_availability(needed + spare + 1, needed, down) >= here - 1e-12


def test_availability_without_spares_is_all_up() -> None:
    assert slo_availability(3, 3, 0.1) == pytest.approx(0.9**3)
    assert slo_availability(2, 3, 0.1) == 0.0

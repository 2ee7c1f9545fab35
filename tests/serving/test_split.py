"""Transfers, links and pools of a disaggregated deployment."""

from __future__ import annotations

import numpy as np
import pytest

from planner.serving.split import exposed_transfer, pool_ratio, shared_link, split_at_rate


def test_a_transfer_hides_behind_the_layers_that_follow() -> None:
    assert exposed_transfer(1e9, 50e9, 0.0, 10, 1.0) == pytest.approx(0.002)  # the last layer
    assert exposed_transfer(50e9, 50e9, 1e-3, 10, 0.5) == pytest.approx(1.0 - 0.45 + 1e-3)
    assert exposed_transfer(1e9, 50e9, 0.0, 1, 1.0) == pytest.approx(0.02)  # nothing to hide behind


def test_a_busy_link_makes_transfers_wait() -> None:
    found = shared_link(np.array([1.0, 10.0, 40.0, 60.0]), 1e9, 1.0, 50e9)
    assert np.all(np.diff(found.wait_s) > 0)
    assert found.wait_s[1] == pytest.approx(0.2 / 0.8 / 2 * 0.02)
    assert np.isinf(found.wait_s[3])


def test_pools_are_equally_full_at_their_ratio() -> None:
    ratio = pool_ratio(0.2, 4.0, 201.0, 0.02, 100.0)
    assert ratio * 4.0 / 0.2 == pytest.approx(100.0 / (200 * 0.02))


def test_the_prefill_queue_diverges() -> None:
    times = split_at_rate(np.array([1.0, 9.0, 10.0]), 2.0, 0.2, 0.01, 0.0, 0.02)
    assert times.ttft_s[0] < times.ttft_s[1]
    assert np.isinf(times.ttft_s[2])

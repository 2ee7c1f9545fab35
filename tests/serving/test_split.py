"""Transfers, links and pools of a disaggregated deployment."""

from __future__ import annotations

import numpy as np
import pytest

from planner.serving.split import exposed_transfer, kv_moves, shared_link, split_at_rate


def test_a_transfer_hides_behind_the_layers_that_follow() -> None:
    assert exposed_transfer(1e9, 50e9, 0.0, 10, 1.0) == pytest.approx(0.002)  # the last layer
    assert exposed_transfer(50e9, 50e9, 1e-3, 10, 0.5) == pytest.approx(1.0 - 0.45 + 1e-3)
    assert exposed_transfer(1e9, 50e9, 0.0, 1, 1.0) == pytest.approx(0.02)  # nothing to hide behind


def test_a_busy_link_makes_transfers_wait() -> None:
    found = shared_link(np.array([1.0, 10.0, 40.0, 60.0]), 0.02, 1.0)
    assert np.all(np.diff(found.wait_s) > 0)
    assert found.wait_s[1] == pytest.approx(0.2 / 0.8 / 2 * 0.02)
    assert np.isinf(found.wait_s[3])


def test_batches_on_a_link_wait_for_each_other() -> None:
    """Two at once on a nearly idle link: the second of them waits for the first, half of it on average."""
    assert shared_link(1e-6, 0.02, 1.0, 2.0).wait_s == pytest.approx(0.01)
    steps, rng = 20_000, np.random.default_rng(3)
    begin = np.cumsum(rng.exponential(0.1, steps))
    free, waits = 0.0, []
    for at in begin:
        for _ in range(3):
            waits.append(max(free - at, 0.0))
            free = max(free, at) + 0.01
    # batches of three: one of them sees two others, E[X^2] / E[X] = 3
    assert shared_link(30.0, 0.01, 1.0, 3.0).wait_s == pytest.approx(np.mean(waits), rel=0.1)


def test_moves_show_their_last_layer_or_what_does_not_fit_beside_the_step() -> None:
    """1 s of transfer in 10 layers beside a step of 0.5 s: 0.45 s pass, 0.55 s show; beside one of 5 s, 0.1 s show."""

    def moves(step: float, layers: int, send: float = 1.0, rate: float = 1e-6) -> tuple[float, bool]:
        found = kv_moves(send, 0.2, 0.001, layers, step, 1.0, rate, rate, 1.0)
        return float(found.exposed_s), bool(found.stable)

    assert moves(0.5, 10)[0] == pytest.approx(0.551)
    assert moves(5.0, 10)[0] == pytest.approx(0.101)
    assert moves(5.0, 1)[0] == pytest.approx(1.001)
    assert moves(5.0, 1, send=0.1)[0] == pytest.approx(0.201)  # the receiver is slower
    assert not moves(5.0, 1, rate=1.01)[1]
    assert moves(5.0, 1, rate=0.99)[1]


def test_the_prefill_queue_diverges() -> None:
    times = split_at_rate(np.array([1.0, 9.0, 10.0]), 2.0, 0.2, 0.01, 0.0, 0.02)
    assert times.ttft_s[0] < times.ttft_s[1]
    assert np.isinf(times.ttft_s[2])

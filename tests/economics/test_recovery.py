"""Recovery from a failure, part by part."""

from __future__ import annotations

import numpy as np
import pytest

from planner.economics.recovery import failures_per_year, recovery, reliability_defaults, unavailability


def test_defaults_have_sources() -> None:
    for name in type(reliability_defaults()).model_fields:
        one = getattr(reliability_defaults(), name)
        assert one.source
        assert one.date


def test_the_logged_start_of_kimi_on_four_b200() -> None:
    # vLLM 0.22.0: 139.53 GiB per GPU in 249.71 s, engine initialised in 224.68 s
    found = recovery(4 * 139.53 * 2**30, 0.0, 1.0, 1.0)
    assert found.weights_s == pytest.approx(249.71, rel=0.01)
    assert found.warm_up_s + found.graphs_s == pytest.approx(224.68, rel=0.01)
    assert found.total_s == pytest.approx(30 + 20 + 249.71 + 225, rel=0.01)
    assert found.total_s == found.detection_s + found.start_s


def test_lost_requests_are_computed_again_meanwhile() -> None:
    short = recovery(1e9, 1e6, 1e5, 1e5)
    assert short.reprefill_s == 0.0
    assert short.total_s == recovery(1e9, 0.0, 1e5, 1e5).total_s
    long = recovery(1e9, np.array([1e9]), 1e5, 1e5)
    assert long.total_s == pytest.approx(30 + 1e4)
    alone = recovery(1e9, 1e6, 0.0, 1e5)
    assert alone.reprefill_s == pytest.approx(10.0)
    assert np.isinf(recovery(1e9, 1e6, 0.0, 0.0).total_s)


def test_inputs_replace_defaults() -> None:
    mine = {"detection_s": 1.0, "restart_s": 2.0, "graph_capture_s": 3.0, "warm_up_s": 4.0}
    assert recovery(1e12, 0.0, 1.0, 1.0, weight_read_gb_s=100.0, **mine).total_s == pytest.approx(20.0)


def test_failures_of_a_published_cluster() -> None:
    # arXiv 2407.21783: 419 unexpected interruptions in 54 days on 16,384 GPUs
    assert failures_per_year(16_384) * 54 / 365.25 == pytest.approx(419, rel=0.01)
    assert unavailability(8, 600.0) == pytest.approx(8 * 0.173 * 600 / (365.25 * 86400), rel=0.01)

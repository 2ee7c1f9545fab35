"""Default memory shares."""

from __future__ import annotations

import numpy as np
import pytest

from planner.layout.layouts import Layouts
from planner.memory.coefficients import engine_memory
from planner.memory.share import default_share
from planner.units import GIB, MIB


def test_sglang_computes_its_share_from_what_it_reserves() -> None:
    # server_args.py: 512 + 1.5 x 8192 + 2 x 256 + 1024 x TP / 8 MiB on an 80 GiB part, TP8.
    share = default_share(
        engine_memory("sglang"), "0.5.7", 80 * GIB, Layouts.of(tp=8), np.asarray(256.0), np.asarray(8192.0)
    )
    reserve = (512 + 1.5 * 8192 + 2 * 256 + 1024) * MIB
    assert share[0] == pytest.approx(1 - reserve / (80 * GIB), abs=6e-4)


def test_large_parts_reserve_ten_gib_at_least() -> None:
    share = default_share(engine_memory("sglang"), None, 140 * GIB, Layouts.of(), np.asarray(16.0), np.asarray(2048.0))
    assert share[0] == pytest.approx(1 - 10 / 140, abs=6e-4)


def test_others_have_a_number() -> None:
    settings = (80 * GIB, Layouts.of(), np.asarray(1.0), np.asarray(1.0))
    assert default_share(engine_memory("vllm"), "0.19.0", *settings) == 0.9
    assert default_share(engine_memory("trtllm"), None, *settings) == 0.9

"""Expert loads behind the measured rows."""

from __future__ import annotations

import numpy as np
import pytest

from planner.evidence.ops_routing import hottest_rank


def one(exponent: float, tokens: int, experts: int, topk: int, ep: int) -> tuple[float, float]:
    pairs, touched = hottest_rank(
        [exponent], *(np.array([float(v)]) for v in (tokens, experts, topk, ep))
    )  # fmt: skip
    return float(pairs[0]), float(touched[0])


def test_balanced_loads_are_even() -> None:
    assert one(0.0, 1024, 256, 8, 8) == (1024.0, 32.0)


def test_one_rank_holds_every_pair() -> None:
    pairs, touched = one(1.2, 512, 64, 4, 1)
    assert pairs == 2048
    assert touched <= 64


@pytest.mark.parametrize("exponent", [0.6, 1.01, 1.2])
def test_skew_concentrates_on_a_rank_but_never_beyond_the_tokens(exponent: float) -> None:
    pairs, _ = one(exponent, 4096, 256, 8, 32)
    assert 4096 * 8 / 32 < pairs <= 4096 * 8


def test_the_draw_is_repeatable() -> None:
    assert one(1.01, 300, 128, 8, 16) == one(1.01, 300, 128, 8, 16)

"""Layouts of measured runs read like those of plans."""

import pytest

from planner.ui.words import run_layout


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("8.1.1.1.8", "TP8 EP8"),
        ("5.1.1.8.8.1.1.1.1.32.32.1", "5 × (TP1 DP8 MoE-TP8) → 1 × (TP1 DP32 MoE-TP32)"),
        ("8.1.-.1.8", "8.1.-.1.8"),
        ("8.1", "8.1"),
    ],
)
def test_a_runs_layout(word, said):
    assert run_layout(word) == said

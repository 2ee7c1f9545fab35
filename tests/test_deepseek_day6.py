"""DeepSeek's published service against the planner, through the command that prints the comparison."""

from __future__ import annotations

import pytest

from benchmarks.deepseek_day6 import Row, fleet, main, rows


@pytest.fixture(scope="module")
def table() -> list[Row]:
    return rows()


def test_profiles_of_full_nodes_lie_in_their_intervals(table: list[Row]) -> None:
    full = [row for row in table if row.full]
    assert len(full) == 2
    for row in full:
        assert row.inside, row


def test_decode_over_the_day_lies_in_its_interval(table: list[Row]) -> None:
    """Decode nodes are as full as their requests make them, and those are given: 88 a GPU."""
    row = next(r for r in table if r.name.startswith("day 6 decode"))
    assert row.inside, row


def test_a_day_of_traffic_does_not_pass_full_nodes(table: list[Row]) -> None:
    """Means over a day cannot exceed what full nodes do, up to the width of the interval."""
    for row in (r for r in table if not r.full):
        assert row.published <= row.high80, row


def test_the_published_fleet_and_its_cost_lie_in_the_intervals(table: list[Row]) -> None:
    found = {row.name: row for row in fleet(table)}
    assert found["nodes, published layouts"].published == 226.75
    assert found["USD a day of the plan"].published == 87_072
    for name in (
        "decode nodes, published layout",
        "nodes, published layouts",
        "nodes of the plan",
        "USD a day of the plan",
    ):
        row = found[name]
        assert row.low80 <= row.published <= row.high80, row
        assert row.low80 < row.predicted < row.high80


def test_the_command_prints_the_table(table: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    for row in table:
        assert f"| {row.name} | {row.published:,.0f} | {row.predicted:,.0f} |" in printed

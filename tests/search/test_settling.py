"""What is listed has its steps at its own occupancy, and nothing else of a table moves."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import planner
from planner.search.aggregated import aggregated_deployments, fitting_layouts
from planner.search.planned import Planned
from planner.search.planning import planned
from planner.search.settling import settle
from planner.search.setup import Setup, setup
from planner.search.table import Deployments
from planner.serving.latency import percentiles

EXAMPLES = Path(__file__).parents[2] / "examples"
BURSTY = EXAMPLES / "qwen3-coder-480b-code-h200.yaml"


@cache
def _table() -> tuple[Setup, Deployments]:
    scenario = planner.load_scenario(BURSTY)
    s = setup(scenario, planner.catalog.catalog())
    hw = s.hardware(scenario.hardware.candidates[0])
    table = aggregated_deployments(s, hw, fitting_layouts(s, hw, s.max_worker_gpus))
    assert table is not None
    return s, table


@cache
def _planned() -> Planned:
    return planned(planner.load_scenario(BURSTY))


def test_every_listed_candidate_is_settled():
    made = _planned()
    assert len(made.places) == len(made.plan.candidates) > 30
    assert all(table.settled is None or table.settled.all() for table in made.listed)


def test_only_the_rows_asked_for_move_and_hardly():
    s, table = _table()
    assert table.settled is not None
    rows = np.flatnonzero(table.rejections.feasible & ~table.settled)[::7]
    found = settle(s, table, rows)
    others = np.setdiff1d(np.arange(len(table)), rows)
    assert found.settled is not None
    assert found.settled[rows].all()
    assert np.array_equal(found.settled[others], table.settled[others])
    for key, before in table.outcome.latency.items():
        assert np.array_equal(found.outcome.latency[key][others], before[others], equal_nan=True)
    assert np.array_equal(found.decode.count, table.decode.count)
    ratio = found.outcome.latency[("tpot", "mean")][rows] / table.outcome.latency[("tpot", "mean")][rows]
    assert np.abs(ratio - 1.0).max() > 1e-6  # steps are evaluated anew
    assert np.abs(np.log(ratio)).max() < 0.1


def test_settled_rows_stay():
    s, table = _table()
    rows = np.flatnonzero(table.rejections.feasible)[:5]
    once = settle(s, table, rows)
    assert settle(s, once, rows) is once


def test_a_worker_whose_steady_state_is_known_has_the_same_latencies():
    _, table = _table()
    assert table.loaded is not None
    load = table.loaded.worker.take(np.flatnonzero(table.rejections.feasible)[:50])
    anew = percentiles(load)
    known = percentiles(load, known=anew.flow)
    for metric in ("ttft", "tbt", "tpot", "e2e"):
        for level, values in getattr(anew, metric).items():
            assert np.array_equal(known.get(metric, level), values), (metric, level)


@pytest.mark.parametrize("rank", [1, 3])
def test_any_candidate_can_be_sized(rank):
    made = _planned()
    sized = made.sized(rank)
    sizing = sized.candidates[rank - 1].sizing
    assert sizing is not None
    assert sizing.fleet.startswith(f"{sized.candidates[rank - 1].gpus} GPUs")
    assert [c.sizing is not None for c in sized.candidates].count(True) == 1


def test_the_deployment_behind_a_candidate_is_its_own():
    made = _planned()
    for candidate in made.plan.candidates:
        row = made.deployment(candidate.rank)
        assert row.decode.layouts.row(0) == candidate.layout.model_dump()
        assert int(row.gpus[0]) == candidate.gpus
        assert float(row.outcome.latency[("tpot", "mean")][0]) * 1e3 == pytest.approx(candidate.tpot_ms.mean)


def test_points_of_the_frontier_tell_the_times_of_their_candidates():
    by_rank = {c.rank: c for c in _planned().plan.candidates}
    for point in _planned().plan.pareto:
        assert point.rank is not None
        listed = by_rank[point.rank]
        assert point.tpot_ms == pytest.approx(listed.tpot_ms.mean)
        assert point.ttft_ms == pytest.approx(listed.ttft_ms.mean)

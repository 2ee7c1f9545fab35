"""What keeps a deployment from one worker less is of its own layout and settings, at the requests that would follow."""

from __future__ import annotations

import re

import numpy as np
import pytest

from planner.catalog import catalog
from planner.search.aggregated import aggregated_deployments, fitting_layouts
from planner.search.evaluation import budget_of, cache_slots
from planner.search.planned import Planned
from planner.search.planning import planned
from planner.search.setup import setup
from planner.ui import draft, gallery, phrases

SAID = re.compile(
    r"One worker less is too few: with (\d+) instead of (\d+)(?:, at ([\d,]+) requests per worker)?, (.+)\."
)


@pytest.fixture(scope="module", params=["qwen3-32b-l40s", "llama-3.3-70b-mi300x"])
def found(request) -> Planned:
    return planned(gallery.example(request.param).scenario, catalog())


def test_memory_is_named_where_it_does_not_hold_the_requests_and_only_there(found) -> None:
    told = 0
    for c in found.plan.candidates:
        match = SAID.match(c.explanation[0]) if c.explanation else None
        if match is None:
            continue
        told += 1
        fewer, now, each, why = match.groups()
        assert (int(fewer), int(now)) == (c.replicas - 1, c.replicas)
        if each is None:
            assert why == "the load is more than the workers pass"
            continue
        table = found.deployment(c.rank)
        row, requests = table.decode, float(each.replace(",", ""))
        budget = budget_of(found.setup, row.hardware, row.layouts, np.array([requests]), row.token_budget)
        assert ("GiB" in why) == (not budget.fits[0]), c.explanation[0]
        assert requests > c.concurrency_per_worker
    assert told


def test_every_sentence_is_known_to_the_translation(found) -> None:
    for c in found.plan.candidates:
        assert all(phrases.known(text) for text in c.explanation), c.explanation


def test_a_worker_alone_says_so_and_a_closed_loop_is_no_exception() -> None:
    plan = planned(gallery.example("gpt-oss-120b-h100").scenario, catalog()).plan
    assert plan.best is not None
    assert plan.best.replicas == 1
    assert plan.best.explanation[0].startswith("One worker carries the load")


def test_what_memory_refuses_is_told_with_the_requests_that_it_does_not_hold() -> None:
    """Bursts leave workers emptier than the point where their steps were evaluated."""
    scenario = draft.build(gallery.example("qwen3-32b-l40s").scenario, {"arrival.kind": "gamma", "arrival.cv": 2.0})
    s = setup(scenario, catalog())
    hw = s.hardware(scenario.hardware.candidates[0])
    table = aggregated_deployments(s, hw, fitting_layouts(s, hw, 8))
    assert table is not None
    refused = np.flatnonzero(table.rejections.code == table.rejections.names.index("memory"))
    assert refused.size
    w = table.decode.take(refused)
    budget = budget_of(s, hw, w.layouts, w.concurrency, w.token_budget)
    assert not budget.fits.any()
    assert (w.concurrency > cache_slots(s, w, budget)).all()

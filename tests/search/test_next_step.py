"""What keeps a deployment from one worker less is of its own layout and settings, at the requests that would follow."""

from __future__ import annotations

import re

import numpy as np
import pytest

from planner.catalog import catalog
from planner.search.aggregated import aggregated_deployments, fitting_layouts
from planner.search.evaluation import budget_of, cache_slots
from planner.search.next_step import SHARES
from planner.search.planned import Planned
from planner.search.planning import planned
from planner.search.settling import at_own_steps
from planner.search.setup import setup, with_rate
from planner.ui import draft, gallery, phrases

SAID = re.compile(r"One worker less is too few: with (\d+) instead of (\d+), at ([\d,]+) requests per worker, (.+)\.")
ON_THE_WAY = re.compile(
    r"One worker less is too few: (\d+) instead of (\d+) would have (\d+)% more load each, "
    r"and from about (\d+)% more on (.+)\."
)


@pytest.fixture(scope="module", params=["qwen3-32b-l40s", "llama-3.3-70b-mi300x"])
def found(request) -> Planned:
    return planned(gallery.example(request.param).scenario, catalog())


def test_memory_is_not_named_where_it_holds_the_requests(found) -> None:
    told = 0
    for c in found.plan.candidates:
        match = SAID.match(c.explanation[0]) if c.explanation else None
        if match is None:
            continue
        told += 1
        fewer, now, each, why = match.groups()
        assert (int(fewer), int(now)) == (c.replicas - 1, c.replicas)
        table = found.deployment(c.rank)
        row, requests = table.decode, float(each.replace(",", ""))
        budget = budget_of(found.setup, row.hardware, row.layouts, np.array([requests]), row.token_budget)
        assert budget.fits[0], c.explanation[0]
        assert "GiB" not in why
        assert requests > c.concurrency_per_worker
    assert told


def test_what_breaks_first_is_named_where_one_worker_less_would_not_keep_up(found) -> None:
    best = found.plan.best
    assert best is not None
    match = ON_THE_WAY.match(best.explanation[0])
    assert match is not None
    fewer, now, more, broken_at, why = match.groups()
    assert (int(fewer), int(now)) == (best.replicas - 1, best.replicas)
    assert int(more) == round(100 / int(fewer))
    metric = re.match(r"(TTFT|TBT|TPOT) is", why)
    assert metric is not None
    row, s = found.deployment(1), found.setup
    step = int(more) / SHARES + 2.0

    def verdict(percent: float) -> str | None:
        load = row.loaded.worker
        there = at_own_steps(with_rate(s, s.rate_rps * (1 + percent / 100)), row.decode, load, load.decode_step_slope_s)
        code = int(there.rejections.code[0])
        return None if code < 0 else there.rejections.names[code]

    assert verdict(0.8 * int(broken_at) - step) is None  # its steps follow their slope, these are evaluated anew
    assert verdict(int(broken_at) + 2.0) == f"slo_{metric[1].lower()}"


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

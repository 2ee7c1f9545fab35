"""What would be a better answer but for one limit is so, and the nearest of its kind."""

from __future__ import annotations

import pytest

from planner.search.better import FARTHEST, MEASURABLE, asked_for, is_better
from planner.search.planning import plan
from planner.ui import draft, gallery, remedies


@pytest.fixture(scope="module")
def made():
    return plan(gallery.example("gpt-oss-120b-h100").scenario)


def test_a_limit_moved_to_what_is_missed_leads_to_a_better_plan(made):
    (missed,) = made.better
    assert missed.reason == "slo_tpot"
    assert 1.0 < missed.needed / missed.available <= FARTHEST
    change = remedies.proven_better(made.scenario, made, missed, plan)
    assert change is not None
    after = plan(draft.build(made.scenario, dict(change.values)))
    wanted = made.scenario.objective
    assert is_better(after.best, made.best, wanted)
    assert asked_for(after.best, wanted) < (1.0 - MEASURABLE) * asked_for(made.best, wanted)


def test_a_limit_that_is_hardly_moved_is_no_better_question(made):
    """A tenth of a percent lets one more deployment through and changes nothing in the answer."""
    (missed,) = made.better
    loose = draft.build(made.scenario, {"slo.tpot_ms.limit": 1.001 * missed.available})
    assert not is_better(plan(loose).best, made.best, made.scenario.objective)
    told = missed.model_copy(update={"needed": 1.001 * missed.available})
    assert remedies.proven_better(made.scenario, made, told, lambda s: made) is None


def test_where_nothing_is_feasible_there_is_nothing_better():
    assert plan(gallery.example("infeasible-405b-one-h100").scenario).better == ()

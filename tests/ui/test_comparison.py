"""Two deployments in numbers: what they are made of is not mixed up."""

from planner.search.headline import deployment
from planner.ui import comparison


def split(plan):
    return next(c for c in plan.candidates if c.serving == "disagg")


def whole(plan):
    return next(c for c in plan.candidates if c.serving == "agg")


def rows(a, b):
    return {r.name: r for r in comparison.numbers(a, b)}


def test_pools_are_compared_pool_by_pool(plan):
    found = rows(split(plan), split(plan))
    assert "Replicas" not in found
    assert (found["Prefill workers"].left, found["Prefill workers"].right) == ("20", "20")
    assert found["Decode workers"].ratio == 1.0


def test_replicas_and_pools_do_not_share_a_row(plan):
    found = rows(whole(plan), split(plan))
    assert (found["Replicas"].left, found["Replicas"].right, found["Replicas"].ratio) == ("82", "–", None)
    assert (found["Prefill workers"].left, found["Prefill workers"].right) == ("–", "20")
    assert rows(whole(plan), whole(plan)).keys() & {"Prefill workers", "Decode workers"} == set()


def test_figures_carry_their_interval(plan):
    best = plan.candidates[0]
    assert rows(best, best)["$ per million output tokens"].left == "$0.462 (0.397–0.522)"


def test_the_tuple_is_of_the_candidate(plan):
    other = plan.candidates[2]
    assert comparison.identity(plan, plan.best) is plan.identity
    found = comparison.identity(plan, other)
    assert found.topology == deployment(other)
    assert found.checkpoint == plan.identity.checkpoint

"""The memory page's budgets and the steps of the pages are the plan's own, term by term, of every candidate."""

import pytest

from planner.catalog import catalog
from planner.memory.budget import TERMS
from planner.search.explain import explain_step
from planner.ui import gallery
from planner.ui.answers import quiet_answer
from planner.ui.current import Answered
from planner.ui.sections.memory_data import stage_budgets
from planner.ui.subject import subject_of

RANKS = (1, 2, 3, 4)


@pytest.fixture(params=["llama-3.3-70b-mi300x", "kimi-k2-gb200", "qwen3-32b-l40s"])
def subjects(request):
    """Aggregated with and without pipeline stages, split pools, PCIe boxes."""
    scenario = gallery.example(request.param).scenario
    plan = quiet_answer(scenario, catalog())
    shown = [c for c in plan.candidates if c.rank in RANKS]
    return [subject_of(Answered(scenario, plan, catalog(), "test", c)) for c in shown]


def test_the_memory_page_shows_the_plans_own_budget(subjects):
    for subject in subjects:
        c = subject.candidate
        planned = {"both": c.memory_gib}
        if c.prefill_pool is not None:
            planned = {"prefill": c.prefill_pool.memory_gib, "decode": c.memory_gib}
        assert set(subject.pools) == set(planned)
        for name, own in planned.items():
            shown = stage_budgets(subject.setup, subject.pools[name]).values()
            wanted = {t: getattr(own, t) for t in (*TERMS, "total", "capacity")}
            gaps = [max(abs(getattr(m, t) - v) for t, v in wanted.items()) for m in shown]
            assert min(gaps) < 1e-9, (c.rank, name, gaps)


def test_steps_of_the_pages_take_as_long_as_in_the_plan(subjects):
    for subject in subjects:
        s, c = subject.setup, subject.candidate
        if s.acceptance:
            continue
        for phase, w, work in subject.steps():
            seconds = float(explain_step(s, w, work).times.total[0])
            assert 1e3 * seconds == pytest.approx(c.breakdown.step_ms[phase], rel=1e-6), (c.rank, phase)

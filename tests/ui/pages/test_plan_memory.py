"""The memory page's budgets and the steps of the pages are the plan's own, term by term, of every candidate."""

import pytest

from planner.catalog import catalog
from planner.memory.budget import TERMS
from planner.search.explain import explain_step
from planner.ui import formula, gallery
from planner.ui.answers import quiet_answer
from planner.ui.current import Answered
from planner.ui.latex import num
from planner.ui.numbers import count
from planner.ui.sections.load_latency import _room
from planner.ui.sections.memory_data import stage_budgets
from planner.ui.subject import subject_of
from planner.ui.words import counted_requests

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


def test_what_runs_at_once_and_what_memory_holds_stand_side_by_side(subjects):
    for subject in subjects:
        c = subject.candidate
        at_once = c.settings.max_num_seqs * c.layout.attention_dp * c.replicas
        name, _meaning = counted_requests(subject.scenario, c)
        assert _room(c) == f"set to run {count(at_once)} at once, memory holds {count(round(c.max_concurrency))}"
        assert at_once <= c.max_concurrency
        assert name == ("Requests in the workers" if c.prefill_pool is None else "Requests in the decode workers")
        law = formula.in_flight(subject.scenario, c)
        assert law.numbers.endswith(f" = {num(c.concurrency)}")
        assert f"set to run {count(at_once)} at once" in formula.memory_left(c).source

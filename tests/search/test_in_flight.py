"""Requests in flight: one meaning for every kind of deployment, and Little's law gives them."""

import pytest

from planner.export.report.formulas import formulas
from planner.layout.layouts import Layouts
from planner.scenario.load import load_scenario, scenario_from_data
from planner.search.in_flight import counted, little, set_to_run
from planner.search.planning import estimate, plan

LLAMA, KIMI = "examples/llama-3.3-70b-mi300x.yaml", "examples/kimi-k2-gb200.yaml"


def question(path, serving=None, in_flight=None):
    data = load_scenario(path).to_dict()
    if serving:
        data["search"] = {**data.get("search", {}), "serving": [serving]}
    if in_flight:
        data["workload"]["arrival"] = {"kind": "closed_loop", "concurrency": in_flight}
        data["slo"] = {}
    return scenario_from_data(data)


@pytest.mark.parametrize(
    ("path", "serving", "in_flight", "kind"),
    [
        (LLAMA, "agg", None, "workers"),
        (LLAMA, "agg", 256, "loop"),
        (LLAMA, "disagg", 256, "decode"),
        (KIMI, "disagg", None, "decode"),
    ],
)
def test_littles_law_gives_the_requests_of_every_candidate(path, serving, in_flight, kind):
    found = plan(question(path, serving, in_flight))
    for c in found.candidates[:8]:
        law = little(found.scenario, c)
        assert counted(found.scenario, c) == kind == law.counted
        assert all(part >= 0.0 for part in law.parts)
        assert law.requests == pytest.approx(c.concurrency, rel=1e-6), c.rank
        assert c.concurrency <= c.max_concurrency * (1.0 + 1e-9)
        if kind == "workers":  # what a request takes outside the steps: tokenising, and the way through the stages
            assert law.parts[2] < 0.3
            assert c.concurrency_per_worker * c.replicas == pytest.approx(c.concurrency)
        if in_flight:
            assert c.concurrency < 1.02 * in_flight + c.replicas


def test_the_times_of_the_steps_and_the_requests_are_of_one_state():
    """Requests follow the times that were found step by step, not the closed form's: with two pipeline stages these
    are 7 % apart."""
    found = plan(question(LLAMA))
    c = next(c for c in found.candidates if c.layout.pp == 2 and c.replicas == 1)
    further = c.throughput_rps * (found.scenario.workload.output_tokens.mean() - 1) * c.tpot_ms.mean / 1e3
    assert c.concurrency == pytest.approx(further, rel=0.02)
    assert f"with {c.concurrency:,.1f} requests in it" in " ".join(c.explanation)


def test_settings_run_no_more_than_memory_holds():
    for path in (LLAMA, KIMI):
        for c in plan(question(path)).candidates[:8]:
            assert c.concurrency <= set_to_run(c) <= c.max_concurrency
            assert set_to_run(c) == c.admission.max_sequences * c.replicas


def test_memory_holds_more_than_the_engines_own_limit():
    """One worker of eight GPUs: the cache holds more than the 1,024 sequences that the engine runs at most."""
    found = estimate(question(LLAMA), Layouts.of(4, 2)).candidate
    assert found.max_concurrency > 1100
    assert found.settings.max_num_seqs <= 1024


def test_the_report_writes_the_same_number_as_figure_and_as_formula():
    for path in (LLAMA, KIMI):
        found = plan(question(path))
        for c in found.candidates[:6]:
            (table,) = formulas(found, c)
            (row,) = [r for r in table.rows if "Little" in r[3]]
            left, right = row[2].rsplit(" = ", 1)
            rate, stay = left.replace(",", "").replace(" s", "").split(" × ")
            assert eval(f"{rate} * {stay}", {}) == pytest.approx(c.concurrency, rel=1e-4)
            assert float(right.replace(",", "")) == pytest.approx(c.concurrency, rel=5e-3)

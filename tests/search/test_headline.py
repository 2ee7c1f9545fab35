"""The answer in one sentence, and numbers at three significant digits."""

from __future__ import annotations

import plan_data
import pytest

import planner
from planner.search.alike import apart, apart_text
from planner.search.headline import deployment, gpus_text, headline, sig3, with_interval
from planner.search.plan_schema import Interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.41234, "0.412"),
        (43.14, "43.1"),
        (999.6, "1,000"),
        (312.5, "313"),
        (12.25, "12.3"),
        (1235.0, "1,240"),
        (-2.675, "-2.68"),
        (1234.5, "1,230"),
        (1605384, "1,610,000"),
        (0.00012345, "0.000123"),
        (1.2e-9, "1.20e-09"),
        (-12.345, "-12.3"),
    ],
)
def test_three_digits(value: float | None, text: str) -> None:
    assert sig3(value) == text


def test_interval_in_brackets() -> None:
    assert with_interval(43.14, Interval(low80=38.02, high80=49.2)) == "43.1 (38–49.2)"


def test_headline_says_hardware_layout_and_numbers() -> None:
    text = headline(plan_data.plan())
    assert text.startswith("2 × dgx-h200 · 16 GPUs = 2 replicas × (TP1 DP8 EP8) · aggregated serves deepseek-r1")
    assert "TPOT 43.1 (38–49.2) ms" in text
    assert "$6.27 per million output tokens" in text


def test_headline_of_a_split_deployment() -> None:
    plan = plan_data.plan(candidates=(plan_data.candidate(1, "disagg"),))
    assert "prefill 2 × (TP1 DP8 EP8) on dgx-h200 + decode 2 ×" in headline(plan)


def test_headline_without_an_answer_says_why() -> None:
    text = headline(plan_data.plan(False))
    assert "memory binds (160 GiB needed, 132 GiB available)" in text
    assert "TP4 misses 28.7 GiB" in text


def test_a_limit_on_time_is_predicted_not_needed() -> None:
    """A latency is nothing that is needed or available."""
    miss = (
        plan_data.plan(False)
        .nearest_misses[0]
        .model_copy(update={"reason": "slo_tpot", "needed": 5.99, "available": 0.1, "unit": "ms"})
    )
    text = headline(plan_data.plan(False).model_copy(update={"nearest_misses": (miss,)}))
    assert "the limit on TPOT binds (predicted 5.99 ms, limit 0.1 ms)" in text


def test_what_is_paid_for_is_in_the_sentence_where_it_is_more_than_what_serves() -> None:
    plan = plan_data.plan()
    assert plan.best is not None
    more = plan.model_copy(update={"candidates": (plan.best.model_copy(update={"gpus_paid": 24}),)})
    assert "· 24 GPUs paid for, 16 used = 2 replicas" in headline(more)
    same = plan.model_copy(update={"candidates": (plan.best.model_copy(update={"gpus_paid": 16}),)})
    assert headline(same) == headline(plan)
    assert gpus_text(more.candidates[0]) == "16 (24 paid)"
    assert gpus_text(same.candidates[0]) == "16"


def test_the_gpus_of_whole_nodes_are_paid_for() -> None:
    """Whole racks of 72 for fewer GPUs: what is paid for is what the price per hour is of."""
    found = planner.plan(planner.load_scenario("examples/kimi-k2-gb200.yaml"))
    partly = next(c for c in found.candidates if c.gpus_paid != c.gpus)
    assert partly.gpus_paid == 72 * partly.nodes > partly.gpus
    told = found.model_copy(update={"candidates": (partly,)})
    assert f"{partly.gpus_paid} GPUs paid for, {partly.gpus} used" in headline(told)
    prices = {c.usd_per_hour / c.gpus_paid for c in found.candidates[:20]}
    assert max(prices) == pytest.approx(min(prices))


def test_candidates_that_read_alike_are_told_apart_by_their_settings() -> None:
    found = planner.plan(planner.load_scenario("examples/llama-3.3-70b-mi300x.yaml"))
    shown = found.candidates[:10]
    names = {c.rank: deployment(c) for c in shown}
    differing = apart(shown)
    assert len(set(names.values())) < len(names), "the example has such candidates"
    assert len({names[r] + apart_text(differing.get(r)) for r in names}) == len(names)
    alone = [r for r, name in names.items() if list(names.values()).count(name) == 1]
    assert all(r not in differing for r in alone)
    assert apart(shown[:1]) == {}

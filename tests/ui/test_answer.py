"""Sentences and numbers of the answer."""

import numpy as np
import pytest
import streamlit as st

import planner
from planner.scenario.schema import DailyProfile
from planner.search.headline import in_one_sentence
from planner.search.plan_schema import Mark, NearestMiss, Rejection, SloCheck, UsdPerMtok
from planner.ui import formula, words
from planner.ui.sections import candidates, headline, load_latency, reasons
from planner.ui.sections.charts import picked_rank
from planner.ui.sections.goodput import why_lower
from planner.ui.words import deployment, node_label, term_name
from tests.ui.conftest import answer_with


def test_a_deployment_in_one_line(plan):
    split = next(c for c in plan.candidates if c.serving == "disagg")
    assert deployment(split) == (
        "226 × HGX H800 · 1,808 GPUs = prefill 20 × (TP1 DP32 EP32+32)"
        " + decode 8 × (TP1 DP144 EP144+32) · disaggregated"
    )
    whole = next(c for c in plan.candidates if c.serving == "agg")
    assert deployment(whole) == "82 × HGX H800 · 656 GPUs = 82 replicas × (TP8 EP8) · aggregated"


def test_the_question_in_one_line(scenario):
    assert headline.question(scenario) == (
        "deepseek\\-v3 · 1,605 requests/s, independent users \\(Poisson\\) · 4,383 tokens in, 1,211 out"
        " · lowest cost per token"
    )


def test_five_figures_with_interval_limit_and_mark(plan):
    cost, rate, ttft, tpot, memory = headline.figures(plan.candidates[0], plan.scenario.workload)
    assert (cost.value, cost.chip, cost.met) == ("$0.462", "$0.397–0.522", None)
    assert rate.note == "goodput 1,605 req/s"
    assert (ttft.value, ttft.note, ttft.met) == ("1.39 s", "limit 5.00 s", True)
    assert (tpot.chip, tpot.met) == ("43.1–56.3 ms", True)
    assert tpot.marks == ("dispatch over 18 nodes is extrapolated from 9",)
    assert (memory.value, memory.chip) == ("8.76 GiB", "76 % in use")


def test_a_price_says_that_it_is_the_busiest_hours(plan):
    best, work = plan.candidates[0], plan.scenario.workload
    assert headline.figures(best, work.model_copy(update={"daily_profile": None}))[0].note == "$3,616 per hour"
    half = work.model_copy(update={"daily_profile": DailyProfile(hourly=(2.0, *(1.0,) * 11, *(0.9,) * 11, 1.1))})
    assert (
        headline.figures(best, half)[0].note
        == "the busiest hour's; $0.924 over the day at fixed size · $3,616 per hour"
    )
    sentence = in_one_sentence(best, plan.scenario.model_copy(update={"workload": half}))
    assert "per million output tokens in the busiest hour, $0.924 over the day at fixed size." in sentence


def test_a_range_over_the_limit_is_not_sure(plan):
    best = plan.candidates[0]
    checks = tuple(k.model_copy(update={"met_at_80": k.metric != "tpot_ms"}) for k in best.slo)
    ttft, tpot = headline.figures(best.model_copy(update={"slo": checks}), plan.scenario.workload)[2:4]
    assert (ttft.met, ttft.sure) == (True, True)
    assert (tpot.met, tpot.sure) == (True, False)


def test_every_limit_has_a_figure_with_its_mark(plan):
    best = plan.candidates[0]
    more = [
        SloCheck(metric="ttft_ms", percentile="p99", judged_on="p99", limit=9e3, value=8e3, met=True),
        SloCheck(metric="tbt_ms", percentile="p99", judged_on="p99", limit=120.0, value=94.4, met=True),
        SloCheck(metric="e2e_ms", percentile="p99", judged_on="p99", limit=2e5, value=2.1e5, met=False),
    ]
    shown = headline.figures(best.model_copy(update={"slo": (*best.slo, *more)}), plan.scenario.workload)
    assert [f.label for f in shown[2:-1]] == [
        "Time to first token, mean",
        "Time to first token, p99",
        "Time per output token, mean",
        "Time between tokens, p99",
        "Whole request, p99",
    ]
    assert (shown[-2].value, shown[-2].note, shown[-2].met) == ("3.50 min", "limit 3.33 min", False)
    free = headline.figures(best.model_copy(update={"slo": ()}), plan.scenario.workload)
    assert [(f.label, f.note) for f in free[2:4]] == [
        ("Time to first token, mean", "no limit"),
        ("Time per output token, mean", "no limit"),
    ]


def test_a_low_goodput_beside_limits_that_hold_is_explained(plan):
    best = plan.candidates[0]
    gaps = SloCheck(metric="tbt_ms", percentile="p95", judged_on="p95", limit=100.0, value=98.4, met=True)
    few = best.model_copy(update={"slo": (gaps,), "goodput_rps": 29.42, "throughput_rps": 50.0})
    assert "of its own gaps" in why_lower(few)
    assert why_lower(few) in headline.figures(few, plan.scenario.workload)[1].help
    assert why_lower(few.model_copy(update={"goodput_rps": 49.0})) == ""
    assert why_lower(few.model_copy(update={"slo": (gaps.model_copy(update={"met": False}),)})) == ""


def test_a_limit_says_what_it_was_judged_on(plan):
    check = plan.candidates[0].slo[0].model_copy(update={"percentile": "p95"})
    assert headline.limit_text(check) == "limit 5.00 s at p95"


def test_formulas_give_the_number_beside_them(plan):
    best = plan.candidates[0]
    cost = formula.cost(best)
    assert cost is not None
    assert cost.numbers.endswith("= 0.462")
    computed = best.usd_per_hour / (best.output_tokens_per_s_per_gpu * best.gpus * 3600) * 1e6
    assert computed == pytest.approx(best.usd_per_mtok.output)
    assert formula.cost(best.model_copy(update={"usd_per_hour": None})) is None
    rate = formula.rate(best.model_copy(update={"throughput_rps": 1000.0, "gpus": 500}), 600.0)
    assert rate is not None
    assert rate.numbers.endswith(r"= 1\,200")
    tpot = formula.tpot(best)
    assert tpot is None or tpot.numbers.endswith(rf"= {formula.num(best.tpot_ms.mean)}\ \text{{ms}}")
    left = formula.memory_left(best)
    assert left is not None
    assert rf"= {headline.figures(best, plan.scenario.workload)[4].value.removesuffix(' GiB')}\ " in left.numbers
    assert "77.1" in formula.memory(best.memory_gib).numbers
    assert "34.7" in formula.step(best, "decode").numbers
    in_flight = formula.in_flight(plan.scenario, best)
    assert in_flight is not None
    assert "Little" in in_flight.source


def test_rejections_read_as_sentences():
    text = reasons.rejection(
        Rejection(
            reason="memory",
            count=1204,
            needed=166.94,
            available=71.2,
            unit="GiB",
            example="TP4 on one node",
            fix="use 8 GPUs",
        )
    )
    assert text == (
        "- **Does not fit GPU memory** (1,204 times). Nearest: TP4 on one node. "
        "Needed 167 GiB, available 71.2 GiB. What would help: Use 8 GPUs."
    )


def test_numbers_already_said_are_not_said_twice():
    example = "TP8 needs 166.9 of 71.2 GiB"
    text = reasons.rejection(
        Rejection(reason="memory", count=1, needed=166.94, available=71.2, unit="GiB", example=example)
    )
    assert text == "- **Does not fit GPU memory** (1 time). Nearest: TP8 needs 166.9 of 71.2 GiB."


def test_operators_marked_alike_are_named_together():
    marks = [
        Mark(subject=f"operator curve {op} bf16", text=f"{op} was not measured on h800-sxm: curve of h100-sxm")
        for op in ("gemm", "decode_mla", "gemm")
    ]
    marks.append(Mark(subject="tpot_ms", text="18 nodes from 9"))
    assert reasons.grouped_marks(marks) == [
        ("Times of matrix product, decode attention (MLA)", "not measured on h800-sxm: curve of h100-sxm"),
        ("Time per output token", "18 nodes from 9"),
    ]


def test_the_binding_limit_is_that_of_the_nearest_miss(plan):
    miss = NearestMiss(
        node="dgx-h100",
        serving="agg",
        layout=plan.candidates[0].layout,
        gpus=1,
        reason="memory",
        text="needs 760 GiB of [71](http://x)",
    )
    none = plan.model_copy(update={"candidates": (), "nearest_misses": (miss,)})
    assert headline.binding_limit(none) == (
        "**Does not fit GPU memory.** Nearest: Needs 760 GiB of \\[71\\]\\(http\\://x\\)."
    )


def test_the_table_keeps_numbers_as_numbers(plan):
    table = candidates.frame(plan)
    assert list(table["rank"]) == [c.rank for c in plan.candidates]
    assert table["usd"].dtype.kind == "f"
    assert set(candidates.order(plan)) < set(table.columns) == set(candidates.columns(200))
    assert candidates.order(plan)[:5] == ["rank", "usd", "layout", "gpus", "tpot"]


PHONE_PX, DESKTOP_PX, BOX_PX = 350, 920, 32
"""Room for the table on a phone of 390 px and in a window of 1440 px; the box before a row."""


LAYOUT_SEEN_PX = 200
"""Of a layout, enough to tell rows apart; those of aggregated deployments are shorter."""


def test_columns_fit_their_window(plan):
    widths = candidates.columns(candidates.WIDEST_PX)
    shown = [widths[name]["width"] for name in candidates.order(plan)]
    assert BOX_PX + sum(shown) <= DESKTOP_PX
    assert BOX_PX + sum(shown[:2]) + LAYOUT_SEEN_PX <= PHONE_PX


def test_the_table_shows_the_numbers_of_the_page(plan):
    best = plan.candidates[0].model_copy(update={"goodput_rps": 1604.6, "concurrency": 12_345.0})
    table = candidates.frame(plan.model_copy(update={"candidates": (best,)}))
    assert table["goodput"][0] == 1605
    assert table["concurrency"][0] == 12_300


def test_what_is_paid_for_stands_beside_what_is_used(plan):
    few = plan.candidates[0].model_copy(
        update={"gpus": 2, "nodes": 1, "prefill_pool": None, "decode_pool": None, "node": "dgx-h100", "replicas": 1}
    )
    assert "8 GPUs paid for, 2 used" in words.deployment(few.model_copy(update={"gpus_paid": 8}))
    assert "· 2 GPUs =" in words.deployment(few.model_copy(update={"gpus_paid": 2}))
    assert "· 2 GPUs =" in words.deployment(few), "a plan of before does not say it"


def test_candidates_of_the_same_workers_are_told_apart(plan):
    one = plan.candidates[0]
    settings = one.settings.model_copy(update={"max_num_batched_tokens": 4096})
    other = one.model_copy(update={"rank": 2, "settings": settings})
    rest = plan.candidates[1].model_copy(update={"rank": 3})
    table = candidates.frame(plan.model_copy(update={"candidates": (one, other, rest)}))
    assert table["layout"][1].endswith(" · 4,096 tokens a step")
    assert table["layout"][0] != table["layout"][1]
    assert "tokens" not in table["layout"][2]


def test_without_a_price_gpus_rank_and_no_number_is_marked(app, monkeypatch, scenario):
    free = planner.plan(scenario)
    none = {"usd_per_hour": None, "usd_per_mtok": UsdPerMtok()}
    free = free.model_copy(update={"candidates": tuple(c.model_copy(update=none) for c in free.candidates)})
    free = free.model_copy(update={"best": free.candidates[0]})
    answer_with(monkeypatch, lambda scenario: free)
    st.cache_resource.clear()
    app.run()
    assert not app.exception
    assert app.metric[0].value == "–"
    assert "no price is known, so plans are ranked by their GPUs" in app.main.caption[0].value
    assert "lowest cost" not in app.main.caption[0].value


@pytest.mark.parametrize(
    ("selection", "rank"),
    [
        ({"points": [{"customdata": [3]}]}, 3),
        ({"points": [{"customdata": 3}]}, 3),
        ({"points": [{"customdata": [-1]}]}, None),
        ({"points": [{}]}, None),
        ({"points": []}, None),
        (None, None),
    ],
)
def test_a_click_names_a_rank(selection, rank):
    assert picked_rank(selection) == rank


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("hgx-h800", "HGX H800"),
        ("gb200-nvl72", "GB200 NVL72"),
        ("mi300x-8", "MI300X ×8"),
        ("rtx-pro-6000-8-pcie", "RTX PRO 6000 ×8 PCIe"),
        ("cloudmatrix384", "CloudMatrix384"),
    ],
)
def test_node_labels(id, text):
    assert node_label(id) == text


def test_unknown_terms_read_as_words():
    assert term_name("moe_all_to_all") == "Moe all to all"


def test_tokens_per_gpu_say_which_gpus_where_more_are_paid_for(plan):
    """Two GPUs of a node of eight: the figure is of those in use, and what it is of all eight stands beside it."""
    best = plan.candidates[0]
    assert headline.figures(best, plan.scenario.workload)[1].note == "goodput 1,605 req/s"
    idle = best.model_copy(update={"gpus_paid": 4 * best.gpus})
    said = headline.figures(idle, plan.scenario.workload)[1].note
    per_paid = headline.sig(best.output_tokens_per_s_per_gpu / 4)
    assert said == f"goodput 1,605 req/s · per GPU in use; {per_paid} per GPU paid for"


def test_the_end_of_a_curve_is_no_bound():
    tried = np.array([64.0, 128.0, 256.0])
    assert "no bound" in load_latency.most_in_flight(tried, tried)
    said = load_latency.most_in_flight(tried, tried[:2])
    assert "**128**" in said
    assert "bound" not in said

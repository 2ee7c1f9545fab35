"""Figures of the pages are plain functions: what they draw adds up to the numbers behind them."""

from dataclasses import replace

import numpy as np
import pytest

from planner.catalog import catalog
from planner.evidence.evidence_table import evidence_table
from planner.evidence.nearness import nearness
from planner.layout.layouts import Layouts
from planner.layout.step_traffic import step_traffic
from planner.scenario.schema import Scenario
from planner.search.plan_schema import MemoryGib
from planner.search.setup import setup
from planner.ui.figures.cost import cost_by_load, power_bars, ways_bars
from planner.ui.figures.evidence import coverage_bars, errors_by_group, predicted_against_measured
from planner.ui.figures.hot_experts import hot_experts_lines
from planner.ui.figures.latency import by_concurrency, by_share, distribution, nines, split_heatmap
from planner.ui.figures.memory import memory_bars
from planner.ui.figures.memory_page import admission_bars, parameters_bars, precision_bars, sequences_by_length
from planner.ui.figures.roofline import roofline
from planner.ui.figures.topology import legend_note, topology
from planner.ui.figures.traffic import traffic_bars, traffic_heatmap
from planner.ui.sections.cost_data import Way, by_load, crossing, deployed, power, token_prices
from planner.ui.sections.evidence_data import coverage, curves_of, group_errors, group_values, place_of
from planner.ui.sections.layout_data import (
    default_copies,
    group_kinds,
    hot_experts,
    moe_of,
    operator_points,
    placement,
    sent_bytes,
    traffic_matrix,
)
from planner.ui.sections.load_data import (
    SHARES,
    Cell,
    Curve,
    Side,
    budget_curve,
    known,
    load_curve,
    scaled,
)
from planner.ui.sections.load_split import answer
from planner.ui.sections.memory_data import (
    admission,
    fit_curve,
    kv_answer,
    parameter_shares,
    precision_rows,
    resident,
    stage_budgets,
)
from planner.units import GIB, MIB
from tests.ui.pages.conftest import subject_of_example


def test_stage_budgets_hold_the_plan(small):
    w = small.pools["both"]
    budgets = stage_budgets(small.setup, w)
    assert list(budgets) == ["first"]
    planned = small.candidate.memory_gib
    assert budgets["first"].weights == pytest.approx(planned.weights)
    assert budgets["first"].total == pytest.approx(planned.total)
    figure = memory_bars({"GPU": budgets["first"]})
    assert sum(trace.x[0] for trace in figure.data) == pytest.approx(planned.capacity)


def test_a_missing_cache_is_not_drawn_below_zero():
    m = MemoryGib(weights=90, kv=-20, workspace=1, collectives=0, graphs=1, runtime=1, margin=7, total=100, capacity=80)
    assert all(x >= 0 for trace in memory_bars({"GPU": m}).data for x in trace.x)


def test_fewer_long_sequences_fit(small):
    w = small.pools["both"]
    curve = fit_curve(small.setup, w, "bf16")
    assert (np.diff(curve.paged) <= 0).all()
    assert sequences_by_length(curve, 1000.0, small.setup.longest_request).data
    assert kv_answer(small.setup, w, "fp8_tensor", 1000).per_token < kv_answer(small.setup, w, "bf16", 1000).per_token
    found = kv_answer(small.setup, w, "bf16", 1)
    assert sum(g.layers for g in found.layers) == small.setup.spec.num_layers
    assert sum(g.token_bytes for g in found.layers) == pytest.approx(found.per_token)


@pytest.mark.parametrize("layout", [Layouts.of(tp=2), Layouts.of(tp=1, pp=2)])
def test_the_calculator_counts_what_the_memory_budget_counts(small, layout):
    """GPT-OSS: every other layer keeps 128 tokens; a stage of two holds half of the layers."""
    question = Scenario.from_dict(small.scenario.to_dict() | {"model": "gpt-oss-120b", "precision": {}})
    s = setup(question, small.setup.catalog)
    w = replace(small.pools["both"], layouts=layout)
    budget = w.memory(s, kv_format="bf16")
    short, long = (kv_answer(s, w, "bf16", tokens) for tokens in (100, 10_000))
    assert short.per_token == 2 * long.per_token
    assert long.per_token == budget.kv_bytes_per_token[0]
    assert long.per_sequence == budget.sequence_bytes(10_000)[0]
    assert sum(g.layers for g in long.layers) == s.spec.num_layers / layout.pp[0]


def test_paging_holds_at_least_what_reservation_does(small):
    a = admission(small.setup, small.pools["both"])
    assert a.reserved <= a.paged_99 <= a.paged
    assert 0 <= a.reserved_unused < 1
    values = admission_bars(a).data[0].x
    assert list(values) == [a.paged, a.paged_99, a.reserved]


def test_resident_tokens_of_equal_lengths(small):
    work = small.scenario.workload
    mean, std = resident(work.input_tokens, work.output_tokens)
    if work.output_tokens.kind == "fixed" and work.input_tokens.kind == "fixed":
        assert mean == pytest.approx(work.input_tokens.mean() + work.output_tokens.mean() / 2)
        assert std == pytest.approx(work.output_tokens.mean() / np.sqrt(12), rel=1e-3)


def test_precision_and_parameters_add_up(small):
    rows = precision_rows(small.setup)
    figure = precision_bars(rows)
    assert sum(figure.data[0].x) * GIB == pytest.approx(sum(r.bytes for r in rows))
    shares = parameter_shares(small.setup.spec)
    bars = parameters_bars(shares)
    assert sum(t.x[0] for t in bars.data) == pytest.approx(sum(s.total for s in shares) / 1e9)
    assert sum(s.active for s in shares) < 0.1 * sum(s.total for s in shares)


def test_every_rank_is_drawn_once(split):
    placed = placement(split.pools["decode"])
    kinds = group_kinds(placed)
    assert kinds
    for kind in kinds:
        figure = topology(placed, kind, kind)
        ranks = [int(t) for trace in figure.data if trace.mode == "markers+text" for t in trace.text]
        assert sorted(ranks) == list(range(placed.node.size))
    assert legend_note(3) is None
    assert "9" in (legend_note(9) or "")


@pytest.mark.parametrize("which", ["small", "split"])
def test_the_matrix_holds_the_bytes_of_the_table(which, request):
    subject = request.getfixturevalue(which)
    for _phase, w, work in subject.steps():
        sent = sent_bytes(subject.setup, w, work)
        matrix = traffic_matrix(placement(w), sent)
        assert np.diag(matrix).sum() == 0
        total = sum(s.scale_up + s.network for s in sent)
        assert matrix.sum(axis=1).mean() == pytest.approx(total)
        bars = traffic_bars(sent)
        assert sum(sum(t.x) for t in bars.data) == pytest.approx(total / MIB)
        assert traffic_heatmap(matrix, w.hardware.shape.tp_domain).data[0].z.shape == matrix.shape


def test_the_plan_and_the_table_agree_on_traffic(small):
    _phase, w, work = next(iter(small.steps()))
    assert callable(step_traffic)
    sent = sent_bytes(small.setup, w, work)
    planned = {t.tier: t.mib_per_step for t in small.candidate.traffic}
    assert sum(s.scale_up for s in sent) / MIB == pytest.approx(planned["scale_up"], rel=0.02)


def test_hot_experts_fill_a_rank_and_copies_help(split):
    """Where weights bind, uneven routing touches fewer experts, so a step may even get shorter."""
    steps = {phase: (w, work) for phase, w, work in split.steps()}
    w, work = steps["decode"]
    moe = moe_of(split.setup)
    assert moe is not None
    hot = hot_experts(w, work, moe, np.array([0.0, 1.0, 3.0]), default_copies(w, moe))
    assert (np.diff(hot.plain) > 0).all()
    assert hot.copies[-1] <= 1.01 * hot.plain[-1]
    assert len(hot_experts_lines(hot, 1.0).data) == 4


def test_hot_experts_cost_time_where_tokens_bind():
    subject = subject_of_example("deepseek-v3-h800")
    w, work = next((w, work) for phase, w, work in subject.steps() if phase == "decode")
    moe = moe_of(subject.setup)
    assert moe is not None
    hot = hot_experts(w, work, moe, np.array([0.0, 1.0, 3.0]), default_copies(w, moe))
    assert (np.diff(hot.plain_ms) > 0).all()
    assert hot.copies_ms[-1] < hot.plain_ms[-1]


@pytest.mark.parametrize("which", ["small", "split"])
def test_operators_stay_under_their_roof(which, request):
    subject = request.getfixturevalue(which)
    for phase, w, work in subject.steps():
        points = operator_points(subject.setup, subject.candidate, phase, w, work)
        assert {p.term for p in points} >= {"attention_core", "routed_experts", "attention_projections"}
        device = w.hardware.device
        for p in points:
            roof = min(device.peak_flops[p.compute], p.intensity * device.mem_bw)
            assert p.flops_per_s <= 1.000001 * roof, p
            assert p.of_roof == pytest.approx(p.flops_per_s / roof)
            named = {"compute": device.peak_flops[p.compute], "memory": p.intensity * device.mem_bw}
            assert p.of_limit == pytest.approx(p.flops_per_s / named.get(p.bound, roof))
        figure = roofline(points, device.peak_flops, device.mem_bw)
        assert sum(len(t.x) for t in figure.data if t.mode == "markers+text") == len(points)


def test_ways_cross_where_they_cost_the_same():
    rent = Way("Rent", {"rent": 50.0}, True)
    api = Way("API", {"input tokens": 60.0, "output tokens": 40.0}, False)
    share = crossing(rent, api)
    assert share == pytest.approx(0.5)
    found = by_load([rent, api], 1000.0)
    at = int(np.argmin(np.abs(found.share - 0.5)))
    assert found.usd_per_mtok["Rent"][at] == pytest.approx(found.usd_per_mtok["API"][at], rel=0.02)
    assert len(cost_by_load(found, {"Rent": 0.5}).data) == 2
    assert sum(t.x[1] for t in ways_bars([rent, api]).data) == pytest.approx(24 * 100.0)


@pytest.mark.parametrize("which", ["small", "split"])
def test_prices_and_power_add_up(which, request):
    subject = request.getfixturevalue(which)
    d = deployed(subject)
    prices = token_prices(subject.candidate, d)
    computed = d.input_tokens_per_s * (1 - d.cached_share)
    paid = (prices.input or 0) * d.input_tokens_per_s + (prices.output or 0) * d.output_tokens_per_s
    assert (prices.input, prices.output_all) == (
        subject.candidate.usd_per_mtok.input,
        subject.candidate.usd_per_mtok.output,
    )
    assert (prices.uncached or 0) * computed == pytest.approx((prices.input or 0) * d.input_tokens_per_s)
    assert paid * 3600 / 1e6 == pytest.approx(subject.candidate.usd_per_hour)
    watts = power(subject, d)
    assert watts is not None
    assert 0 < watts.average_w < watts.provisioned_w
    assert watts.average_w == pytest.approx(subject.candidate.joules_per_token * d.output_tokens_per_s)
    bars = power_bars(watts)
    assert sum(t.x[0] for t in bars.data) * 1000 == pytest.approx(watts.average_w)


@pytest.fixture(scope="module")
def table():
    return evidence_table(catalog())


def test_every_run_is_a_mark(table, small):
    near = nearness(table, place_of(small), catalog(), small.setup.spec)
    assert near.agreeing("engine", "gpu", "model") > 0
    everything = np.ones(len(table), dtype=bool)
    ringed = np.zeros(len(table), dtype=bool)
    ringed[near.order()[:10]] = True
    figure = predicted_against_measured(table, "tpot_ms", group_values(table, "engine"), everything, ringed)
    marks = [t for t in figure.data if t.type == "scattergl"]
    known = np.isfinite(table.runs["tpot_ms"]) & np.isfinite(table.predicted["tpot_ms"])
    assert sum(len(t.x) for t in marks if t.name != "nearest to this plan") == int(known.sum())
    assert "measured" in marks[0].customdata[0]


def test_errors_and_coverage_by_group(table):
    errors = group_errors(table, "engine", table.comparable)
    assert sum(e.runs for e in errors) == int(table.comparable.sum())
    figure = errors_by_group(errors, "tpot_ms")
    assert len(figure.data[0].y) == len(errors)
    found = coverage(table, table.comparable)
    assert all(0 < c.inside50 < c.inside80 <= 1 for c in found)
    assert len(coverage_bars(found, {"tpot_ms": "TPOT", "ttft_ms": "TTFT"}).data) == 2


def test_curves_behind_a_plan_are_named(small):
    found = curves_of(small)
    assert {"gemm", "moe"} <= {c.op for c in found}
    assert all(c.points > 0 for c in found)


@pytest.fixture(scope="module")
def offered():
    """An aggregated deployment under an offered rate."""
    return subject_of_example("deepseek-r1-h200")


def test_the_curve_passes_through_the_plan(offered):
    curve = load_curve(offered)
    assert curve is not None
    assert list(curve.x) == list(SHARES)
    at = int(np.argmin(np.abs(curve.x - 1.0)))
    for metric in ("ttft_ms", "tbt_ms"):
        for level, value in known(getattr(offered.candidate, metric)).items():
            if level in curve.ms[metric]:
                assert curve.ms[metric][level][at] == pytest.approx(value, rel=1e-3)
    rising = curve.ms["ttft_ms"]["p99"]
    rising = rising[np.isfinite(rising)]
    assert (np.diff(rising) > -1e-9).all()
    assert by_share(curve, offered.scenario.slo.limits()).data


@pytest.mark.parametrize(("slowest", "kind", "at"), [(110.0, "linear", 100.0), (900.0, "log", 2.0)])
def test_a_limit_and_its_name_stand_at_the_same_height(slowest, kind, at):
    """Plotly takes the values of a logarithmic axis for lines, but their logarithms for annotations."""
    x = np.array([0.5, 1.0, 1.5])
    times = {level: np.geomspace(20.0, slowest, 3) for level in ("mean", "p95", "p99")}
    curve = Curve(x, {"ttft_ms": times, "tbt_ms": times}, np.ones(3), np.ones(3, dtype=bool))
    figure = by_share(curve, [("ttft_ms", "p99", 100.0), ("tbt_ms", "p99", 100.0)])
    assert (figure.layout.yaxis.type, figure.layout.yaxis2.type) == (kind, kind)
    names = figure.layout.annotations
    assert [(n.yref, n.xref, n.y) for n in names] == [("y", "x domain", at), ("y2", "x2 domain", at)]
    assert [shape.y0 for shape in figure.layout.shapes if shape.y0 == shape.y1] == [100.0, 100.0]


def test_a_split_deployment_has_a_curve_of_both_pools(split):
    curve = load_curve(split)
    assert (curve is None) == (split.setup.rate_rps is None)


def test_a_closed_loop_is_drawn_by_requests_in_flight(small):
    curve = load_curve(small)
    assert small.setup.rate_rps is None
    assert curve is not None
    assert float(small.pools["both"].concurrency[0]) in curve.x
    assert by_concurrency(curve, small.scenario.slo.limits(), 64.0).data


def test_a_larger_budget_reads_prompts_sooner(offered):
    curve = budget_curve(offered)
    assert curve is not None
    planned = int(np.flatnonzero(curve.x == float(offered.pools["both"].token_budget[0]))[0])
    for metric in ("ttft_ms", "tbt_ms"):
        shown = getattr(offered.candidate, metric).mean
        assert curve.ms[metric]["mean"][planned] == pytest.approx(shown, rel=1e-3)
    means = curve.ms["ttft_ms"]["mean"]
    means = means[np.isfinite(means)]
    assert means[0] >= means[-1]


def test_token_budgets_in_a_closed_loop_keep_its_requests(small):
    curve = budget_curve(small)
    assert curve is not None
    planned = int(np.flatnonzero(curve.x == float(small.pools["both"].token_budget[0]))[0])
    assert curve.ms["tbt_ms"]["mean"][planned] == pytest.approx(small.candidate.tbt_ms.mean, rel=1e-3)


def test_percentiles_and_limits_are_drawn_where_they_are(offered):
    limits = offered.scenario.slo.limits()
    figure = distribution(offered.candidate, "ttft_ms", limits, (0.8, 1.2))
    line = next(t for t in figure.data if t.name == "TTFT")
    assert list(line.x) == [v for p, v in known(offered.candidate.ttft_ms).items() if p != "mean"]
    assert nines(0.9) == pytest.approx(1.0)


def test_the_map_says_which_way_is_cheaper(small):
    assert scaled(small.scenario, "disagg", 4.0, 0.25).search.serving == ("disagg",)
    agg, split_ = Side(2.0, 8, "TP8", "memory"), Side(1.0, 16, "TP8 → TP8", "memory")
    cells = [Cell(100, 1, agg, split_), Cell(100, 4, split_, agg), Cell(400, 1, None, split_), Cell(400, 4, None, None)]
    texts = [t for row in split_heatmap(cells, "load").data[0].text for t in row]
    assert texts == ["split −50 %", "together −50 %", "only split", "neither"]
    assert "**1** of 4" in answer(cells)

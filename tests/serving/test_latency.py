"""Loads and their percentiles: limits, monotony, Little's law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving.loads import ANSWERS, CHAT, DECODE_S, FIXED, SLOPE_S, load

from planner.serving.closed_loop import aggregated
from planner.serving.closed_percentiles import closed_percentiles
from planner.serving.goodput import good_share, within
from planner.serving.latency import METRICS, joined, percentiles
from planner.serving.open_loop import flow
from planner.serving.prefill_pool import PoolLoad, prefill_pool
from planner.serving.prompt_steps import PromptSteps
from planner.serving.quantiles import LEVELS

RATES = st.floats(0.05, 10.0)
CVS = st.sampled_from([0.5, 1.0, 2.0, 4.0])


def test_an_empty_worker_neither_waits_nor_is_interrupted() -> None:
    alone = DECODE_S + SLOPE_S
    near = {"reference_occupancy": np.array(1.0), "decode_step_s": np.array([alone])}
    r = percentiles(load(1e-4, prompts=FIXED, prefill_step_s=np.array(0.045 + alone), **near))
    assert r.stable.all()
    assert r.wait["p99"][0] == pytest.approx(alone, rel=0.1)  # the step under way
    assert r.tpot["mean"][0] == pytest.approx(alone, rel=0.01)
    assert r.tbt["p99"][0] == pytest.approx(alone, rel=0.02)
    assert r.ttft["mean"][0] == pytest.approx(0.01 + 1.5 * DECODE_S + 0.045, rel=0.05)
    assert r.rejection[0] == 0.0


def test_latency_diverges_at_the_stability_limit_and_is_infinite_beyond() -> None:
    rates = np.linspace(0.5, 30.0, 300)
    r = percentiles(load(rates))
    assert not r.stable[-1]
    assert np.all(np.isinf(r.ttft["p50"][~r.stable]))
    assert np.all(r.completion[~r.stable] == 0)
    last = int(np.flatnonzero(r.stable)[-1])
    assert np.all(r.stable[: last + 1])
    assert r.tpot["mean"][last] > 5 * r.tpot["mean"][0]


@settings(deadline=None, max_examples=40)
@given(rate=RATES, cv=CVS, pause=st.booleans())
def test_percentiles_are_in_order(rate: float, cv: float, pause: bool) -> None:
    r = percentiles(load(rate, cv=cv, pause=pause))
    for metric in METRICS:
        values = [float(r.get(metric, name)[0]) for name in LEVELS]
        assert values == sorted(values), metric


def test_percentiles_do_not_hang_on_the_order_asked_in() -> None:
    wanted = dict.fromkeys(METRICS, ("p99", "p95", "p50"))
    found, every = percentiles(load(3.0), wanted), percentiles(load(3.0))
    for metric in METRICS:
        for level in wanted[metric]:
            assert found.get(metric, level) == pytest.approx(every.get(metric, level)), (metric, level)


@settings(deadline=None, max_examples=40)
@given(rate=RATES, cv=CVS, pause=st.booleans())
def test_littles_law(rate: float, cv: float, pause: bool) -> None:
    f = flow(load(rate, cv=cv, pause=pause))
    if f.stable[0]:
        held = rate * (f.own_prompt_s[0] + (ANSWERS.mean - 1) * f.tpot_s[0])
        assert f.occupancy[0] == pytest.approx(held, rel=1e-6)


@settings(deadline=None, max_examples=40)
@given(rate=st.floats(0.1, 9.0), cv=CVS, pause=st.booleans(), metric=st.sampled_from(["ttft", "tbt", "tpot", "e2e"]))
def test_more_rate_never_lowers_a_percentile(rate: float, cv: float, pause: bool, metric: str) -> None:
    r = percentiles(load(rate * np.array([1.0, 1.1, 1.3]), cv=cv, pause=pause))
    for name in ("mean", "p99"):
        values = r.get(metric, name)
        assert np.all(values[1:] >= values[:-1] * (1 - 0.02)), name


@settings(deadline=None, max_examples=40)
@given(rate=st.floats(0.1, 9.0), pause=st.booleans())
def test_bursts_never_help(rate: float, pause: bool) -> None:
    found = [percentiles(load(rate, cv=cv, pause=pause)) for cv in (1.0, 2.0, 4.0)]
    for name in ("mean", "p99"):
        times = [float(r.ttft[name][0]) for r in found]
        assert times == sorted(times)


@settings(deadline=None, max_examples=40)
@given(slots=st.floats(5.0, 400.0), rate=st.floats(0.5, 6.0))
def test_more_cache_never_raises_rejections(slots: float, rate: float) -> None:
    few, many = (percentiles(load(rate, slots=k)).rejection[0] for k in (slots, 1.2 * slots))
    assert many <= few + 1e-12


def test_full_slots_reject_like_erlang() -> None:
    r = percentiles(load(4.0, slots=25.0))
    assert 0.0 < r.rejection[0] < 0.5
    assert r.completion[0] == pytest.approx(1.0 - r.rejection[0])


def test_plain_gaps_do_not_depend_on_whether_decodes_pause() -> None:
    mixed, paused = (percentiles(load(6.0, pause=p)) for p in (False, True))
    assert paused.tbt["p50"] == pytest.approx(mixed.tbt["p50"], rel=0.1)


def test_tpot_is_much_narrower_than_the_gaps() -> None:
    r = percentiles(load(3.0))
    assert r.tpot["p99"] / r.tpot["p50"] < 0.6 * r.tbt["p99"] / r.tbt["p50"]


def test_blocks_join_to_the_whole() -> None:
    rates = np.array([0.5, 1.0, 2.0, 4.0])
    whole = percentiles(load(rates))
    parts = joined([percentiles(load(rates).take(np.array(rows))) for rows in ([0, 1], [2, 3])])
    for metric in METRICS:
        assert np.array_equal(parts.get(metric, "p99"), whole.get(metric, "p99"))
    assert np.array_equal(parts.flow.occupancy, whole.flow.occupancy)
    changed = whole.updated(np.array([2]), percentiles(load(rates[3:])))
    assert changed.ttft["p95"][2] == whole.ttft["p95"][3]
    assert changed.ttft["p95"][1] == whole.ttft["p95"][1]


def test_separate_prefill_leaves_decodes_alone() -> None:
    weights = np.geomspace(0.001, 16.0, 9)
    seconds = 0.005 + 0.04 * weights
    steps = PromptSteps(*(np.array([v]) for v in (0.001, 16.0, seconds, seconds, 0.05, 1.0)))
    one = np.ones(1)
    pool = replace(prefill_pool(PoolLoad(4.0 * one, one, one, steps, CHAT)), transfer_s=0.003 * one)
    decode = load(4.0, pause=True, prefill_step_s=np.array(0.0), prefill_fixed_s=np.array(0.0))
    r = percentiles(decode, prefill=pool)
    together = percentiles(load(4.0))
    assert r.tbt["p99"][0] < 0.5 * together.tbt["p99"][0]
    assert r.ttft["mean"][0] > 0.01 + 0.045 + 0.003
    assert not percentiles(decode, prefill=pool.at(30.0 * one, one)).stable[0]


def test_goodput_counts_what_is_within_every_limit() -> None:
    r = percentiles(load(np.array([1.0, 4.0, 8.0])))
    p95 = r.ttft["p95"]
    for k in range(3):
        assert within(r, "ttft", float(p95[k]))[k] == pytest.approx(0.95)
        assert within(r, "ttft", float(r.ttft["p50"][k]))[k] == pytest.approx(0.5)
    assert np.all(within(r, "ttft", 1e9) == pytest.approx(1.0))
    limits = {"ttft": {"p95": 0.4}, "tpot": {"mean": 0.05}}
    good = good_share(r, limits, ANSWERS.mean)
    assert np.all(np.diff(good) <= 1e-9)
    assert np.all(good <= within(r, "ttft", 0.4) + 1e-12)
    assert np.all(good_share(r, {"tpot": {"mean": 1e-6}}, ANSWERS.mean) == 0)
    gaps = good_share(r, {"tbt": {"p99": 1.0}}, ANSWERS.mean)
    assert np.all((gaps >= 0) & (gaps <= 1))


def test_a_closed_loop_keeps_its_means() -> None:
    worker = load(1.0)
    c = np.array([20.0])
    steps = (worker.decode_step_s, worker.prefill_step_s)
    loop = aggregated(c, np.array([1e9]), ANSWERS.mean, *steps, 1.0, 1.0, False, 0.01)
    r = closed_percentiles(worker, loop, c)
    assert r.ttft["mean"] == pytest.approx(loop.ttft_s, rel=1e-6)
    assert r.tpot["mean"] == pytest.approx(loop.tpot_s, rel=1e-6)
    assert r.tbt["mean"] == pytest.approx(loop.tpot_s, rel=1e-6)
    assert r.rejection[0] == 0
    for metric in METRICS:
        values = [float(r.get(metric, name)[0]) for name in LEVELS]
        assert values == sorted(values)

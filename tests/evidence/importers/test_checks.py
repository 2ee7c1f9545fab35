"""Each trap of real result files: found, said, and never counted as evidence."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from evidence.importers import samples
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.evidence.importers import results_of
from planner.evidence.importers.record import BenchRecord


def vllm(**change: Any) -> BenchRecord:
    (record,) = results_of(samples.text(samples.VLLM | change)).records
    return record


ZEROS = {k: 0.0 for k in samples.VLLM if k.endswith("_ms")}


@pytest.mark.parametrize(
    "content",
    [
        samples.text(samples.VLLM | ZEROS | {"completed": 0, "failed": 160, "total_output_tokens": 0}),
        samples.text(samples.VLLM | ZEROS),
        samples.text(samples.VLLM | {"completed": 10, "failed": 150}),
        samples.text(samples.guidellm(completed=0, errored=50)),
        samples.text(samples.INFERENCEX | {"num_requests_successful": 0, "mean_ttft": None, "mean_tpot": None}),
    ],
)
def test_failed_requests_are_no_evidence(content: str) -> None:
    with pytest.raises(InputError, match="not evidence"):
        results_of(content)


def test_some_failed_requests_are_said() -> None:
    record = vllm(completed=150, failed=10, total_input_tokens=150_000, total_output_tokens=75_000)
    assert "10 of 160 requests failed" in record.warnings[0]


def test_missing_percentiles_stay_missing() -> None:
    record = vllm(median_ttft_ms=None, p99_ttft_ms="", std_ttft_ms="N/A")
    assert record.latency["ttft"].percentiles_s == {}
    assert record.seconds("ttft") == 0.2
    record = vllm(mean_ttft_ms=None)
    assert record.seconds("ttft") == 0.18
    assert record.latency["ttft"].mean_s is None


def test_seconds_labelled_milliseconds() -> None:
    short = {k: v / 1000.0 for k, v in samples.VLLM.items() if k.endswith("_ms")}
    record = vllm(**short)
    assert "read as seconds" in record.warnings[0]
    assert record.seconds("ttft") == pytest.approx(0.2)
    long = {k: v * 1000.0 for k, v in samples.VLLM.items() if k.endswith("_ms")}
    record = vllm(**long)
    assert "read as milliseconds" in record.warnings[0]
    assert record.seconds("tpot") == pytest.approx(0.0195)


def test_output_counted_from_the_stream() -> None:
    data = copy.deepcopy(samples.AIPERF)
    data["output_sequence_length"]["avg"] = 500.0
    data["inter_token_latency"]["avg"] = 1900.0 / 499.0
    data["input_config"]["input"] = {"prompt": {"output_tokens": {"mean": 100, "stddev": 0}}}
    (record,) = results_of(samples.text(data)).records
    assert record.output_tokens == 100
    assert record.seconds("tpot") == pytest.approx(1.9 / 99.0)
    assert record.output_tokens_per_s == pytest.approx(400.0)
    assert "500 output tokens were counted where 100 were asked for" in record.warnings[0]


def test_responses_that_were_not_streamed() -> None:
    record = vllm(
        mean_ttft_ms=9_930.0, median_ttft_ms=9_900.0, mean_e2el_ms=9_930.5, mean_tpot_ms=0.0, median_tpot_ms=0.0
    )
    assert record.seconds("ttft") is None
    assert record.seconds("tpot") is None
    assert record.seconds("e2e") == pytest.approx(9.9305)
    assert "TTFT equals the request time" in record.warnings[0]
    data = copy.deepcopy(samples.AIPERF)
    data["input_config"]["endpoint"]["streaming"] = "false"
    (record,) = results_of(samples.text(data)).records
    assert record.seconds("ttft") is None
    assert "not streamed" in record.warnings[0]


def test_booleans_as_text() -> None:
    (record,) = results_of(samples.text(samples.INFERENCEX)).records
    assert record.layout["attention_dp"] == 1
    with pytest.raises(InputError, match="dp_attention"):
        results_of(samples.text(samples.INFERENCEX | {"dp_attention": "maybe"}))


def test_several_records_some_broken() -> None:
    broken = {k: samples.INFERENCEX[k] for k in ("hw", "framework", "precision", "model", "conc", "tp")}
    found = results_of(samples.text([samples.INFERENCEX, broken, samples.INFERENCEX]))
    assert (len(found.records), len(found.evidence)) == (3, 2)
    assert found.records[1].refused


def test_chunks_counted_as_tokens() -> None:
    data = copy.deepcopy(samples.INFERENCE_PERF)
    data["successes"]["latency"]["time_per_output_token"]["mean"] = 0.008
    (record,) = results_of(samples.text(data)).records
    assert record.seconds("tpot") == pytest.approx(1.8 / 100.0)
    assert "contradicts" in record.warnings[0]


def test_an_offered_rate_beyond_what_is_served() -> None:
    record = vllm(request_rate="10", max_concurrency=None)
    assert "offered 10 requests/s, served 1.6" in record.warnings[0]


def test_a_run_of_one_wave() -> None:
    assert "no steady state" in vllm(max_concurrency=100, num_prompts=160, std_ttft_ms=500.0).warnings[-1]


def test_first_tokens_that_do_not_vary() -> None:
    assert "hardly varies" in vllm(std_ttft_ms=0.1).warnings[0]


@given(st.floats(0.3, 3.0))
def test_a_sound_report_is_left_alone(scale: float) -> None:
    times = {k: v * scale for k, v in samples.VLLM.items() if k.endswith("_ms")}
    record = vllm(**times, request_throughput=1.6 / scale, output_throughput=800.0 / scale)
    assert record.warnings == ()
    assert record.seconds("tpot") == pytest.approx(0.0195 * scale)


def test_a_vllm_run_that_was_not_streamed_has_no_times_of_tokens() -> None:
    record = vllm(
        mean_ttft_ms=9000.0,
        median_ttft_ms=9000.0,
        p99_ttft_ms=9900.0,
        mean_tpot_ms=0.0,
        mean_itl_ms=0.0,
        median_tpot_ms=0.0,
        p99_tpot_ms=0.0,
    )
    assert not record.latency
    assert any("time between tokens is 0" in w for w in record.warnings)
    assert record.output_tokens_per_s == 800.0


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_median_in_place_of_a_mean_is_told(missing: float | None) -> None:
    record = vllm(mean_ttft_ms=missing)
    assert record.seconds("ttft") == pytest.approx(0.18)
    assert any("mean ttft not stated: the median" in w for w in record.warnings)
    assert not any("median" in w for w in vllm().warnings)

"""Every format is told from its content and read into the same normal form."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path

import pytest
from evidence.importers import samples
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.evidence.importers import read_results, results_of
from planner.evidence.importers.document import MAX_REPORT_BYTES
from planner.evidence.importers.record import BenchRecord


def only(content: str) -> BenchRecord:
    (record,) = results_of(content).records
    return record


@pytest.mark.parametrize("name", samples.ALL)
def test_formats_are_told_apart(name: str) -> None:
    found = results_of(samples.ALL[name])
    assert found.format == name
    for record in found.records:
        assert record.latency
        assert record.input_tokens
        assert not record.refused


def test_vllm_json_and_its_table_say_the_same() -> None:
    a, b = only(samples.text(samples.VLLM)), only(samples.CONSOLE)
    for name in ("model", "input_tokens", "output_tokens", "concurrency", "completed", "duration_s", "request_rps"):
        assert getattr(a, name) == getattr(b, name), name
    assert a.seconds("ttft") == b.seconds("ttft") == 0.2
    assert a.latency["ttft"].percentiles_s == b.latency["ttft"].percentiles_s == {50.0: 0.18, 99.0: 0.9}
    assert a.warnings == b.warnings == ()
    assert b.requested_output_tokens == 500


def test_sglang_layout_from_the_servers_arguments() -> None:
    record = results_of(samples.ALL["sglang.bench_serving"]).records[0]
    assert record.layout == {"tp": 2, "pp": 1, "attention_dp": 4, "moe_tp": 1, "ep": 8}
    assert (record.model, record.engine_version, record.speculative) == ("Qwen/Qwen3-32B", "0.5.6", "none")


def test_sglang_pools_and_a_tag_that_contradicts_them() -> None:
    data = copy.deepcopy(samples.SGLANG)
    worker = {"tp_size": 2, "pp_size": 1, "model_path": "Qwen/Qwen3-32B"}
    data["server_info"] = {"prefill": [worker], "decode": [worker, worker]}
    record = only(samples.text(data))
    assert record.serving == "disagg"
    assert (record.layout["prefill_workers"], record.layout["decode_workers"]) == (1, 2)
    record = only(samples.text(data | {"tag": "pd_1p4d_c128"}))
    assert record.layout == {}
    assert "tag" in record.warnings[0]


@pytest.mark.parametrize("version", ["0.3", "0.8"])
def test_guidellm_time_per_token_leaves_the_first_out(version: str) -> None:
    record = results_of(samples.text(samples.guidellm(version=version))).records[0]
    assert record.seconds("tpot") == pytest.approx(0.020)
    assert record.latency["e2e"].percentiles_s[99.9] == pytest.approx(5.418)
    assert record.concurrency == 8
    assert record.model == "Qwen/Qwen3-32B"


def test_guidellm_rate() -> None:
    record = only(samples.text(samples.guidellm("constant")))
    assert record.rate_rps == 3.2
    assert not record.closed_loop


def test_aiperf_json_and_csv_say_the_same() -> None:
    a, b = only(samples.text(samples.AIPERF)), only(samples.AIPERF_CSV)
    for metric in ("ttft", "tpot", "e2e"):
        assert a.seconds(metric) == b.seconds(metric)
        assert a.latency[metric].percentiles_s[99.0] == b.latency[metric].percentiles_s[99.0]
    assert a.completed == b.completed == 200
    assert a.request_rps == b.request_rps
    assert a.concurrency == 8


def test_units_are_read_not_assumed() -> None:
    data = copy.deepcopy(samples.AIPERF)
    for name in ("request_latency", "time_to_first_token", "inter_token_latency"):
        stats = data[name]
        data[name] = {k: v if k == "unit" else v * 1e6 for k, v in stats.items()} | {"unit": "ns"}
    assert only(samples.text(data)).seconds("ttft") == pytest.approx(0.1)
    data["request_latency"]["unit"] = "fortnights"
    with pytest.raises(InputError, match="fortnights"):
        results_of(samples.text(data))
    assert only(samples.LLMD).seconds("ttft") == pytest.approx(0.2)


def test_inferencex_layouts() -> None:
    spread = samples.INFERENCEX | {"dp_attention": "true", "ep": 4, "spec_decoding": "mtp"}
    record = only(samples.text(spread))
    assert record.layout == {"tp": 1, "pp": 1, "attention_dp": 4, "moe_tp": 1, "ep": 4}
    assert record.speculative == "on"
    pools = {f"{p}_{k}": v for p in ("prefill", "decode") for k, v in (("tp", 4), ("ep", 4), ("num_workers", 2))}
    split = (
        samples.INFERENCEX | pools | {"disagg": "true", "prefill_dp_attention": "false", "decode_dp_attention": True}
    )
    record = only(samples.text(split))
    assert record.serving == "disagg"
    assert record.layout["prefill_tp"] == 4
    assert (record.layout["decode_tp"], record.layout["decode_attention_dp"]) == (1, 4)


def test_trtllm_without_streaming_has_no_first_token() -> None:
    record = only(samples.text(samples.TRTLLM))
    assert record.seconds("ttft") is None
    assert record.seconds("e2e") == pytest.approx(3.2)
    assert record.layout["tp"] == 4
    streaming = samples.TRTLLM | {
        "streaming_metrics": {"avg_ttft_ms": 50.0, "avg_tpot_ms": 24.8, "ttft_percentiles": {"p99": 90.0}}
    }
    record = only(samples.text(streaming))
    assert record.seconds("ttft") == pytest.approx(0.05)
    assert record.latency["ttft"].percentiles_s == {99.0: pytest.approx(0.09)}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "[1, 2]",
        "a,b\n1,2\n",
        "just words",
        '{"completed": 3}',
        "[" * 100_000,
        "metrics: [\n",
        "metrics:\n  x: 1\n",
    ],
)
def test_what_is_no_report_is_refused(content: str) -> None:
    with pytest.raises(InputError):
        results_of(content)


def test_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(MAX_REPORT_BYTES + 1)
    with pytest.raises(InputError, match="at most"):
        read_results(path)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_no_text_crashes(content: str) -> None:
    with contextlib.suppress(InputError):
        results_of(content)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(samples.VLLM)),
    st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)),
)
def test_no_value_crashes(key: str, value: object) -> None:
    with contextlib.suppress(InputError):
        results_of(samples.text(samples.VLLM | {key: value}))


def test_a_bad_row_of_a_csv_is_refused_alone() -> None:
    head = "model,gpu,engine,input_tokens,output_tokens,concurrency,tp,tpot_ms\n"
    rows = ["2,4,60", "2,1.5,60", "-2,4,60", "2,4,fast", "2,4,60,9"]
    found = results_of(head + "".join(f"m,l40s,vllm,1000,500,{row}\n" for row in rows), "mine.csv").records
    assert [bool(r.refused) for r in found] == [False, True, True, True, True]
    assert [r.refused.split(":")[0] for r in found[1:]] == [
        "tp",
        "concurrency",
        "tpot_ms",
        "cells beyond the last column",
    ]
    with pytest.raises(InputError, match="every column once"):
        results_of(head.replace("gpu", "model") + "m,m,vllm,1,1,1,1,1\n", "mine.csv")

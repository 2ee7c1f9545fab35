"""Files that the tools themselves wrote against a mock server (tests/evidence/data/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog import Catalog
from planner.errors import InputError
from planner.evidence.importers import read_results
from planner.evidence.importers.report import validate_results
from planner.evidence.importers.to_runs import Given, to_runs

DATA = Path(__file__).resolve().parents[1] / "data"
GIVEN = Given(model="Qwen/Qwen3-32B", gpu="h100-sxm", engine="vllm", tp=2)
FILES = sorted(p.name for p in DATA.iterdir() if p.suffix in (".json", ".yaml", ".csv"))


@pytest.mark.parametrize("name", FILES)
def test_every_file_loads(cat: Catalog, name: str) -> None:
    found = read_results(DATA / name)
    (record,) = found.records
    assert found.format.startswith({"aiperf": "GenAI-Perf / AIPerf", "guidellm": "GuideLLM"}[name.split("_")[0]])
    assert record.completed
    assert not record.failed
    assert record.request_s
    report = validate_results(found, GIVEN, cat)
    assert report["predicted"] == 1
    if "not_streamed" in name:  # its request times are not times to the first token
        assert set(report["metrics"]) == {"output_tokens_per_s"}


@pytest.mark.parametrize("tool", ["aiperf_0.13.0_concurrency4", "guidellm_0.8.1_concurrent4"])
def test_a_tools_formats_say_the_same(tool: str) -> None:
    first, *others = (read_results(DATA / name).records[0] for name in FILES if name.startswith(tool))
    for other in others:
        for metric in ("ttft", "tpot", "e2e"):
            assert other.seconds(metric) == pytest.approx(first.seconds(metric), rel=0.01)
        assert other.latency["ttft"].percentiles_s[99.0] == pytest.approx(
            first.latency["ttft"].percentiles_s[99.0], rel=0.01
        )
        assert (other.completed, other.input_tokens, other.output_tokens) == (
            first.completed,
            first.input_tokens,
            first.output_tokens,
        )


def test_load_and_lengths_come_from_the_configuration() -> None:
    aiperf = read_results(DATA / "aiperf_0.13.0_concurrency4.json").records[0]
    assert (aiperf.model, aiperf.concurrency, aiperf.requested_output_tokens) == ("mock-model", 4.0, 40.0)
    assert aiperf.streaming
    guidellm = [read_results(DATA / f"guidellm_0.8.1_concurrent4.{end}").records[0] for end in ("json", "yaml", "csv")]
    assert {(r.model, r.concurrency, r.streaming) for r in guidellm} == {("mock-model", 4.0, True)}


@pytest.mark.parametrize(
    ("name", "rate"), [("aiperf_0.13.0_rate20.json", 20.0), ("guidellm_0.8.1_poisson10.json", 10.0)]
)
def test_a_rate_is_no_closed_loop(cat: Catalog, name: str, rate: float) -> None:
    record = read_results(DATA / name).records[0]
    assert (record.rate_rps, record.closed_loop) == (rate, False)
    converted = to_runs([record], GIVEN, cat)
    assert converted.runs["tpot_ms"][0] > 0
    assert not converted.runs["ttft_ms"][0] > 0
    assert any("at a rate" in text for text in converted.assumptions)


def test_records_of_single_requests_are_pointed_to_their_summary() -> None:
    with pytest.raises(InputError, match=r"profile_export_aiperf\.json"):
        read_results(DATA / "aiperf_0.13.0_per_request.jsonl")

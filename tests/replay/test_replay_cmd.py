"""``planner replay``: the document it prints, the same bytes for the same seed, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from planner.cli.app import run
from planner.replay.formats import load_trace
from planner.scenario.load import load_scenario

SCENARIO = "examples/qwen3-32b-l40s.yaml"
LAYOUT = ("--tp", "4", "--concurrency", "32")
METRICS = ("ttft_ms", "tbt_ms", "tpot_ms", "e2e_ms")


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[str, dict[str, object]]:
    assert run(["replay", *args, "--json"]) == 0
    out = capsys.readouterr().out
    return out, json.loads(out)


def test_document_of_a_layout(capsys: pytest.CaptureFixture[str]) -> None:
    args = (SCENARIO, *LAYOUT, "--requests", "400", "--seed", "3")
    first, document = _json(capsys, *args)
    second, _ = _json(capsys, *args)
    assert first == second
    for metric in METRICS:
        assert document[metric]["p50"] <= document[metric]["p95"] <= document[metric]["p99"]
        assert set(document["predicted"][metric]) >= {"mean", "p50", "p95", "p99"}
    assert document["goodput_rps"] <= document["throughput_rps"]
    assert document["completion_rate"] == 1.0
    assert document["identity"]["engine"] == "vllm"
    other, _ = _json(capsys, *args[:-1], "4")
    assert other != first


def test_plan_and_its_file_replay_the_same_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.yaml"
    assert run(["plan", SCENARIO, "--out", str(path), "--json"]) == 0
    capsys.readouterr()
    _, of_scenario = _json(capsys, SCENARIO, "--requests", "200")
    _, of_plan = _json(capsys, str(path), "--requests", "200")
    assert of_scenario["deployment"] == of_plan["deployment"]
    assert of_scenario["ttft_ms"] == of_plan["ttft_ms"]


def test_traces_profiles_and_written_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    _, document = _json(
        capsys, SCENARIO, *LAYOUT, "--profile", "short_qa", "--requests", "300", "--rate", "2", "--out", str(path)
    )
    assert document["trace"]["requests"] == 300
    assert document["trace"]["rate_rps"] == pytest.approx(2.0, rel=0.01)
    assert len(load_trace(path)) == 300
    _, again = _json(capsys, SCENARIO, *LAYOUT, "--trace", str(path), "--rate", "2")
    assert again["ttft_ms"]["p50"] == pytest.approx(document["ttft_ms"]["p50"], rel=0.05)


def test_disaggregated_pools_are_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = Path(SCENARIO).read_text().replace("objective:", "search: {serving: [disagg]}\nobjective:")
    path = tmp_path / "split.yaml"
    path.write_text(text)
    _, document = _json(capsys, str(path), "--requests", "300")
    assert "disaggregated" in document["deployment"]
    assert document["ttft_ms"]["p50"] > 0


def test_ladder_adds_one_technique_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = _json(
        capsys, "examples/gpt-oss-120b-h100.yaml", "--ladder", "--profile", "short_qa", "--requests", "300"
    )
    names = [r["added"] for r in document["rungs"]]
    assert names[:3] == ["one replica, fixed concurrency", "continuous batching", "prefix cache"]
    assert names[-2] == "P/D split"
    per_gpu = [r["concurrency"] / r["gpus"] for r in document["rungs"]]
    assert max(per_gpu) == pytest.approx(min(per_gpu), rel=0.1)
    assert all(r["identity"]["topology"] for r in document["rungs"])
    static, continuous = document["rungs"][:2]
    assert continuous["output_tokens_per_s_per_gpu"] > static["output_tokens_per_s_per_gpu"]


def test_speculation_failures_and_turned_away_requests(capsys: pytest.CaptureFixture[str]) -> None:
    drafting = ("examples/deepseek-r1-h200.yaml", "--tp", "8", "--ep", "8", "--concurrency", "32", "--requests", "400")
    _, plain = _json(capsys, *drafting)
    _, faster = _json(capsys, *drafting, "--mtp", "0.9")
    assert faster["tpot_ms"]["mean"] < plain["tpot_ms"]["mean"]
    args = (SCENARIO, *LAYOUT, "--requests", "400")
    _, plain = _json(capsys, *args)
    _, broken = _json(capsys, *args, "--fail", "60:0:30")
    assert broken["occupancy"]["restarts"] > 0
    assert broken["e2e_ms"]["p99"] > plain["e2e_ms"]["p99"]
    _, refused = _json(capsys, *args, "--fail", "60:0:30", "--most-waiting", "0")
    assert refused["completion_rate"] < 1.0


def test_drafts_of_a_block_that_the_model_lacks_are_refused_as_in_a_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    llama = "examples/llama-3.3-70b-mi300x.yaml"
    layout = ("--tp", "4", "--requests", "100")
    assert run(["replay", llama, *layout, "--mtp", "0.5"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--mtp: got '0.5'; absent: llama-3.3-70b has no multi-token-prediction block" in said.err
    question = load_scenario(llama).to_dict()
    drafts = {"method": "eagle3", "tokens": 1, "acceptance": [0.7]}
    question["engine"].setdefault("options", {})["speculation"] = drafts
    own = tmp_path / "eagle.yaml"
    own.write_text(yaml.safe_dump(question), encoding="utf-8")
    assert run(["replay", str(own), *layout, "--mtp", "0.5"]) == 0


def test_tables_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", SCENARIO, *LAYOUT, "--requests", "200"]) == 0
    out = capsys.readouterr().out
    assert "replayed" in out
    assert "TTFT ms p99" in out


@pytest.mark.parametrize(
    ("args", "field"),
    [
        (("--routing", "random"), "--routing"),
        (("--trace", "missing.csv"), "--trace"),
        (("--trace", "a.csv", "--profile", "short_qa"), "--profile"),
        (("--profile", "short_qu"), "--profile"),
        (("--rate", "2"), "--rate"),
        (("--mtp", "0.5;0.5"), "--mtp"),
        (("--mtp", "1.5"), "--mtp"),
        (("--fail", "60"), "--fail"),
        (("--fail", "-1:0:1"), "--fail"),
    ],
)
def test_refuses(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], field: str) -> None:
    assert run(["replay", SCENARIO, *args]) == 2
    assert field in capsys.readouterr().err


def test_nothing_to_replay_where_nothing_serves(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "examples/infeasible-405b-one-h100.yaml"]) == 3


def test_a_replay_of_a_few_mean_times_is_said_to_be_too_short(capsys: pytest.CaptureFixture[str]) -> None:
    """The number of requests that the warning names is enough to silence it."""
    assert run(["replay", SCENARIO, *LAYOUT, "--requests", "20", "--json"]) == 0
    said = capsys.readouterr().err
    assert "too short to compare" in said
    enough = said.split("--requests ")[1].split(" ")[0].replace(",", "")
    assert run(["replay", SCENARIO, *LAYOUT, "--requests", str(int(1.2 * int(enough))), "--json"]) == 0
    assert "too short" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "given", "allowed"),
    [
        ("--mtp", "1.5", "from 0 to 1"),
        ("--fail", "60:99:120", "a worker from 0 to"),
        ("--fail", "-1:0:5", "at least 0"),
    ],
)
def test_refusals_name_the_option(option: str, given: str, allowed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", SCENARIO, *LAYOUT, "--requests", "20", f"{option}={given}"]) == 2
    said = capsys.readouterr().err
    assert f"{option}: got '{given}'" in said
    assert allowed in said


def test_a_layout_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", SCENARIO, "--tp", "3", "--requests", "50"]) == 3
    refused = capsys.readouterr()
    assert refused.out == ""
    assert run(["estimate", SCENARIO, "--tp", "3"]) == 3
    assert refused.err == capsys.readouterr().err


def test_a_layout_with_more_requests_than_memory_holds_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", SCENARIO, "--tp", "4", "--concurrency", "100000"]) == 3
    assert "at 100,000 requests per worker: needs" in capsys.readouterr().err


def test_one_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", SCENARIO, *LAYOUT, "--requests", "1"]) == 0
    assert "Requests arrive for 0 s" in capsys.readouterr().err
    _, document = _json(capsys, SCENARIO, *LAYOUT, "--profile", "short_qa", "--requests", "1", "--rate", "3")
    assert document["trace"]["rate_rps"] is None
    assert document["ttft_ms"]["mean"] > 0


@pytest.mark.parametrize("rate", ["1e9", "nan", "0", "-1"])
def test_rates_beyond_any_service_are_refused(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", SCENARIO, *LAYOUT, "--profile", "short_qa", "--requests", "20", "--rate", rate]) == 2
    assert "1e-06 to 1,000,000 requests/s" in capsys.readouterr().err


def test_requests_at_one_time_have_no_gaps_to_stretch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "burst.jsonl"
    path.write_text('{"timestamp": 5, "input_length": 100, "output_length": 10}\n' * 3)
    assert run(["replay", SCENARIO, *LAYOUT, "--trace", str(path), "--rate", "2"]) == 2
    assert "arrive at different times" in capsys.readouterr().err


def test_a_failure_is_named_and_its_backlog_is_no_throughput(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = _json(capsys, SCENARIO, *LAYOUT, "--requests", "1500", "--fail", "30:0:60")
    assert document["throughput_rps"] <= 1.15 * document["trace"]["rate_rps"]
    assert document["failures"] == [{"at_s": 30.0, "worker": 0, "recovery_s": 60.0}]
    assert "Worker 0 fails at 30 s and is back 60 s later" in document["notes"][0]
    _, late = _json(capsys, SCENARIO, *LAYOUT, "--requests", "100", "--fail", "90000:0:60")
    assert "after the last request: it changes nothing" in late["notes"][0]
    _, without = _json(capsys, SCENARIO, *LAYOUT, "--requests", "100")
    assert without["notes"] == []


def test_caches_that_start_empty_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(SCENARIO).read_text().replace("  arrival:", "  prefix_reuse: {prefixes: 2000, tokens: 500}\n  arrival:")
    path = tmp_path / "reuse.yaml"
    path.write_text(text)
    _, document = _json(capsys, str(path), "--requests", "300")
    (note,) = document["notes"]
    assert "caches start empty" in note
    assert f"{document['occupancy']['cached_share_of_prompts']:.0%} of prompt tokens" in note


@pytest.mark.parametrize("option", [("--tp", "2"), ("--routing", "least_loaded"), ("--fail", "1:0:1")])
def test_a_ladder_takes_no_option_that_its_rungs_set(
    option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", SCENARIO, "--ladder", *option]) == 2
    assert capsys.readouterr().err.startswith(f"planner: {option[0]}: got")

"""Start-up logs: a check that was never fitted to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from planner.catalog import catalog
from planner.cli import run
from planner.errors import InputError
from planner.evidence.memory_logs import log_row, read_logs, validate_logs
from planner.evidence.recognise import kind_of

MEASURED = Path(__file__).resolve().parents[2] / "measured"


@pytest.fixture(scope="module")
def report() -> dict:
    return validate_logs(read_logs(MEASURED / "memory_logs.yaml"), catalog(MEASURED))


def test_every_entry_is_accounted_for(report: dict) -> None:
    engines = report["engines"].values()
    assert (
        sum(r["rows"] for r in engines) + sum(report["skipped"].values())
        == report["rows"]
        == len(report["predictions"])
    )
    assert report["predicted"] + sum(report["failed"].values()) == report["rows"]


def test_weights_and_cache_entries_hold_outside_the_fit(report: dict) -> None:
    vllm = report["engines"]["vllm"]["metrics"]
    assert vllm["weights_gib"]["points"] >= 20
    assert vllm["weights_gib"]["median_ape"] <= 0.01
    assert vllm["kv_bytes_per_token"]["median_ape"] <= 0.002
    sglang = report["engines"]["sglang"]["metrics"]
    assert sglang["kv_bytes_per_token"]["median_ape"] <= 0.001
    assert sglang["weights_gib"]["median_ape"] <= 0.03


def test_what_an_entry_does_not_state_is_not_compared() -> None:
    row = log_row({"id": "a", "model": "Llama-3-8B (x)", "metrics": {"available_kv_GiB_per_gpu": 5.0}})
    assert (row["model"], row["gpu_mem_gib"]) == ("Llama-3-8B", "inf")
    assert "available_kv_gib" not in row


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "logs.yaml"
    path.write_text("a: 1")
    with pytest.raises(InputError, match="list"):
        read_logs(path)


def test_the_command_reads_the_collection(capsys: pytest.CaptureFixture[str]) -> None:
    path = MEASURED / "memory_logs.yaml"
    assert kind_of(path) == "memory_logs"
    assert run(["validate", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"]["weights_gib"]["median_ape"] < 0.01
    assert {g["value"] for g in document["groups"]} == {"vllm", "sglang"}
    assert run(["validate", str(path)]) == 0
    assert "engine: got 'ktransformers'" in capsys.readouterr().out


GOOD = {
    "id": "a",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "engine": "vLLM",
    "layout": {"tp": 1},
    "metrics": {"model_load_GiB_per_gpu": 14.99},
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"layout": "TP8"}, "layout: got 'TP8'"),
        ({"metrics": None}, "metrics: got None"),
        ({"metrics": {"available_kv_GiB_per_gpu": "lots"}}, "metrics.available_kv_GiB_per_gpu: got 'lots'"),
    ],
)
def test_a_cell_that_means_nothing_costs_its_entry_with_the_reason(change: dict, reason: str) -> None:
    report = validate_logs([GOOD, GOOD | change], catalog())
    assert (report["rows"], report["predicted"]) == (2, 1)
    assert [r for r in report["failed"] if r.startswith(reason)]


@pytest.mark.parametrize("start", ["", "# my logs\n", "---\n"])
def test_keys_of_an_entry_count_in_any_order(tmp_path: Path, start: str) -> None:
    path = tmp_path / "logs.yaml"
    path.write_text(start + yaml.safe_dump([GOOD], sort_keys=True))
    assert kind_of(path) == "memory_logs"

"""``planner size`` on a small example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planner
from planner.cli import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = str(EXAMPLES / "qwen3-32b-l40s.yaml")


def test_json_holds_the_plan_s_sizing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", SMALL, "--json", "--hourly", ",".join(["1"] * 20 + ["4"] * 4), "--failures", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["day"]["mean_rps"] == pytest.approx(max(document["day"]["hourly_rps"]) * 1.5 / 4)
    assert [f["count"] for f in document["failures"]] == [2, 2, 2]
    assert document["recovery"]["total_s"] > document["recovery"]["weights_s"] > 0


def test_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", SMALL, "--peak-to-mean", "2"]) == 0
    text = capsys.readouterr().out
    for part in ("GPUs = ", "Over a day", "Headroom for failures", "1 GPU", "Recovery of one worker", "in all"):
        assert part in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--hourly", "1,2,x"), "24 numbers"),
        (("--hourly", "1,2,3"), "--hourly: got '1,2,3'; 24 numbers of at least 0"),
        (("--hourly", ",".join(["0"] * 24)), "one of them above 0"),
        (("--peak-to-mean", "0.5"), "--peak-to-mean: got 0.5; must be at least 1"),
        (("--failures", "500"), "--failures: got 500; must be at most 100"),
        (("--peak-to-mean", "2", "--hourly", "1"), "either"),
    ],
)
def test_bad_input_is_one_sentence(options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", SMALL, *options]) == 2
    assert said in capsys.readouterr().err


def test_another_candidate_is_sized(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", SMALL, "--candidate", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    second = planner.plan(planner.load_scenario(SMALL)).candidates[1]
    assert document["fleet"].startswith(f"{second.gpus} GPUs = ")
    assert second.layout.describe() in document["answer"]


def test_a_candidate_that_there_is_not_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", SMALL, "--candidate", "900"]) == 2
    assert "--candidate: got 900; a rank from 1 to" in capsys.readouterr().err


def test_nothing_feasible_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", str(EXAMPLES / "infeasible-405b-one-h100.yaml")]) == 3
    assert "Nothing serves" in capsys.readouterr().err


def test_pools_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "split.yaml"
    path.write_text(Path(SMALL).read_text().replace("objective:", "search: {serving: [disagg]}\nobjective:"))
    assert run(["size", str(path), "--peak-to-mean", "2", "--json"]) == 0
    day = json.loads(capsys.readouterr().out)["day"]
    assert len(day["hourly_prefill_workers"]) == 24
    assert run(["size", str(path), "--peak-to-mean", "2"]) == 0
    text = capsys.readouterr().out
    assert "prefill workers" in text
    assert "decode workers" in text
    assert "replicas" not in text.split("Over a day")[1]


def test_spare_nodes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spare.yaml"
    path.write_text(Path(SMALL).read_text() + "\nreliability: {spare_nodes: 2}\n")
    assert run(["size", str(path), "--peak-to-mean", "2"]) == 0
    text = capsys.readouterr().out
    assert "l40s-8-pcie (2 of them spare) · " in text
    assert "spare nodes included." in text.split("Over a day")[1].split("Headroom")[0]


def test_losing_the_only_prefill_worker_breaks_the_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "split.yaml"
    text = Path(SMALL).read_text().replace("objective:", "search: {serving: [disagg]}\nobjective:")
    path.write_text(text)
    assert run(["size", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["needed_prefill_workers"] == 1
    assert document["fleet"].split(" + ")[0].split("prefill ")[1].startswith("1 replica ")
    assert [f["met_without_spares"] for f in document["failures"]] == [False, False, False]
    assert run(["size", str(path)]) == 0
    assert "1 prefill, " in capsys.readouterr().out

"""Files a scenario names are read into it, and only from its own folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scenario_data import changed

from planner.errors import InputError, UnknownNameError
from planner.scenario.lengths import EmpiricalLength
from planner.scenario.load import load_scenario, scenario_from_data
from planner.scenario.loads import Trace

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.stem)
def test_examples_load_and_round_trip(path: Path) -> None:
    scenario = load_scenario(path)
    assert load_scenario(scenario.to_yaml()) == scenario


def test_lengths_and_arrivals_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(
        "t,n\n2024-05-10 00:00:00.0000000,10\n2024-05-10 00:00:01.5,30\n2024-05-10 00:00:02,10\n"
    )
    (tmp_path / "n.jsonl").write_text("\n".join(json.dumps({"timestamp": t, "n": 5}) for t in (3000, 0, 1000)))
    data = changed("workload.input_tokens", {"kind": "empirical", "file": "n.csv", "column": "n"})
    data["workload"]["arrival"] = {"kind": "trace", "file": "n.jsonl", "column": "timestamp", "unit": "ms"}
    scenario = scenario_from_data(data, tmp_path)
    lengths, arrival = scenario.workload.input_tokens, scenario.workload.arrival
    assert isinstance(lengths, EmpiricalLength)
    assert lengths.values_tokens == (10, 30)
    assert lengths.weights == (2.0, 1.0)
    assert isinstance(arrival, Trace)
    assert arrival.rate() == pytest.approx(2 / 3.0)
    assert arrival.gap_cv() == pytest.approx(0.5 / 1.5)
    # self-contained: reads back without the files
    assert load_scenario(scenario.to_yaml()) == scenario
    data["workload"]["arrival"] = {"kind": "trace", "file": "n.csv", "column": "t", "unit": "iso8601"}
    assert scenario_from_data(data, tmp_path).workload.arrival.rate() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["../n.csv", "/etc/passwd", "sub/../../n.csv", "link.csv", "none.csv", "sub"])
def test_files_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "scenario"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "n.csv").write_text("n\n1\n")
    (folder / "link.csv").symlink_to(tmp_path / "n.csv")
    data = changed("workload.input_tokens", {"kind": "empirical", "file": name, "column": "n"})
    with pytest.raises(InputError) as caught:
        scenario_from_data(data, folder)
    assert caught.value.field == "workload.input_tokens.file"


@pytest.mark.parametrize(
    "text",
    ["n\n", "n\n0\n", "n\n1.5\n", "n\nx\n", "n\nnan\n", "n\n-3\n", "m\n1\n", "", "n\n\xff\n"],
)
def test_bad_length_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "n.csv").write_bytes(text.encode("latin-1"))
    data = changed("workload.input_tokens", {"kind": "empirical", "file": "n.csv", "column": "n"})
    with pytest.raises(InputError) as caught:
        scenario_from_data(data, tmp_path)
    assert caught.value.field.startswith("workload.input_tokens")


@pytest.mark.parametrize("text", ["t\n1\n2\n", "t\n1\n1\n1\n", "t\na\nb\nc\n"])
def test_bad_traces(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    data = changed("workload.arrival", {"kind": "trace", "file": "t.csv", "column": "t", "unit": "s"})
    with pytest.raises(InputError) as caught:
        scenario_from_data(data, tmp_path)
    assert caught.value.field.startswith("workload.arrival")


def test_unknown_column_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "n.jsonl").write_text('{"input_length": 3}\n')
    data = changed("workload.input_tokens", {"kind": "empirical", "file": "n.jsonl", "column": "input_lengths"})
    with pytest.raises(UnknownNameError, match="input_length"):
        scenario_from_data(data, tmp_path)


def test_unreadable_scenarios(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\xfe")
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "latin.yaml"):
        with pytest.raises(InputError):
            load_scenario(path)
    with pytest.raises(InputError, match="folder"):
        scenario_from_data(changed("workload.input_tokens", {"kind": "empirical", "file": "n.csv", "column": "n"}))

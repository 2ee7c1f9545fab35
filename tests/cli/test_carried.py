"""Files that carry hardware of the asker's own: every command takes it where nobody knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml

from planner.catalog import catalog
from planner.cli import run
from planner.cli.questions import catalog_of, read_question
from planner.errors import InputError
from planner.scenario.load import load_scenario
from planner.search.plan_schema import Plan

ROOT = Path(__file__).parents[2]


def shipped(kind: str, id: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "hardware_db" / kind / f"{id}.yaml").read_text(encoding="utf-8")))


ENTRIES = {
    "accelerator": {"acme-x1": shipped("accelerators", "h100-sxm") | {"id": "acme-x1"}},
    "node": {"acme-x1-8": shipped("nodes", "dgx-h100") | {"id": "acme-x1-8", "accelerator": "acme-x1"}},
}


def folder_of(entries: dict[str, Any], folder: Path) -> Path:
    for kind, members in entries.items():
        (folder / f"{kind}s").mkdir(parents=True)
        for id, data in members.items():
            (folder / f"{kind}s" / f"{id}.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    scenario = yaml.safe_load((ROOT / "examples" / "gpt-oss-120b-h100.yaml").read_text(encoding="utf-8"))
    scenario["hardware"] = {"candidates": [{"node": "acme-x1-8"}]}
    scenario["workload"]["arrival"] = {"kind": "poisson", "rate_rps": 5.0}
    scenario["economics"] = {"usd_per_gpu_hour": {"acme-x1-8": 2.5}}
    (folder / "s.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    own, path = folder_of(ENTRIES, folder / "catalogue"), folder / "plan.yaml"
    assert run(["plan", str(folder / "s.yaml"), "--catalog", str(own), "--out", str(path)]) == 0
    plan = Plan.from_yaml(path)
    assert plan.catalogue is None, "a folder of the catalogue stays where it is"
    path.write_text(plan.model_copy(update={"catalogue": ENTRIES}).to_yaml(), encoding="utf-8")
    return path


def test_a_plan_brings_its_hardware(plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again, book = tmp_path / "again.yaml", tmp_path / "plan.xlsx"
    assert run(["plan", str(plan_file), "--out", str(again)]) == 0
    assert "hardware that the file carries: accelerator acme-x1, node acme-x1-8" in capsys.readouterr().err
    first, second = Plan.from_yaml(plan_file), Plan.from_yaml(again)
    assert second.catalogue is not None
    assert second.candidates == first.candidates
    assert second.catalogue["node"]["acme-x1-8"]["gpus"] == ENTRIES["node"]["acme-x1-8"]["gpus"]
    assert run(["export", str(again), "--format", "vllm"]) == 0
    assert run(["sheet", str(again), "--out", str(book)]) == 0
    assert "acme-x1-8" in {cell.value for cell in openpyxl.load_workbook(book)["Prices"]["A"]}
    assert "acme-x1-8" not in catalog().node_ids()


@pytest.fixture(scope="module")
def scenario_file(plan_file: Path) -> Path:
    """What the app saves: the scenario, and the hardware beside it."""
    data = yaml.safe_load(plan_file.with_name("s.yaml").read_text(encoding="utf-8"))
    path = plan_file.with_name("carrying.yaml")
    path.write_text(yaml.safe_dump({**data, "catalogue": ENTRIES}, sort_keys=False), encoding="utf-8")
    return path


def test_a_scenario_file_brings_its_hardware_to_its_plan(plan_file: Path, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.yaml"
    assert run(["plan", str(scenario_file), "--out", str(out)]) == 0
    made, first = Plan.from_yaml(out), Plan.from_yaml(plan_file)
    assert made.candidates == first.candidates
    assert made.catalogue == ENTRIES
    assert run(["export", str(out), "--format", "vllm"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["size"],
        ["estimate", "--tp", "2"],
        ["memory", "--tp", "2"],
        ["replay", "--requests", "20"],
        ["split-map", "--lengths", "1000", "--rates", "5"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_takes_it(
    plan_file: Path, scenario_file: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for file in (plan_file, scenario_file):
        assert run([words[0], str(file), *words[1:], "--json"]) == 0
        printed = capsys.readouterr()
        assert printed.err.count("hardware that the file carries: accelerator acme-x1, node acme-x1-8") == 1
        said.append(printed.out)
    assert said[0] == said[1]


def test_who_cannot_take_it_says_what_to_do(
    scenario_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="load_carrying reads both"):
        load_scenario(scenario_file)
    grid = scenario_file.with_name("grid.yaml")
    grid.write_text(f"schema: planner.sweep/1\nbase: {scenario_file.name}\ngrid: {{objective: [lowest_cost]}}\n")
    assert run(["sweep", str(grid)]) == 2
    assert "PLANNER_CATALOG_DIR" in capsys.readouterr().err


def test_what_is_no_entry_is_refused(plan_file: Path, scenario_file: Path, tmp_path: Path) -> None:
    def entry(kind: str, id: str, **fields: Any) -> dict[str, Any]:
        return {kind: {id: ENTRIES[kind][next(iter(ENTRIES[kind]))] | fields}}

    with pytest.raises(InputError, match="small letters"):
        catalog_of(entry("node", "../up"), None)
    with pytest.raises(InputError, match=r"catalogue\.node\.acme-x1-8"):
        catalog_of(entry("node", "acme-x1-8", gpus="eight"), None)
    with pytest.raises(InputError, match="is not the same"):
        catalog_of(entry("node", "dgx-h100"), None)
    same = folder_of(ENTRIES, tmp_path / "own")
    assert catalog_of(ENTRIES, same).user_dir == same, "a folder that has them already"
    for file in (plan_file, scenario_file):
        bad = file.with_name("bad.yaml")
        bad.write_text(
            file.read_text(encoding="utf-8").replace("  accelerator:\n", "  accelerators:\n", 1), encoding="utf-8"
        )
        with pytest.raises(InputError, match="catalogue"):
            read_question(bad, None)

"""Plan files that carry hardware of the asker's own: planned, exported and made workbooks of where nobody knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml

from planner.catalog import catalog
from planner.cli import run
from planner.cli.carried import catalog_of, names
from planner.errors import InputError
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
    assert "hardware of the plan file's own: accelerator acme-x1, node acme-x1-8" in capsys.readouterr().err
    first, second = Plan.from_yaml(plan_file), Plan.from_yaml(again)
    assert second.catalogue is not None
    assert second.candidates == first.candidates
    assert second.catalogue["node"]["acme-x1-8"]["gpus"] == ENTRIES["node"]["acme-x1-8"]["gpus"]
    assert run(["export", str(again), "--format", "vllm"]) == 0
    assert run(["sheet", str(again), "--out", str(book)]) == 0
    assert "acme-x1-8" in {cell.value for cell in openpyxl.load_workbook(book)["Prices"]["A"]}
    assert "acme-x1-8" not in catalog().node_ids()


def test_other_commands_say_what_they_need(plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", str(plan_file)]) == 2
    told = capsys.readouterr().err
    assert "plan.yaml carries hardware of its own (accelerator acme-x1, node acme-x1-8)" in told
    assert "--catalog" in told
    assert run(["size", str(plan_file), "--catalog", str(folder_of(ENTRIES, tmp_path / "own"))]) == 0


def changed(plan: Plan, kind: str, id: str, **fields: Any) -> Plan:
    return plan.model_copy(update={"catalogue": {kind: {id: ENTRIES[kind][next(iter(ENTRIES[kind]))] | fields}}})


def test_what_is_no_entry_is_refused(plan_file: Path, tmp_path: Path) -> None:
    plan = Plan.from_yaml(plan_file)
    with pytest.raises(InputError, match="small letters"):
        catalog_of(changed(plan, "node", "../up"), None)
    with pytest.raises(InputError, match=r"catalogue\.node\.acme-x1-8"):
        catalog_of(changed(plan, "node", "acme-x1-8", gpus="eight"), None)
    with pytest.raises(InputError, match="is not the same"):
        catalog_of(changed(plan, "node", "dgx-h100"), None)
    same = folder_of(ENTRIES, tmp_path / "own")
    assert catalog_of(plan, same).user_dir == same, "a folder that has them already"
    assert names(plan.model_copy(update={"catalogue": None})) == ""
    plan_file.with_name("bad.yaml").write_text(
        plan_file.read_text(encoding="utf-8").replace("  accelerator:\n", "  accelerators:\n", 1), encoding="utf-8"
    )
    with pytest.raises(InputError, match="catalogue"):
        Plan.from_yaml(plan_file.with_name("bad.yaml"))

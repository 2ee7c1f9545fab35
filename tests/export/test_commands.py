"""The commands: plan files in, exports out, sentences for what is wrong."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml
from plans import example

from planner.cli import run
from planner.export.formats import FORMATS, suffix
from planner.sweeps import run as sweeps

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    path.write_text(example("deepseek-r1-h200").to_yaml(), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_to_standard_output_and_to_a_file(
    name: str, plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(plan_file), "--format", name]) == 0
    printed = capsys.readouterr().out
    out = tmp_path / f"out{suffix(name)}"
    assert run(["export", str(plan_file), "--format", name, "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == printed


def test_export_answers_in_json(plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", str(plan_file), "--format", "vllm", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["format"], printed["candidate"], printed["out"]) == ("vllm", 1, None)
    out = tmp_path / "launch.sh"
    assert run(["export", str(plan_file), "--format", "vllm", "--json", "--out", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["out"] == str(out)
    assert document["text"] == printed["text"] == out.read_text(encoding="utf-8")
    assert run(["export", str(plan_file), "--format", "vlm", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["field"] == "--format"


def test_a_plan_of_hardware_from_a_folder_takes_that_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped, folder, plan, book = (
        EXAMPLES.parent / "hardware_db",
        tmp_path / "own",
        tmp_path / "p.yaml",
        tmp_path / "p.xlsx",
    )
    (folder / "nodes").mkdir(parents=True)
    node = yaml.safe_load((shipped / "nodes" / "dgx-h100.yaml").read_text(encoding="utf-8"))
    (folder / "nodes" / "house.yaml").write_text(yaml.safe_dump(node | {"id": "house"}), encoding="utf-8")
    scenario = yaml.safe_load((EXAMPLES / "gpt-oss-120b-h100.yaml").read_text(encoding="utf-8"))
    scenario["hardware"] = {"candidates": [{"node": "house"}]}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    own = ["--catalog", str(folder)]
    assert run(["plan", str(tmp_path / "s.yaml"), *own, "--out", str(plan)]) == 0
    assert run(["export", str(plan), "--format", "vllm", *own]) == 0
    assert run(["sheet", str(plan), *own, "--out", str(book)]) == 0
    assert "house" in {cell.value for cell in openpyxl.load_workbook(book)["Prices"]["A"]}
    capsys.readouterr()
    assert run(["export", str(plan), "--format", "vllm"]) == 2
    assert "house" in capsys.readouterr().err
    assert run(["sheet", "run", str(book), str(tmp_path / "out.xlsx"), *own]) == 2
    assert "PLANNER_CATALOG_DIR" in capsys.readouterr().err


def test_what_is_wrong_is_a_sentence(plan_file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["export", str(plan_file), "--format", "vlm"]) == 2
    assert "did you mean vllm" in capsys.readouterr().err
    assert run(["export", str(plan_file), "--format", "vllm", "--candidate", "999"]) == 2
    assert "rank from 1" in capsys.readouterr().err
    nothing = tmp_path / "nothing.yaml"
    nothing.write_text(example("infeasible-405b-one-h100").to_yaml(), encoding="utf-8")
    assert run(["export", str(nothing), "--format", "vllm"]) == 3
    assert run(["export", str(nothing), "--format", "report-md"]) == 0


def test_sheet(plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.xlsx"
    assert run(["sheet", str(plan_file), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": str(out)}
    assert openpyxl.load_workbook(out).sheetnames[0] == "Summary"
    assert run(["sheet", str(plan_file), "--candidate", "2", "--out", str(out)]) == 0
    assert openpyxl.load_workbook(out)["Summary"]["B5"].value == 2
    assert run(["sheet", str(plan_file), "--candidate", "999", "--out", str(out)]) == 2
    assert run(["sheet", "run", "one.xlsx", "two.xlsx", "--candidate", "2"]) == 2
    assert "--candidate: got 2; absent" in capsys.readouterr().err
    assert run(["sheet", str(plan_file)]) == 2
    assert run(["sheet", "run", "one.xlsx"]) == 2
    assert "IN.xlsx OUT.xlsx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (("sheet", "PLAN", "--out", "l4.csv"), ".xlsx"),
        (("sheet", "PLAN", "--out", "l4"), ".xlsx"),
        (("sheet", "template", "l4.csv"), ".xlsx"),
        (("sheet", "run", "in.xlsx", "l4.csv"), ".xlsx"),
        (("export", "PLAN", "--format", "report-html", "--out", "l4.md"), ".html or .htm"),
        (("export", "PLAN", "--format", "report-md", "--out", "l4.pdf"), ".md"),
        (("export", "PLAN", "--format", "vllm", "--out", "l4.yaml"), ".sh"),
        (("export", "PLAN", "--format", "dynamo", "--out", "l4.sh"), ".yaml or .yml"),
        (("plan", "PLAN", "--out", "l4.json"), ".yaml or .yml"),
        (("replay", "PLAN", "--out", "l4.csv"), ".jsonl"),
    ],
)
def test_an_ending_of_another_kind_of_file_is_refused_before_the_work(
    words: tuple[str, ...],
    ending: str,
    plan_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert run([str(plan_file) if word == "PLAN" else word for word in words]) == 2
    said = capsys.readouterr()
    assert "got 'l4" in said.err
    assert said.err.endswith(f"; a file that ends in {ending}\n")
    assert said.out == ""
    assert set(tmp_path.iterdir()) == before


def test_a_script_may_have_a_name_of_its_own(plan_file: Path, tmp_path: Path) -> None:
    for name in ("serve", "serve.bash", "SERVE.SH"):
        assert run(["export", str(plan_file), "--format", "sglang", "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).is_file()


def test_sheet_run_keeps_good_rows_beside_bad_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.xlsx", tmp_path / "out.xlsx"
    assert run(["sheet", "template", str(source)]) == 0
    book = openpyxl.load_workbook(source)
    sheet = book["Scenarios"]
    for i, value in enumerate([c.value for c in sheet[2]], start=1):
        sheet.cell(3, i, "nonsense" if sheet.cell(1, i).value == "model" else value)
    sheet.cell(1, sheet.max_column + 1, "prix")
    book.save(source)
    capsys.readouterr()
    assert run(["sheet", "run", str(source), str(out), "--json"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["by_status"] == {"ok": 1, "error": 1}
    assert json.loads(told.out)["columns_left"] == ["prix"]
    assert told.err.splitlines()[0] == "left as they are, no columns of a scenario: prix"
    rows = list(openpyxl.load_workbook(out)["Scenarios"].iter_rows(values_only=True))
    at = {n: i for i, n in enumerate(rows[0])}
    assert rows[1][at["gpus"]] > 0
    assert "nonsense" in rows[2][at["message"]]


def test_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = {
        "schema": "planner.sweep/1",
        "base": example("gpt-oss-120b-h100").scenario.to_dict(),
        "grid": {"workload.prefix_hit_rate": [0.0, 0.5]},
    }
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    out = tmp_path / "out.csv"
    assert run(["sweep", str(tmp_path / "grid.yaml"), "--out", str(tmp_path / "out.json")]) == 2
    assert "--out: got 'out.json'; a file that ends in .csv or .parquet" in capsys.readouterr().err
    assert run(["sweep", str(tmp_path / "grid.yaml"), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by_status"] == {"ok": 2}
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3


def test_a_sweep_that_is_stopped_says_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = example("gpt-oss-120b-h100").scenario.to_dict()
    grid = {"schema": "planner.sweep/1", "base": base, "grid": {"workload.prefix_hit_rate": [0.0, 0.5]}}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    command = ["sweep", str(tmp_path / "grid.yaml"), "--out", str(tmp_path / "out.csv")]
    real, asked = sweeps.answer, []

    def stops(task: Any) -> Any:
        asked.append(task["index"])
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(sweeps, "answer", stops)
    with contextlib.suppress(KeyboardInterrupt):
        assert run(command) != 0
    assert "the same command goes on from them" in capsys.readouterr().err
    assert run(command) == 0
    assert asked == [0, 1, 1]
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("1 kept, 1 to plan")
    assert [line.split(":")[0] for line in told[1:-1]] == ["2 of 2"]


def test_a_misspelt_grid_key_fails_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = (Path(__file__).parents[2] / "examples" / "llama-3.3-70b-mi300x.yaml").read_text(encoding="utf-8")
    (tmp_path / "base.yaml").write_text(base, encoding="utf-8")
    text = "schema: planner.sweep/1\nbase: base.yaml\ngrid: {workload.arrivals.rate_rps: [1, 2]}\n"
    (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
    assert run(["sweep", str(tmp_path / "grid.yaml"), "--out", str(tmp_path / "out.csv")]) == 2
    assert "grid.workload.arrivals" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_a_column_that_is_there_twice_is_refused_by_its_letters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns of a buyer's own may repeat."""
    book = openpyxl.Workbook()
    head = ("note", "note", "model", "node", "input_tokens", "output_tokens", "rate_rps")
    for row in ((*head, "rate_rps"), ("a", "b", "qwen3-32b", "dgx-h100", 1000, 100, 2, 5)):
        book.active.append(row)
    source, target = tmp_path / "in.xlsx", tmp_path / "out.xlsx"
    book.save(source)
    assert run(["sheet", "run", str(source), str(target)]) == 2
    assert "rate_rps in column G, rate_rps in column H" in capsys.readouterr().err
    assert not target.exists()
    book.active.delete_cols(8)
    book.save(source)
    assert run(["sheet", "run", str(source), str(target)]) == 0

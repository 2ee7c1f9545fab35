"""Exit codes, one JSON document on standard output, sentences on standard error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import plan_data
import pytest

from planner.cli import run
from planner.scenario import safe_yaml
from planner.search.plan_schema import Estimate, Plan

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CHAT = str(EXAMPLES / "deepseek-r1-h200.yaml")


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Planning replaced by a hand-made answer: feasible except for the example that is not; records the questions."""
    questions: list[Any] = []

    def fake(scenario: Any, catalog: Any = None) -> Plan:
        questions.append(scenario)
        return plan_data.plan("405B" not in scenario.name, scenario=scenario)

    def fake_estimate(scenario: Any, layout: Any, *, node: Any, concurrency: Any, catalog: Any) -> Estimate:
        questions.append((layout.row(0), node, concurrency))
        whole = plan_data.plan(scenario=scenario)
        fits = layout.tp[0] > 1
        return Estimate(
            scenario=scenario,
            identity=whole.identity,
            candidate=whole.candidates[0],
            feasible=bool(fits),
            rejected=() if fits else whole.rejected[:1],
            assumptions=whole.assumptions,
            versions=whole.versions,
        )

    module = types.ModuleType("planner.search.planning")
    module.plan, module.estimate = fake, fake_estimate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planner.search.planning", module)
    return questions


def test_plan_json_is_one_document(answered: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "plan.yaml"
    assert run(["plan", CHAT, "--json", "--out", str(out), "--top", "1"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert [c["rank"] for c in document["candidates"]] == [1]
    assert "plan.yaml" in printed.err
    assert len(Plan.from_yaml(out).candidates) == 2


def test_a_plan_file_is_planned_again(answered: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    assert run(["plan", CHAT, "--out", str(first)]) == 0
    assert run(["plan", str(first), "--out", str(second)]) == 0
    assert answered[0] == answered[1]
    assert first.read_text() == second.read_text()


def test_percentages_are_written_one_way(
    answered: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "plan.yaml"
    assert run(["plan", CHAT, "--out", str(out)]) == 0
    for format in ("report-md", "report-html"):
        assert run(["export", str(out), "--format", format]) == 0
    told = capsys.readouterr().out
    assert told.count("takes 61 % of the step") >= 3
    assert not re.search(r"\d%(?!\w)", re.sub("<style>.*?</style>", "", told, flags=re.DOTALL))


def test_plan_for_people(answered: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", CHAT]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 × dgx-h200 · 16 GPUs")
    for part in ("Candidates by lowest cost", "SLO", "A decode step", "Memory of the fullest rank", "Why others fail"):
        assert part in text
    assert "Extrapolated" in text
    assert "Assumptions" in text
    assert "1 on the frontier" in text


def test_nothing_feasible_is_3(answered: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLES / "infeasible-405b-one-h100.yaml")
    assert run(["plan", path, "--json"]) == 3
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["candidates"] == []
    assert document["rejected"][0]["reason"] == "memory"
    assert document["nearest_misses"]
    assert "memory" in printed.err
    assert run(["plan", path]) == 3
    assert "Nearest misses" in capsys.readouterr().out


def test_estimate(answered: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    args = ["estimate", CHAT, "--tp", "8", "--ep", "8", "--concurrency", "64", "--node", "dgx-h200"]
    assert run([*args, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["feasible"] is True
    assert document["candidate"]["tpot_ms"]["mean"] == 43.1
    layout, node, concurrency = answered[0]
    assert (layout["tp"], layout["moe_tp"], layout["ep"], node, concurrency) == (8, 1, 8, "dgx-h200", 64)
    assert run(args) == 0
    assert "A decode step" in capsys.readouterr().out
    assert run(["estimate", CHAT]) == 3
    assert "160.2 GiB" in capsys.readouterr().err


def test_an_estimate_says_at_the_top_what_a_concurrency_comes_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", CHAT, "--tp", "8", "--concurrency", "16"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("A concurrency of 16 is what a worker may hold on average: at 1.5 requests per second")
    assert sum("A concurrency of 16" in line for line in lines) == 1


def test_a_file_is_called_as_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "/dev/null"]) == 2
    assert capsys.readouterr().err == "planner: /dev/null: got nothing; must be a mapping of keys to values\n"


@pytest.mark.parametrize("wanted", ["scenario", "plan"])
def test_a_pipe_is_read_once(wanted: str, answered: list[Any], tmp_path: Path) -> None:
    """As a shell's <(command) hands it over: at a second reading there is nothing left, or nobody writes."""
    source = Path(CHAT)
    if wanted == "plan":
        source = tmp_path / "plan.yaml"
        assert run(["plan", CHAT, "--out", str(source)]) == 0
    ends = os.pipe()
    writer = threading.Thread(target=_fill, args=(ends[1], source.read_bytes()))
    writer.start()
    try:
        assert run(["plan", f"/dev/fd/{ends[0]}"]) == 0
    finally:
        os.close(ends[0])
        writer.join(10)
    assert answered[-1] == answered[0]


def _fill(end: int, content: bytes) -> None:
    with os.fdopen(end, "wb") as out:
        out.write(content)


def test_an_endless_file_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_yaml, "MAX_PLAN_BYTES", 1 << 16)
    assert run(["plan", "/dev/zero"]) == 2
    assert "/dev/zero" in capsys.readouterr().err


BAD_USAGE = [
    ["plan"],
    ["plan", "none.yaml"],
    ["plan", CHAT, "--tops", "3"],
    ["plan", CHAT, "--top", "0"],
    ["plan", CHAT, "--top", "many"],
    ["plan", CHAT, "--catalog", "/nowhere"],
    ["plan", str(EXAMPLES)],
    ["paln", CHAT],
    ["estimate", CHAT, "--tp", "0"],
    ["estimate", CHAT, "--tp", "8", "--ep", "3"],
    ["memory", "deepseek-v33", "--accelerator", "h200-sxm"],
    ["memory", "deepseek-v3", "--accelerator", "h200"],
    ["memory", "deepseek-v3"],
    ["catalog", "gpus"],
    ["catalog", "nodes", "dgx-h101"],
    ["import-model", "none.json"],
    ["import-model", CHAT],
    ["schema", "scenarios"],
    ["compare", CHAT],
    ["compare", CHAT, CHAT],
    ["calibrate"],
    ["calibrate", "ops", "/nowhere"],
    ["validate", "none.csv"],
    ["validate", CHAT],
]


@pytest.mark.parametrize("args", BAD_USAGE, ids=[" ".join(a).replace(str(EXAMPLES), "examples") for a in BAD_USAGE])
@pytest.mark.parametrize("as_json", [False, True], ids=["", "json"])
def test_bad_usage_is_2_and_one_sentence(args: list[str], as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*args, *(["--json"] if as_json else [])]) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    if args == ["calibrate"] and not as_json:
        return  # no command: the help is the answer
    assert printed.err.startswith("planner: ")
    assert printed.err.count("\n") == 1
    if as_json:
        assert json.loads(printed.out)["error"]["message"] in printed.err
    else:
        assert printed.out == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["plan", CHAT, "--top", "0"], "--top: got '0'; at least 1"),
        (["plan", CHAT, "--top=-3"], "--top: got '-3'; at least 1"),
        (["plan", CHAT, "--top", "ten"], "--top: got 'ten'; a whole number"),
        (["replay", CHAT, "--requests", "0"], "--requests: got '0'; at least 1"),
        (["estimate", CHAT, "--concurrency", "many"], "--concurrency: got 'many'; a number"),
        (["sweep", CHAT, "--workers", "5000"], "--workers: got '5000'; at most 1024"),
        (["pln"], "command: got 'pln'; did you mean plan?"),
        (["calibrate", "opps"], "command: got 'opps'; did you mean ops?"),
    ],
)
def test_bad_usage_names_the_option_what_was_given_and_what_is_allowed(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*args, "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"planner: {said}\n"
    error = json.loads(printed.out)["error"]
    assert error["kind"] == "usage"
    assert f"{error['field']}: got {error['given']}; {error['allowed']}" == said


def test_an_unknown_command_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["frobnicate"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("planner: command: got 'frobnicate'; allowed: plan, size, ")
    for name in ("replay", "catalog", "validate", "calibrate", "sweep"):
        assert name in said


def test_where_a_plan_goes_is_checked_before_planning(
    answered: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (tmp_path, tmp_path / "none" / "plan.yaml"):
        assert run(["plan", CHAT, "--out", str(out)]) == 2
        assert "--out: got" in capsys.readouterr().err
    assert answered == []


def test_a_bad_scenario_leaves_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(CHAT).read_text()
    out = tmp_path / "plan.yaml"
    for old, new, field in (
        ("model: deepseek-r1", "model: deepseek-r9", "model"),
        ("node: dgx-h200,", "node: dgx-h201,", "hardware.candidates.0.node"),
        ("max_nodes: 1", "max_nodes: 1, gpus: 9", "hardware.candidates.0.gpus"),
        ("dgx-h200: 3.5", "dgx-h20: 3.5", "economics.usd_per_gpu_hour.dgx-h20"),
        ("p95: 2000", "p96: 2000", "slo.ttft_ms.p96"),
        ("name: sglang", "name: tgi", "engine.name"),
    ):
        assert old in text
        path = tmp_path / "scenario.yaml"
        path.write_text(text.replace(old, new, 1))
        assert run(["plan", str(path), "--out", str(out)]) == 2
        assert f"{field}: got" in capsys.readouterr().err
    assert not out.exists()


def test_schema_is_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("scenario", "plan", "model"):
        assert run(["schema", what]) == 0
        schema = json.loads(capsys.readouterr().out)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False


def test_examples_satisfy_the_printed_schema(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from planner.scenario.load import load_scenario

    assert run(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    for path in sorted(EXAMPLES.glob("*.yaml")):
        jsonschema.validate(load_scenario(path).to_dict(), schema)


def test_catalog_lists_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == {"models", "accelerators", "nodes", "version"}
    assert "dgx-h200" in {n["id"] for n in listed["nodes"]}
    assert run(["catalog", "nodes"]) == 0
    assert "dgx-h200" in capsys.readouterr().out
    assert run(["catalog", "models", "deepseek-v3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "deepseek-v3"


def test_module_entry_point(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "planner", "plan", "none.yaml", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLES.parent,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "input"


def test_import_is_fast_and_light() -> None:
    code = (
        "import time; t = time.perf_counter(); import planner; s = time.perf_counter() - t; import sys;"
        "heavy = ('pandas', 'scipy', 'plotly', 'streamlit', 'pydantic', 'numpy');"
        "print(s, [m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=EXAMPLES.parent)
    seconds, loaded = done.stdout.strip().split(" ", 1)
    assert float(seconds) < 0.3
    assert loaded == "[]"


def test_names_are_exported() -> None:
    import planner

    for name in ("Scenario", "Plan", "load_scenario", "catalog", "sheet", "InputError"):
        assert getattr(planner, name) is not None
        assert name in dir(planner)
    with pytest.raises(AttributeError):
        _ = planner.no_such_name


@pytest.mark.parametrize("words", [("memory", "qwen3-8b", "--accelerator", "h100-sxm"), ("schema", "scenario")])
def test_a_full_disk_behind_standard_output_is_a_sentence(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "planner", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "planner: standard output: No space left on device\n"

"""Launch scripts: flags the engines have, layouts that multiply to the plan's GPUs, nothing run by accident."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from plans import FEASIBLE, example, renamed, with_layout

from planner.errors import InfeasibleError, InputError
from planner.export.flag_lists import flag_list
from planner.export.launch import launch_script
from planner.export.roles import deployment, pick, spread
from planner.scenario.safe_yaml import load_yaml
from planner.search.plan_schema import OperatingPoint, Plan

ENGINES = ("vllm", "sglang", "trtllm")
LAYOUTS = (
    {"tp": 8, "moe_tp": 8},
    {"attention_dp": 16, "ep": 16, "redundant_experts": 16},
    {"tp": 2, "attention_dp": 8, "ep": 16},
    {"tp": 8, "pp": 2, "moe_tp": 8},
    {"tp": 2, "attention_dp": 4, "ep": 4, "moe_tp": 2},
)


def commands(script: str) -> list[list[str]]:
    """The commands of a script, word by word."""
    joined = script.replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in joined.splitlines() if line.startswith("exec ")]


def flags_of(words: list[str]) -> list[str]:
    return [w for w in words if w.startswith("-") and not re.fullmatch(r"-\d+", w) and w not in ("-m", "-n")]


def check(plan: Plan, engine: str) -> list[list[str]]:
    script = launch_script(deployment(plan), engine)
    assert subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, check=False).returncode == 0
    found = commands(script)
    assert found
    for words in found:
        known = "sglang-router" if "sglang_router.launch_router" in words else engine
        for flag in flags_of(words):
            if flag == "--hostfile":  # mpirun's own
                continue
            assert flag in flag_list(known), f"{known} has no {flag}"
    for text in re.findall(r"cat > \S+ <<'END_OF_CONFIG'\n(.*?)END_OF_CONFIG\n", script, re.S):
        for key in dotted(load_yaml(text, "config")):
            assert key in flag_list("trtllm"), f"TensorRT-LLM has no {key}"
    return found


def dotted(data: object, prefix: str = "") -> list[str]:
    if not isinstance(data, dict):
        return [prefix]
    return [k for key, value in data.items() for k in dotted(value, f"{prefix}.{key}" if prefix else str(key))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FEASIBLE)
def test_examples_use_flags_that_exist(name: str, engine: str) -> None:
    if name.endswith("mi300x") and engine == "trtllm":
        pytest.skip("TensorRT-LLM has no AMD GPUs: test_vendors.py")
    check(example(name), engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("serving", ["agg", "disagg"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts_multiply_to_the_workers_gpus(layout: dict[str, int], serving: str, engine: str) -> None:
    plan = with_layout(example("deepseek-r1-h200"), serving, **layout)
    role = deployment(plan).roles[0]
    words = check(plan, engine)[0]

    def number(flag: str) -> int:
        return int(words[words.index(flag) + 1]) if flag in words else 1

    if engine == "vllm":
        sizes = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
        assert number(sizes[0]) * number(sizes[1]) * number(sizes[2]) == role.gpus
        assert number("--nnodes") == role.pods
    elif engine == "sglang":
        assert number("--tp-size") * number("--pp-size") == role.gpus
        assert number("--attn-dp-size") == role.layout.attention_dp
        assert number("--nnodes") == role.pods
    elif role.pods > 1:
        assert words[:3] == ["mpirun", "-n", str(role.gpus)]


def test_what_an_engine_cannot_do_is_a_comment() -> None:
    plan = with_layout(example("deepseek-r1-h200"), tp=2, attention_dp=4, ep=4, moe_tp=2)
    assert "# vLLM has no setting for experts in 4 groups of 2 slices" in launch_script(deployment(plan), "vllm")
    assert "no setting for attention TP2 inside attention DP4" in launch_script(deployment(plan), "trtllm")


def test_another_engine_than_the_plans_says_so() -> None:
    text = launch_script(deployment(example("deepseek-r1-h200")), "trtllm")
    assert "do not carry over to TensorRT-LLM" in text.replace("\n# ", " ")


def test_sglang_gives_totals_where_the_server_divides() -> None:
    plan = with_layout(example("deepseek-r1-h200"), attention_dp=8, ep=8)
    settings = plan.candidates[0].settings
    words = commands(launch_script(deployment(plan), "sglang"))[0]
    assert int(words[words.index("--max-running-requests") + 1]) == settings.max_num_seqs * 8
    assert int(words[words.index("--chunked-prefill-size") + 1]) == settings.max_num_batched_tokens * 8


def test_each_pool_starts_with_its_own_settings() -> None:
    plan = with_layout(example("deepseek-r1-h200"), "disagg", tp=8, ep=8)
    first = plan.candidates[0]
    assert first.prefill_pool is not None
    assert first.decode_pool is not None
    own = OperatingPoint(max_num_seqs=14, max_num_batched_tokens=12_288)
    pools = {
        "prefill_pool": first.prefill_pool.model_copy(update={"settings": own}),
        "decode_pool": first.decode_pool.model_copy(update={"settings": first.settings}),
    }
    plan = plan.model_copy(update={"candidates": (first.model_copy(update=pools),)})
    prefill, decode = commands(launch_script(deployment(plan), "vllm"))[:2]
    for words, settings in ((prefill, own), (decode, first.settings)):
        assert int(words[words.index("--max-num-seqs") + 1]) == settings.max_num_seqs
        assert int(words[words.index("--max-num-batched-tokens") + 1]) == settings.max_num_batched_tokens


def test_precision_other_than_the_checkpoints_is_named() -> None:
    plan = example("deepseek-r1-h200")
    precision = {**plan.identity.precision, "routed_experts": "nvfp4", "kv": "fp8_tensor"}
    plan = plan.model_copy(update={"identity": plan.identity.model_copy(update={"precision": precision})})
    text = launch_script(deployment(plan), "vllm")
    assert "routed experts nvfp4 (checkpoint: fp8_block)" in text.replace("\n# ", " ")
    assert "--kv-cache-dtype fp8" in text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text",
    [
        "x; touch HURT",
        "$(touch HURT)",
        "`touch HURT`",
        "a'\"; touch HURT #",
        "x\ntouch HURT\n",
        "--flag",
        "END_OF_CONFIG",
    ],
)
def test_hostile_names_run_nothing(engine: str, text: str, tmp_path: Path) -> None:
    """Runs the script with stand-ins for the engines, which write down their arguments."""
    plan = renamed(with_layout(example("deepseek-r1-h200"), tp=8, moe_tp=8), text)
    for tool in ("vllm", "python", "trtllm-serve", "mpirun"):
        stand_in = tmp_path / tool
        stand_in.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > "$OUT"\n')
        stand_in.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "run.sh").write_text(launch_script(deployment(plan), engine))
    out = tmp_path / "out"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUT": str(out)}
    subprocess.run(["bash", "run.sh", "serve"], cwd=work, env=env, check=True, capture_output=True)
    assert not (work / "HURT").exists()
    words = out.read_text().split("\0")
    assert any(w.removeprefix("./") == " ".join(text.split("\n")).strip() for w in words)


def test_script_starts_the_host_it_is_told_to(tmp_path: Path) -> None:
    plan = with_layout(example("deepseek-r1-h200"), "disagg", "vllm", attention_dp=16, ep=16)
    stand_in = tmp_path / "vllm"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    script = tmp_path / "run.sh"
    script.write_text(launch_script(deployment(plan), "vllm"))
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    def run(*words: str) -> list[str]:
        done = subprocess.run(["bash", str(script), *words], env=env, check=False, capture_output=True, text=True)
        return done.stdout.split("\n") if done.returncode == 0 else [str(done.returncode)]

    first, second = run("decode", "0", "10.0.0.1"), run("decode", "1", "10.0.0.1")
    assert "--headless" not in first
    assert "--port" in first
    assert second[second.index("--node-rank") + 1] == "1"
    assert second[second.index("--master-addr") + 1] == "10.0.0.1"
    assert "--headless" in second
    assert "--port" not in second
    assert run("nonsense") == ["2"]


def test_hosts_of_a_rack_are_its_trays() -> None:
    plan = with_layout(example("kimi-k2-gb200"), attention_dp=16, ep=16)
    role = deployment(plan).roles[0]
    assert (role.pods, role.gpus_per_pod) == (4, 4)


@pytest.mark.parametrize(
    ("gpus", "host", "hosts"), [(8, 8, 1), (16, 8, 2), (12, 8, 2), (1, 8, 1), (20, 8, 4), (9, 8, 3)]
)
def test_workers_lie_evenly_on_hosts(gpus: int, host: int, hosts: int) -> None:
    assert spread(gpus, host) == hosts
    assert gpus % hosts == 0
    assert gpus // hosts <= host


def test_choice_of_the_candidate() -> None:
    plan = example("deepseek-r1-h200")
    assert pick(plan, 2).rank == 2
    with pytest.raises(InputError, match="rank from 1"):
        pick(plan, 999)
    with pytest.raises(InfeasibleError, match="memory"):
        pick(example("infeasible-405b-one-h100"))

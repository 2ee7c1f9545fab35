"""Several workers on a host: each has its own GPUs and ports."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from plans import example, with_layout

from planner.export.launch import launch_script
from planner.export.roles import deployment
from planner.search.plan_schema import Plan

STAND_IN = """#!/bin/bash
echo "${CUDA_VISIBLE_DEVICES-}|${HIP_VISIBLE_DEVICES-}|${VLLM_NIXL_SIDE_CHANNEL_PORT-}|$*" >> "$OUT"
exit "${FAIL-0}"
"""


def alike(plan: Plan, workers: int) -> Plan:
    first = plan.candidates[0].model_copy(update={"replicas": workers})
    return plan.model_copy(update={"candidates": (first,)})


def start(script: str, tmp_path: Path, *words: str, fail: int = 0) -> tuple[int, list[list[str]]]:
    """Runs a script with stand-ins for the engines; what each worker saw, in order of its devices."""
    for tool in ("vllm", "python", "trtllm-serve"):
        (tmp_path / tool).write_text(STAND_IN)
        (tmp_path / tool).chmod(0o755)
    out = tmp_path / "out"
    out.write_text("")
    (tmp_path / "run.sh").write_text(script)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUT": str(out), "FAIL": str(fail)}
    done = subprocess.run(["bash", "run.sh", *words], cwd=tmp_path, env=env, check=False, capture_output=True)
    return done.returncode, sorted(line.split("|") for line in out.read_text().splitlines())


def port(seen: list[str]) -> int:
    words = seen[3].split()
    return int(words[words.index("--port") + 1])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_three_workers_of_two_amd_gpus(engine: str, tmp_path: Path) -> None:
    plan = alike(with_layout(example("llama-3.3-70b-mi300x"), tp=2, moe_tp=2), 3)
    text = launch_script(deployment(plan), engine)
    assert "3 workers of 2 GPUs share one host" in text.replace("\n# ", " ")
    code, seen = start(text, tmp_path)
    assert code == 0
    assert [s[1] for s in seen] == ["0,1", "2,3", "4,5"]
    assert [port(s) for s in seen] == [8000, 8100, 8200]
    assert all(s[0] == "" for s in seen)


def test_nvidia_gpus_and_a_configuration_file(tmp_path: Path) -> None:
    plan = alike(with_layout(example("gpt-oss-120b-h100"), tp=1), 8)
    _, seen = start(launch_script(deployment(plan), "trtllm"), tmp_path)
    assert [s[0] for s in seen] == [str(i) for i in range(8)]
    assert sorted(port(s) for s in seen) == [8000 + 100 * i for i in range(8)]
    assert (tmp_path / "serve.yaml").exists()


@pytest.mark.parametrize(("host", "workers"), [((), 4), (("1",), 4), (("2",), 1)])
def test_the_last_host_has_the_rest(host: tuple[str, ...], workers: int, tmp_path: Path) -> None:
    text = launch_script(deployment(alike(with_layout(example("llama-3.3-70b-mi300x"), tp=2, moe_tp=2), 9)), "vllm")
    code, seen = start(text, tmp_path, *host)
    assert (code, len(seen)) == (0, workers)


@pytest.mark.parametrize("host", ["3", "x", "-1"])
def test_a_host_that_is_not_there_starts_nothing(host: str, tmp_path: Path) -> None:
    text = launch_script(deployment(alike(with_layout(example("llama-3.3-70b-mi300x"), tp=2, moe_tp=2), 9)), "vllm")
    assert start(text, tmp_path, host) == (2, [])


def test_a_worker_that_fails_is_the_scripts_status(tmp_path: Path) -> None:
    text = launch_script(deployment(alike(with_layout(example("llama-3.3-70b-mi300x"), tp=2, moe_tp=2), 3)), "vllm")
    assert start(text, tmp_path, fail=7)[0] == 7


def test_one_worker_of_a_host_needs_no_devices() -> None:
    text = launch_script(deployment(alike(with_layout(example("llama-3.3-70b-mi300x"), tp=2, moe_tp=2), 1)), "vllm")
    assert "VISIBLE" not in text
    assert "\nexec vllm serve" in text


def test_pools_that_share_hosts_have_bootstrap_ports_which_the_router_knows(tmp_path: Path) -> None:
    plan = with_layout(example("gpt-oss-120b-h100"), "disagg", "sglang", tp=4, moe_tp=4)
    text = launch_script(deployment(plan), "sglang")
    _, seen = start(text, tmp_path, "prefill")
    assert [s[0] for s in seen] == ["0,1,2,3", "4,5,6,7"]
    ports = [s[3].split()[-1] for s in seen]
    assert ports == ["8998", "9098"]
    _, router = start(text, tmp_path, "router")
    assert "--prefill http://prefill-0:8000 8998 --prefill http://prefill-0:8100 9098" in router[0][3]
    assert "--decode http://decode-0:8000 --decode http://decode-0:8100" in router[0][3]


def test_vllm_workers_of_a_pool_have_their_own_side_channel(tmp_path: Path) -> None:
    plan = with_layout(example("gpt-oss-120b-h100"), "disagg", "vllm", tp=4, moe_tp=4)
    _, seen = start(launch_script(deployment(plan), "vllm"), tmp_path, "decode")
    assert [s[2] for s in seen] == ["5600", "5604"]

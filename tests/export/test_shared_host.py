"""Several workers on a host: each has its own GPUs and ports."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from plans import example, with_layout

from planner.catalog import catalog
from planner.export.launch import launch_script
from planner.export.roles import deployment
from planner.search.plan_schema import Layout, Plan, Pool

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


def on_the_same_hosts(engine: str, *pools: tuple[int, int]) -> Plan:
    """(workers, TP) of a prefill and a decode pool that stand on the same nodes."""
    plan = with_layout(example("gpt-oss-120b-h100"), "disagg", engine, tp=4, moe_tp=4)
    first = plan.candidates[0]
    changes: dict[str, object] = {"shared_nodes": 1}
    for name, (workers, tp) in zip(("prefill_pool", "decode_pool"), pools, strict=True):
        layout = Layout(tp=tp, moe_tp=tp)
        changes[name] = Pool(node=first.node, layout=layout, workers=workers, gpus=workers * tp)
    return plan.model_copy(update={"candidates": (first.model_copy(update=changes),)})


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("pools", [((1, 4), (1, 4)), ((5, 1), (3, 2)), ((3, 4), (9, 1)), ((2, 3), (4, 2))])
def test_workers_of_both_pools_on_one_host_have_gpus_and_ports_of_their_own(
    engine: str, pools: tuple[tuple[int, int], tuple[int, int]], tmp_path: Path
) -> None:
    d = deployment(on_the_same_hosts(engine, *pools))
    text = launch_script(d, engine)
    per_host = catalog().node(d.candidate.node).gpus
    started: dict[str, set[str]] = {role.name: set() for role in d.roles}
    for host in range(max(role.hosts for role in d.roles)):
        devices: list[str] = []
        ports: list[int] = []
        for role, (_, tp) in zip(d.roles, pools, strict=True):
            code, seen = start(text, tmp_path, role.name, str(host))
            assert code in (0, 2)  # a host may have workers of one pool alone
            for worker in seen:
                assert len(worker[0].split(",")) == tp
                devices += worker[0].split(",")
                ports.append(port(worker))
                started[role.name].add(f"host-{host}:{port(worker)}")
                if engine == "vllm":  # one port a rank, behind each other
                    assert int(worker[2]) == 5600 + int(worker[0].split(",")[0])
        assert len(set(devices)) == len(devices) <= per_host
        assert all(0 <= int(g) < per_host for g in devices)
        assert len(set(ports)) == len(ports)
    assert {name: len(found) for name, found in started.items()} == {
        role.name: workers for role, (workers, _) in zip(d.roles, pools, strict=True)
    }
    if engine == "sglang":
        _, router = start(text, tmp_path, "router")
        assert set(router[0][3].replace("http://", "").split()) >= started["prefill"] | started["decode"]
    if engine == "trtllm":
        assert all(url in text for url in started["prefill"] | started["decode"])


def test_pools_on_one_host_are_told_apart_in_words() -> None:
    text = launch_script(deployment(on_the_same_hosts("sglang", (2, 2), (1, 4))), "sglang").replace("\n# ", " ")
    assert "prefill on dgx-h100: 2 workers of 2 GPUs on hosts that both pools share" in text
    assert "on host 0 2 on GPUs 4 to 7, ports 8100 to 8200." in text
    assert "on host 0 1 on GPUs 0 to 3, port 8000." in text
    assert "Workers' ports begin at 8000: port 7900 is free for the router on any host." in text


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(
    ("pools", "only", "host", "absent"),
    [(((3, 4), (1, 4)), "decode", 1, 0), (((2, 2), (1, 8)), "prefill", 1, 0), (((9, 1), (1, 4)), "decode", 0, 1)],
)
def test_a_pool_on_one_of_the_shared_hosts_names_that_host_and_starts_there(
    engine: str, pools: tuple[tuple[int, int], tuple[int, int]], only: str, host: int, absent: int, tmp_path: Path
) -> None:
    text = launch_script(deployment(on_the_same_hosts(engine, *pools)), engine)
    assert f"{only}: workers on host {host}; NODE_RANK is the host, without it {host}." in text.replace("\n# ", " ")
    code, seen = start(text, tmp_path, only)
    assert (code, bool(seen)) == (0, True)
    assert (code, seen) == start(text, tmp_path, only, str(host))
    for word in (str(absent), "x"):
        done = subprocess.run(["bash", "run.sh", only, word], cwd=tmp_path, check=False, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.endswith(f"{word}: {only} workers are on host {host}\n")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("pools", [((3, 2), (1, 2)), ((5, 1), (3, 1))])
def test_the_router_runs_on_the_one_host_that_has_all_workers(
    engine: str, pools: tuple[tuple[int, int], tuple[int, int]], tmp_path: Path
) -> None:
    text = launch_script(deployment(on_the_same_hosts(engine, *pools)), engine)
    workers = [port(seen) for role in ("prefill", "decode") for seen in start(text, tmp_path, role)[1]]
    assert len(workers) == sum(count for count, _ in pools)
    front = int(text.replace("\n# ", " ").split(" is free for the router")[0].split()[-1])
    assert front not in workers
    if engine == "vllm":  # it has no router of its own
        return
    _, router = start(text, tmp_path, "router")
    if engine == "sglang":
        assert port(router[0]) == front
        found = re.findall(r"http://(\S+):(\d+)", router[0][3])
    else:
        config = yaml.safe_load((tmp_path / "disaggregated.yaml").read_text())
        assert config["port"] == front
        found = [u.split(":") for side in ("context_servers", "generation_servers") for u in config[side]["urls"]]
    assert {name for name, _ in found} == {"host-0"}
    assert [int(number) for _, number in found] == workers
